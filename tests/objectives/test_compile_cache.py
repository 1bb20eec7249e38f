"""The compile cache: torn and foreign entries read as absent, it stays below its bound, and never gets in the way."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helitune.objectives.compile_cache import DEFAULT_MAX_BYTES, TRIMMED_FRACTION, CompileCache

KEYS = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(20)]
KEY = KEYS[0]


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@given(content=st.binary(max_size=200))
def test_what_was_put_is_got(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp() / "put-and-get"
    CompileCache(root).put("ptx", KEY, content)
    assert CompileCache(root).get("ptx", KEY) == content


def test_kinds_and_keys_are_apart(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("ptx", KEY, b"one")
    assert cache.get("cubin", KEY) is None
    assert cache.get("ptx", KEYS[1]) is None


def test_a_second_put_replaces_the_first(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("ptx", KEY, b"one")
    cache.put("ptx", KEY, b"two")
    assert cache.get("ptx", KEY) == b"two"
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("length", range(0, 66, 5))
def test_a_torn_entry_reads_as_absent_and_is_removed(length: int, tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("ptx", KEY, b"0123456789")
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get("ptx", KEY) is None
    assert files(tmp_path) == []
    cache.put("ptx", KEY, b"again")
    assert cache.get("ptx", KEY) == b"again"


@pytest.mark.parametrize("content", [b"", b"\n", b"no checksum", b"0" * 64 + b"\nwrong", b"\n\n\n"])
def test_an_entry_with_a_wrong_checksum_reads_as_absent(content: bytes, tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("ptx", KEY, b"right")
    files(tmp_path)[0].write_bytes(content)
    assert cache.get("ptx", KEY) is None


def fill(cache: CompileCache, root: Path, count: int, size: int = 935) -> None:
    """`count` entries of size + 65 bytes each, used one after the other, KEYS[0] first."""
    for age, key in enumerate(KEYS[:count]):
        cache.put("ptx", key, bytes(size))
        os.utime(root / "ptx" / key[:2] / key, (1000 + age, 1000 + age))


def kept(cache_root: Path) -> set[str]:
    return {path.name for path in files(cache_root)}


def test_below_the_bound_nothing_is_trimmed(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=10_000)
    fill(cache, tmp_path, 10)
    assert cache.trim() == 0
    assert kept(tmp_path) == set(KEYS[:10])


def test_the_least_recently_used_go_first_and_the_bound_holds_with_room_to_spare(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=10_000)
    fill(cache, tmp_path, 12)
    assert cache.trim() == 4_000
    assert kept(tmp_path) == set(KEYS[4:12])
    assert sum(path.stat().st_size for path in files(tmp_path)) <= TRIMMED_FRACTION * 10_000
    assert cache.trim() == 0


def test_reading_makes_an_entry_recently_used(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=10_000)
    fill(cache, tmp_path, 12)
    assert cache.get("ptx", KEYS[0]) is not None
    cache.trim()
    assert kept(tmp_path) == {KEYS[0], *KEYS[5:12]}


def test_temporary_files_of_a_killed_writer_are_trimmed_too(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=1000)
    cache.put("ptx", KEY, b"")
    left = tmp_path / "ptx" / KEY[:2] / ".0123456789abcdef.tmp"
    left.write_bytes(bytes(5000))
    os.utime(left, (1000, 1000))
    assert cache.trim() == 5000
    assert kept(tmp_path) == {KEY}


def test_trimming_an_absent_cache_removes_nothing(tmp_path: Path) -> None:
    assert CompileCache(tmp_path / "absent", max_bytes=0).trim() == 0


def test_the_bound_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELITUNE_CACHE_MAX_BYTES", "10000")
    cache = CompileCache(tmp_path)
    fill(cache, tmp_path, 12)
    assert cache.trim() == 4_000
    monkeypatch.setenv("HELITUNE_CACHE_MAX_BYTES", "a lot")
    fill(CompileCache(tmp_path), tmp_path, 12)
    assert CompileCache(tmp_path).trim() == 0
    assert DEFAULT_MAX_BYTES > 12_000


@pytest.mark.parametrize("place", ["", "ptx", f"ptx/{KEY[:2]}", f"ptx/{KEY[:2]}/{KEY}/below"])
def test_something_else_in_the_place_of_a_folder_or_entry_leaves_it_without_a_cache(
    place: str, tmp_path: Path
) -> None:
    root = tmp_path / "cache"
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text("a file of somebody's")
    cache = CompileCache(root, max_bytes=10)
    cache.put("ptx", KEY, b"content")
    assert cache.get("ptx", KEY) is None
    assert (root / place).read_text() == "a file of somebody's"
    assert not list(root.rglob("*.tmp"))


@pytest.fixture
def anothers_cache() -> Iterator[Path]:
    """A cache of one entry that this process, then an ordinary user, may read and not write."""
    root = Path(tempfile.mkdtemp(prefix="helitune-test-"))
    CompileCache(root).put("ptx", KEY, b"content")
    for folder in (root / "ptx" / KEY[:2], root / "ptx", root):
        folder.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield root
    finally:
        if was_root:
            os.seteuid(0)
        for folder in (root, root / "ptx", root / "ptx" / KEY[:2]):
            folder.chmod(0o755)
        shutil.rmtree(root)


def test_a_read_only_cache_is_read_and_left_as_it_is(anothers_cache: Path) -> None:
    cache = CompileCache(anothers_cache, max_bytes=0)
    assert cache.get("ptx", KEY) == b"content"
    cache.put("ptx", KEYS[1], b"more")
    assert cache.get("ptx", KEYS[1]) is None
    assert cache.trim() == 0
    assert kept(anothers_cache) == {KEY}


def test_a_torn_entry_that_cannot_be_removed_reads_as_absent(anothers_cache: Path) -> None:
    os.seteuid(os.getuid())
    files(anothers_cache)[0].write_bytes(b"torn")
    if os.getuid() == 0:
        os.seteuid(65534)
    assert CompileCache(anothers_cache).get("ptx", KEY) is None


def test_writers_at_the_same_time_never_show_half_an_entry(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=3 << 20)
    contents = {bytes([i]) * (200_000 + i) for i in range(4)}
    wrong: list[bytes] = []

    def write(content: bytes) -> None:
        for _ in range(40):
            cache.put("cubin", KEY, content)
            found = cache.get("cubin", KEY)
            if found is not None and found not in contents:
                wrong.append(found)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, contents))
    assert wrong == []
    assert cache.get("cubin", KEY) in contents
    assert [path.name for path in files(tmp_path)] == [KEY]


def test_processes_that_write_and_trim_the_same_cache_do_not_fail(tmp_path: Path) -> None:
    code = (
        "import hashlib, sys\n"
        "from pathlib import Path\n"
        "from helitune.objectives.compile_cache import CompileCache\n"
        "cache = CompileCache(Path(sys.argv[1]), max_bytes=20_000)\n"
        "for i in range(300):\n"
        "    key = hashlib.sha256(str(i % 40).encode()).hexdigest()\n"
        "    found = cache.get('ptx', key)\n"
        "    assert found in (None, bytes([i % 40]) * 1000), key\n"
        "    cache.put('ptx', key, bytes([i % 40]) * 1000)\n"
        "    if i % 10 == 0:\n"
        "        cache.trim()\n"
        "cache.trim()\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    errors = [process.communicate(timeout=60)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 20_000
