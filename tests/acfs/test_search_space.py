"""The search space file: found, remembered by its content, and never guessed at."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from helitune.acfs import search_space
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.acfs.search_space import AUTO, FOLDER_VARIABLE, find_search_space, read_search_space

CONTENT = b"opaque to everybody but CompileIQ"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def ptxas(version: str = "13.3.73") -> Ptxas:
    return Ptxas(Path("/ptxas"), version, "ab" * 32)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as CompileIQ mirrors its releases, with a space for ptxas 13.3."""
    (tmp_path / "ptxas13.3.bin").write_bytes(CONTENT)
    entry = {
        "compiler": "ptxas",
        "compiler_version": "13.3",
        "filename": "ptxas13.3.bin",
        "sha256": SHA256,
        "size_bytes": len(CONTENT),
    }
    manifest = {"manifest_format": "1.0.0", "tag": "t", "generated_at": "now", "entries": [entry]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_auto_is_compileiqs_space_for_the_ptxas_in_use(mirror: Path) -> None:
    found = find_search_space(AUTO, ptxas())
    assert (found.path, found.sha256) == (mirror / "ptxas13.3.bin", SHA256)
    assert found.name == f"ptxas13.3.bin ({SHA256[:12]})"


def test_a_ptxas_that_compileiq_has_no_space_for(mirror: Path) -> None:
    with pytest.raises(MachineError, match=r"no search space for ptxas 13\.5"):
        find_search_space(AUTO, ptxas("13.5.37"))


@pytest.mark.parametrize("broken", ["bin", "manifest"])
def test_a_broken_mirror_is_said_in_one_line(mirror: Path, broken: str) -> None:
    (mirror / ("ptxas13.3.bin" if broken == "bin" else "manifest.json")).write_text("{ something else")
    with pytest.raises(MachineError, match="does not find the search space") as raised:
        find_search_space(AUTO, ptxas())
    assert FOLDER_VARIABLE in raised.value.next_step and "\n" not in raised.value.line()


def test_a_file_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.bin").write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    assert find_search_space("mine.bin", ptxas()).path == tmp_path / "mine.bin"


@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "large", "\0"])
def test_what_cannot_be_one_is_refused(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_space, "MAX_BYTES", 10)
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind in ("empty", "large"):
        path.write_bytes(CONTENT if kind == "large" else b"")
    with pytest.raises(InputError) as raised:
        read_search_space(path)
    assert raised.value.next_step
