"""A pack that is written: read by our reader, by sha256sum, and the same bytes every time."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.pack import read_pack, shipped_pack
from helitune.acfs.pack_faults import check_pack
from helitune.acfs.pack_writer import PackedAcf, PackHead, pack_contents, write_pack
from helitune.acfs.whole_folder import write_folder

NOTICE = "The NOTICE, word for word.\n"
HEAD = PackHead(
    pack_id="winners",
    description="ACFs that won",
    cuda_version="13.3",
    supported_gpus=("sm_90",),
    passed=True,
    evidence="2 of 2 winners were measured FASTER",
)
REAL = sorted(shipped_pack().glob("*.acf"))[:2]


def packed(path: Path, *kernels: str) -> PackedAcf:
    provenance = tuple({"kernel": kernel, "shapes": ["f16[4096,2560]"]} for kernel in kernels)
    return PackedAcf(path.read_bytes(), f"won for {' and '.join(kernels)}", provenance)


ACFS = (packed(REAL[0], "softmax"), packed(REAL[1], "rms_norm", "layer_norm"))


def manifest(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "booster-pack-manifest.json").read_text())
    return document


def test_the_reader_accepts_every_acf_with_what_it_is_for(tmp_path: Path) -> None:
    written = write_pack(tmp_path / "out", HEAD, ACFS, notice=NOTICE)
    pack = read_pack(tmp_path / "out", ptxas_version="13.3.73", arch="sm_90")
    assert [acf.sha256[:16] for acf in pack.accepted] == [path.stem for path in REAL]
    assert {(acf.arch, acf.toolkit) for acf in pack.accepted} == {(("sm_90",), "13.3")}
    assert (pack.name, pack.refused, pack.notice) == ("winners", (), NOTICE)
    assert (written.accepted, written.refused) == (pack.accepted, ())
    assert check_pack(tmp_path / "out")[1] == ()


def test_it_is_refused_whole_for_another_ptxas_or_architecture(tmp_path: Path) -> None:
    write_pack(tmp_path / "out", HEAD, ACFS, notice=NOTICE)
    for version, arch in (("13.4.92", "sm_90"), ("13.3.73", "sm_100")):
        assert read_pack(tmp_path / "out", ptxas_version=version, arch=arch).accepted == ()


def test_what_each_acf_was_validated_on_is_in_the_manifest(tmp_path: Path) -> None:
    write_pack(tmp_path / "out", HEAD, ACFS, notice=NOTICE)
    entries = {entry["filename"]: entry for entry in manifest(tmp_path / "out")["acfs"]}
    second = entries[REAL[1].name]
    assert [record["kernel"] for record in second["provenance"]] == ["layer_norm", "rms_norm"]
    assert (second["size_bytes"], second["compiler_stages"]) == (REAL[1].stat().st_size, ["ptxas"])
    assert "won for softmax" in entries[REAL[0].name]["description"]
    assert manifest(tmp_path / "out")["validation_summary"]["status"] == "passed"


def test_sha256sum_agrees_with_all_files(tmp_path: Path) -> None:
    write_pack(tmp_path / "out", HEAD, ACFS, notice=NOTICE)
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum on this system")
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    named = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert named == {path.name for path in (tmp_path / "out").iterdir()} - {"SHA256SUMS"}


def test_the_order_of_winners_does_not_show(tmp_path: Path) -> None:
    turned = (packed(REAL[1], "layer_norm", "rms_norm"), packed(REAL[0], "softmax"))
    turned = tuple(
        PackedAcf(t.content, a.description, t.provenance) for t, a in zip(turned, ACFS[::-1], strict=True)
    )
    assert pack_contents(HEAD, turned, notice=NOTICE) == pack_contents(HEAD, ACFS, notice=NOTICE)


def test_without_a_measurement_of_all_it_has_not_passed() -> None:
    head = PackHead("w", "", "13.3", ("sm_90",), passed=False, evidence="1 of 2")
    document = json.loads(pack_contents(head, ACFS, notice=NOTICE)["booster-pack-manifest.json"])
    assert document["validation_summary"] == {"status": "pending", "evidence": "1 of 2"}


@pytest.mark.parametrize("there", ["folder", "full folder", "file", "dangling link"])
def test_what_is_there_is_not_overwritten(tmp_path: Path, there: str) -> None:
    target = tmp_path / "out"
    if there == "file":
        target.write_text("mine")
    elif there == "dangling link":
        target.symlink_to("nothing")
    else:
        target.mkdir()
        if there == "full folder":
            (target / "mine").write_text("mine")
    before = sorted((str(path), path.is_symlink()) for path in tmp_path.rglob("*"))
    with pytest.raises(InputError, match="there is something already"):
        write_pack(target, HEAD, ACFS, notice=NOTICE)
    assert sorted((str(path), path.is_symlink()) for path in tmp_path.rglob("*")) == before


def test_a_pack_of_more_files_than_a_pack_may_have_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    many = [PackedAcf(b"%d" % number, "", ()) for number in range(4096)]
    with pytest.raises(InputError, match="too many winners"):
        write_pack(tmp_path / "out", HEAD, many, notice=NOTICE)
    assert list(tmp_path.iterdir()) == []


class TestWholeFolder:
    def test_a_folder_that_cannot_be_written_is_a_machine_error_and_leaves_nothing(
        self, users_folder: Path
    ) -> None:
        users_folder.chmod(0o500)
        with pytest.raises(MachineError, match="cannot write"):
            write_folder(users_folder / "out", {"a": b"1"})
        assert list(users_folder.iterdir()) == []

    def test_a_write_that_fails_halfway_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(MachineError, match="cannot write"):
            write_folder(tmp_path / "out", {"a": b"1", "no/such/folder": b"2"})
        assert list(tmp_path.iterdir()) == []

    def test_a_replacement_that_fails_leaves_the_old_one(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "out", {"a": b"old"})
        with pytest.raises(MachineError):
            write_folder(tmp_path / "out", {"a": b"new", "no/such/folder": b""}, replace=True)
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert (tmp_path / "out" / "a").read_bytes() == b"old"

    def test_a_new_one_that_cannot_take_its_place_leaves_the_old_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_folder(tmp_path / "out", {"a": b"old"})
        rename = Path.rename

        def no_new_one(path: Path, target: Path) -> Path:
            if path.suffix == ".tmp":
                raise OSError(errno.EIO, "Input/output error")
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", no_new_one)
        with pytest.raises(MachineError, match="Input/output error"):
            write_folder(tmp_path / "out", {"a": b"new"}, replace=True)
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert (tmp_path / "out" / "a").read_bytes() == b"old"

    @pytest.mark.parametrize("old", ["folder", "file", "link"])
    def test_a_replacement_has_its_own_files_only(self, tmp_path: Path, old: str) -> None:
        elsewhere = tmp_path / "elsewhere"
        write_folder(elsewhere, {"theirs": b"theirs"})
        target = tmp_path / "out"
        if old == "folder":
            write_folder(target, {"a": b"old", "b": b"old"})
        elif old == "file":
            target.write_text("old")
        else:
            target.symlink_to(elsewhere)
        write_folder(target, {"a": b"new"}, replace=True)
        assert not target.is_symlink()
        assert [(path.name, path.read_bytes()) for path in target.iterdir()] == [("a", b"new")]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "out"]
        assert (elsewhere / "theirs").read_bytes() == b"theirs"
