"""The bytes of one ACF file and why a file may not be one. The bytes are opaque: only ptxas reads them."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

SUFFIX = ".acf"
MAX_ACF_BYTES = 1 << 20  # real ones have two to three KiB
MAX_FILES = 4096  # in one pack


class UnfitError(Exception):
    """Why one file of a pack is refused; becomes a Refusal, never reaches the user as an exception."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def digest(content: bytes) -> str:
    """The SHA-256 of `content`, 64 lower-case hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def shown(name: str) -> str:
    """`name` as it can be printed on one line: file names may hold line breaks and undecodable bytes."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= 200 else text[:197] + "..."


def read_content(folder: Path, name: str) -> bytes:
    """The bytes of the ACF file `name` of `folder` (a resolved path); at least 1, at most MAX_ACF_BYTES.

    Raises UnfitError for anything but a readable regular file inside the folder.
    """
    content = read_inside(folder, name, MAX_ACF_BYTES)
    if not content:
        raise UnfitError("empty")
    return content


def read_inside(folder: Path, name: str, limit_bytes: int) -> bytes:
    """The bytes of the file `name` of `folder` (a resolved path), at most `limit_bytes`, maybe none.

    Raises UnfitError for anything but a readable regular file inside the folder.
    """
    path = folder / name
    try:
        # Path.resolve raises RuntimeError for a loop of links before Python 3.13
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(folder):
            raise UnfitError("a symbolic link that leaves the pack")
        _check_regular(path)
        content = read_at_most(path, limit_bytes)
    except OSError as error:
        raise UnfitError(f"unreadable: {error.strerror or error}") from error
    except RuntimeError as error:
        raise UnfitError("unreadable: a loop of symbolic links") from error
    if content is None:
        raise UnfitError(f"larger than {limit_bytes >> 20} MiB")
    return content


def read_at_most(path: Path, limit_bytes: int) -> bytes | None:
    """The whole content of `path`, or None when it is longer than `limit_bytes`. Raises OSError."""
    with path.open("rb") as handle:
        content = handle.read(limit_bytes + 1)
    return content if len(content) <= limit_bytes else None


def _check_regular(path: Path) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise UnfitError("a folder, not a file")
    if not stat.S_ISREG(mode):  # opening a named pipe would wait for ever
        raise UnfitError("not a regular file")
