from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.store import AcfStore


def acf_at(path: Path, content: bytes) -> Acf:
    path.write_bytes(content)
    return Acf("mine", hashlib.sha256(content).hexdigest(), path, ("sm_90",), "13.3")


@contextmanager
def no_file_larger_than(limit_bytes: int) -> Iterator[None]:
    """Let every larger write fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_added_acf_keeps_everything_but_its_path(tmp_path):
    acf = acf_at(tmp_path / "a.acf", b"first")
    stored = AcfStore(tmp_path / "store").add(acf)
    assert stored == Acf("mine", acf.sha256, tmp_path / "store" / f"{acf.sha256}.acf", ("sm_90",), "13.3")
    assert stored.path.read_bytes() == b"first"


def test_the_same_path_with_new_content_gets_a_new_path(tmp_path):
    store = AcfStore(tmp_path / "store")
    first = store.add(acf_at(tmp_path / "a.acf", b"first"))
    second = store.add(acf_at(tmp_path / "a.acf", b"second"))
    assert first.path != second.path
    assert (first.path.read_bytes(), second.path.read_bytes()) == (b"first", b"second")


def test_no_acf_is_kept_as_it_is(tmp_path):
    assert AcfStore(tmp_path / "store").add(NO_ACF) is NO_ACF


def test_content_from_a_search_is_stored_as_a_file_is(tmp_path):
    store = AcfStore(tmp_path / "store")
    stored = store.add_content(b"first", name="evolved", arch=("sm_90",), toolkit="13.3")
    assert stored.path == store.add(acf_at(tmp_path / "a.acf", b"first")).path
    assert (stored.name, stored.path.read_bytes()) == ("evolved", b"first")


def test_what_is_there_is_not_written_again_and_what_was_altered_is(tmp_path):
    store = AcfStore(tmp_path / "store")
    acf = acf_at(tmp_path / "a.acf", b"first")
    path = store.add(acf).path
    before = path.stat().st_ino
    assert store.add(acf).path.stat().st_ino == before
    for wrong in (b"", b"fir", b"FIRST", b"first and more"):
        path.write_bytes(wrong)
        assert store.add(acf).path.read_bytes() == b"first"
    assert [entry.name for entry in store.root.iterdir()] == [path.name]


@pytest.mark.parametrize("now", [b"changed", b"", bytes(2**20 + 1), None])
def test_a_file_that_changed_since_its_pack_was_read_is_an_input_error(tmp_path, now):
    acf = acf_at(tmp_path / "a.acf", b"first")
    if now is None:
        acf.path.unlink()
    else:
        acf.path.write_bytes(now)
    with pytest.raises(InputError, match="the ACF mine") as caught:
        AcfStore(tmp_path / "store").add(acf)
    assert caught.value.where == str(tmp_path / "a.acf")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["my store", "tab\tstore", "line\nstore"])
def test_a_root_with_white_space_is_refused(tmp_path, name):
    with pytest.raises(MachineError, match="HELITUNE_CACHE_DIR"):
        AcfStore(tmp_path / name)


def test_a_relative_root_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert AcfStore(Path("store")).root == tmp_path / "store"


def test_a_full_disk_is_a_machine_error_and_leaves_nothing(tmp_path):
    store = AcfStore(tmp_path / "store")
    acf = acf_at(tmp_path / "a.acf", bytes(10_000))
    with no_file_larger_than(4096), pytest.raises(MachineError, match="HELITUNE_CACHE_DIR"):
        store.add(acf)
    assert list(store.root.iterdir()) == []
    assert store.add(acf).path.stat().st_size == 10_000


def test_a_read_only_store_is_a_machine_error_unless_it_has_the_acf(users_folder):
    store = AcfStore(users_folder / "store")
    there = acf_at(users_folder / "a.acf", b"first")
    stored = store.add(there)
    store.root.chmod(0o500)
    assert store.add(there) == stored
    with pytest.raises(MachineError, match=r"Permission denied.*HELITUNE_CACHE_DIR"):
        store.add(acf_at(users_folder / "b.acf", b"second"))


def test_a_file_where_the_store_should_be_is_a_machine_error(tmp_path):
    (tmp_path / "store").touch()
    with pytest.raises(MachineError, match="cannot write"):
        AcfStore(tmp_path / "store").add(acf_at(tmp_path / "a.acf", b"first"))
