"""Where helitune keeps what it makes, and how a file is put there whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from helitune.acfs.errors import MachineError

CACHE_VARIABLE = "HELITUNE_CACHE_DIR"


def cache_root() -> Path:
    """The cache folder, absolute: HELITUNE_CACHE_DIR, else the user's cache, else a private temporary folder.

    HELITUNE_CACHE_DIR is taken as it is, so that a wrong one fails where it is used instead of being passed
    over in silence. The others must be writable. Raises MachineError when there is no usable folder at all.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).absolute()
    for folder in _user_caches():
        if _writable(folder):
            return folder
    return _temporary_cache()


def atomic_write(
    path: Path, content: bytes, *, next_step: str = "free some space or make the folder writable"
) -> None:
    """None; `path` then holds `content` and is on the disk, or MachineError and `path` is as it was.

    Missing parent folders are made. Readers never see a part of the content.
    """
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        what = f"cannot write {path}: {error.strerror or error}"
        raise MachineError(what, next_step=next_step) from error


def _user_caches() -> Iterator[Path]:
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():  # the XDG specification: a relative one is to be ignored
        yield Path(xdg) / "helitune"
    try:
        yield Path.home().absolute() / ".cache" / "helitune"
    except RuntimeError:  # no HOME and no entry in the password database
        return


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _temporary_cache() -> Path:
    next_step = f"set {CACHE_VARIABLE} to a folder you can write to"
    try:
        folder = Path(tempfile.gettempdir()).absolute() / f"helitune-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        # the name can be guessed and the parent is everybody's: another user may have made it first
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            raise MachineError(f"{folder} belongs to another user", next_step=next_step)
    except OSError as error:
        what = f"no folder for the cache: {error.strerror or error}"
        raise MachineError(what, next_step=next_step) from error
    if not _writable(folder):
        raise MachineError(f"cannot write to {folder}", next_step=next_step)
    return folder


STALE_S = 2 * 24 * 3600.0
"""Age from which a scratch folder belongs to no command that still runs."""


def sweep_scratch() -> None:
    """Remove our old scratch folders from the temporary folder: a command that was killed leaves its own behind."""
    oldest = time.time() - STALE_S
    for folder in Path(tempfile.gettempdir()).glob("helitune-*-*"):
        try:
            status = folder.lstat()
        except OSError:
            continue
        if status.st_uid == os.geteuid() and status.st_mtime < oldest and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
