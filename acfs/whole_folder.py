"""A folder that appears on disk with all of its files, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from helitune.acfs.errors import InputError, MachineError


def write_folder(target: Path, contents: Mapping[str, bytes], *, replace: bool = False) -> None:
    """None; `target` is then a folder of the files in `contents`, by name, and on the disk.

    Raises InputError where something is at `target` and `replace` is not given, MachineError where it cannot be
    written; what was there is then as it was. Missing parent folders are made. While one folder replaces
    another there is, for a moment, none; both are kept until that is done.
    """
    if not replace and os.path.lexists(target):
        raise _taken(target)
    staging = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _fill(staging, contents)
            if replace:
                _exchange(staging, target)
            else:
                staging.rename(target)
            _sync(target.parent)
        finally:
            _remove(staging)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR) and os.path.lexists(target):
            raise _taken(target) from error
        what = f"cannot write {target}: {error.strerror or error}"
        raise MachineError(what, next_step="free some space there, or name another folder") from error


def _fill(folder: Path, contents: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in contents.items():
        with (folder / name).open("xb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
    _sync(folder)


def _exchange(staging: Path, target: Path) -> None:
    """Give `staging` the name `target`; what has that name is moved aside and removed afterwards."""
    aside = target.parent / f"{staging.name}.old"
    there = os.path.lexists(target)
    if there:
        target.rename(aside)
    try:
        staging.rename(target)
    except BaseException:
        if there:
            aside.rename(target)
        raise
    if there:
        _remove(aside)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _taken(target: Path) -> InputError:
    return InputError("there is something already", where=str(target), next_step="name another folder")
