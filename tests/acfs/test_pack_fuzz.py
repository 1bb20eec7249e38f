"""10,000 damaged manifests and zips of a real pack: never a traceback, a file elsewhere, or much memory."""

from __future__ import annotations

import random
import shutil
import tempfile
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from helitune.acfs.errors import InputError
from helitune.acfs.pack import read_pack, shipped_pack
from helitune.acfs.pack_import import import_pack

SEED = 20261129
MANIFESTS, ZIPS = 7_000, 3_000
PEAK_BYTES = 24 << 20
ACFS = 3

TOKENS = (
    b"null", b"true", b"[", b"]", b"{", b"}", b'"', b",", b"-1", b"1e999", b"NaN", b"9" * 5000, b"\\u0000",
    b"\\ud800", b"\xff", b"\x00", b"\n", b'"../../evil.acf"', b'"/tmp/evil.acf"', b'"C:evil.acf"', b"..", b"/",
    b"[" * 2000, b'"acfs": [', b'"filename": ', b'"size_bytes": ', b'"compiler_stages": ["nvcc"],', b"PK\x01\x02",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for all that the reader may write, which is also the working one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("HELITUNE_PACK_DIR", str(tmp_path / "packs"))
    (tmp_path / "scratch").mkdir()
    return tmp_path


@pytest.fixture
def real_pack(place: Path) -> Path:
    """The shipped manifest with the first of its ACFs; the others are missing, which costs no time to read."""
    folder = place / "pack"
    folder.mkdir()
    for path in sorted(shipped_pack().glob("*.acf"))[:ACFS]:
        shutil.copy(path, folder)
    shutil.copy(shipped_pack() / "booster-pack-manifest.json", folder)
    shutil.copy(shipped_pack() / "NOTICE", folder)
    return folder


def damaged(rng: random.Random, content: bytes) -> bytes:
    """`content` after one to six small accidents."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        start = rng.randrange(len(changed) + 1)
        stop = min(len(changed), start + rng.randint(1, 40))
        match rng.randrange(6):
            case 0 if changed:
                changed[start % len(changed)] = rng.randrange(256)
            case 1:
                del changed[start:stop]
            case 2:
                changed[start:start] = changed[start:stop]
            case 3:
                changed[start:start] = rng.choice(TOKENS)
            case 4:
                changed[start:stop] = rng.choice(TOKENS)
            case 5 if rng.random() < 0.1:
                del changed[start:]
    return bytes(changed)


def outcomes(count: int, attempt: Callable[[int], object]) -> Counter[str]:
    """How many of `count` attempts came through and how many were refused; anything else raised is an error."""
    seen: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for number in range(count):
            try:
                attempt(number)
                seen["read"] += 1
            except InputError as error:
                assert "\n" not in error.line() and error.line().isprintable()
                seen["refused"] += 1
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES
    finally:
        tracemalloc.stop()
    return seen


@pytest.mark.slow
def test_damaged_manifests(place: Path, real_pack: Path) -> None:
    rng = random.Random(SEED)
    path = real_pack / "booster-pack-manifest.json"
    sound = path.read_bytes()
    before = sorted(place.rglob("*"))

    def attempt(number: int) -> None:
        path.write_bytes(damaged(rng, sound))
        pack = read_pack(real_pack, ptxas_version="13.3.73", arch="sm_90", force=number % 2 == 0)
        assert all(acf.path is not None and acf.path.parent == real_pack.resolve() for acf in pack.accepted)
        assert all(refusal.file.isprintable() and refusal.reason.isprintable() for refusal in pack.refused)

    seen = outcomes(MANIFESTS, attempt)
    assert min(seen["read"], seen["refused"]) > MANIFESTS // 50, seen
    assert sorted(place.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_damaged_zips(place: Path, real_pack: Path) -> None:
    rng = random.Random(SEED)
    archive = place / "pack.zip"
    (real_pack / "booster-pack-manifest.json").unlink()  # what is left of the pack is whole
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        for path in sorted(real_pack.iterdir()):
            writer.write(path, f"pack/{path.name}")
    sound = archive.read_bytes()
    expected = {"pack", "pack.zip", "packs", "scratch"}

    def attempt(number: int) -> None:
        archive.write_bytes(damaged(rng, sound) if number else sound)
        try:
            imported = import_pack(archive, name=f"p{number}")
            assert sorted(path.name for path in (place / "packs").iterdir()) == [imported.name]
            shutil.rmtree(imported.path)
        finally:
            assert {path.name for path in place.iterdir()} <= expected
            assert all(path.name.startswith("helitune-pack-") for path in (place / "scratch").iterdir())
            for path in (place / "scratch").iterdir():
                shutil.rmtree(path)

    seen = outcomes(ZIPS, attempt)
    assert min(seen["read"], seen["refused"]) > ZIPS // 50, seen
    assert list((place / "packs").iterdir()) == []
