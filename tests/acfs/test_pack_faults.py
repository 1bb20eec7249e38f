"""What `check_pack` finds beyond what a reader refuses: all of SHA256SUMS, other files too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from acf_packs import describe

from helitune.acfs.pack import shipped_pack
from helitune.acfs.pack_faults import check_pack

TWO = {"a.acf": b"first", "b.acf": b"second"}
WritePack = Callable[..., Path]


def sums(contents: dict[str, bytes]) -> str:
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())


def faults(folder: Path) -> dict[str, str]:
    return {fault.file: fault.reason for fault in check_pack(folder)[1]}


def test_a_sound_pack_has_none(write_pack: WritePack) -> None:
    folder = write_pack({**TWO, "NOTICE": b"text"}, manifest={"acfs": describe(TWO)["acfs"]})
    (folder / "SHA256SUMS").write_text(sums({**TWO, "NOTICE": b"text"}))
    assert faults(folder) == {}
    assert faults(shipped_pack()) == {}


def test_beside_a_manifest_the_sums_are_checked_too(write_pack: WritePack) -> None:
    folder = write_pack({**TWO, "NOTICE": b"changed"}, manifest={"acfs": describe(TWO)["acfs"]})
    listed = {"a.acf": b"other", "NOTICE": b"text", "gone.md": b"", "../up.acf": b""}
    (folder / "SHA256SUMS").write_text(sums(listed))
    found = faults(folder)
    assert found.pop("a.acf").startswith("sha256 is ") and found.pop("NOTICE").startswith("sha256 is ")
    assert found == {
        "b.acf": "not listed in SHA256SUMS",
        "gone.md": "listed in SHA256SUMS, but missing",
        "../up.acf": "SHA256SUMS names a path, not a file of the pack",
    }


def test_a_listed_text_that_leads_out_of_the_pack_is_not_read(write_pack: WritePack, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    folder = write_pack(TWO)
    (folder / "NOTICE").symlink_to(tmp_path / "secret")
    (folder / "SHA256SUMS").write_text(sums({**TWO, "NOTICE": b"secret"}))
    assert faults(folder) == {"NOTICE": "a symbolic link that leaves the pack"}


def test_repeated_and_stray_files_are_no_faults(write_pack: WritePack) -> None:
    folder = write_pack({**TWO, "again.acf": b"first", "odd.txt": b"x"})
    pack, found = check_pack(folder)
    assert found == ()
    assert {refusal.file for refusal in pack.refused} == {"again.acf", "odd.txt"}


@pytest.mark.parametrize("content", [b"", bytes(2**20 + 1)])
def test_a_file_that_is_no_acf_is_a_fault(write_pack: WritePack, content: bytes) -> None:
    assert list(faults(write_pack({"a.acf": content}))) == ["a.acf"]


def test_an_empty_pack_is_a_fault(write_pack: WritePack) -> None:
    assert faults(write_pack({"README": b"text"})) == {".": "holds no ACF"}
