"""A pin's kernel file is found by its name and its content."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from pin_runs import BETTER, FINGERPRINT, OWN, SOURCE, make_run

from helitune.acfs.errors import InputError
from helitune.results import check_source
from helitune.results.check_source import KernelFiles
from helitune.results.pin import Pin
from helitune.results.pin_choice import make_pin


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    run = make_run(tmp_path / "run", [OWN, BETTER])
    return make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "project"


def put(path: Path, content: bytes = SOURCE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_one_with_the_pinned_content_counts(folder: Path, pin: Pin) -> None:
    put(folder / "a" / "softmax.py", b"another\n")
    wanted = put(folder / "b" / "ops" / "softmax.py")
    put(folder / "b" / "other.py")
    found = KernelFiles(folder).find(pin)
    assert (found.path, found.same) == (wanted, True)


def test_of_several_copies_it_is_the_one_nearest_to_the_folder(folder: Path, pin: Pin) -> None:
    put(folder / "a" / "deep" / "softmax.py")
    wanted = put(folder / "z" / "softmax.py")
    assert KernelFiles(folder).find(pin).path == wanted


def test_an_edited_file_is_found_and_said_to_be_edited(folder: Path, pin: Pin) -> None:
    wanted = put(folder / "softmax.py", b"edited\n")
    found = KernelFiles(folder).find(pin)
    assert (found.path, found.same) == (wanted, False)


def test_files_of_packages_and_hidden_folders_are_passed_over(folder: Path, pin: Pin) -> None:
    put(folder / ".venv" / "softmax.py")
    put(folder / "lib" / "site-packages" / "softmax.py")
    with pytest.raises(InputError, match=r"softmax\.py is not there.*--source"):
        KernelFiles(folder).find(pin)


def test_several_edited_ones_are_for_the_user_to_tell_apart(folder: Path, pin: Pin) -> None:
    put(folder / "a" / "softmax.py", b"one\n")
    named = put(folder / "b" / "softmax.py", b"two\n")
    with pytest.raises(InputError, match=r"2 files are called softmax\.py"):
        KernelFiles(folder).find(pin)
    assert KernelFiles(folder, named).find(pin).path == named


def test_a_named_file_may_have_another_name(folder: Path, pin: Pin) -> None:
    file = put(folder / "renamed.py")
    found = KernelFiles(folder, file).find(pin)
    assert (found.path, found.same) == (file, True)
    other = replace(pin, source_sha256=hashlib.sha256(b"").hexdigest())
    assert not KernelFiles(folder, file).find(other).same


def test_a_file_that_cannot_be_read_is_said(folder: Path, pin: Pin) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        KernelFiles(folder, folder / "gone.py").find(pin)


def test_a_folder_without_end_is_given_up(folder: Path, pin: Pin, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        put(folder / name / "x.py")
    monkeypatch.setattr(check_source, "MOST_FOLDERS", 3)
    with pytest.raises(InputError, match="more than 3 folders"):
        KernelFiles(folder).find(pin)
