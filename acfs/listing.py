"""What a pack says of its files: name, hash and size of each, from its manifest or its SHA256SUMS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from helitune.acfs.content import MAX_FILES, SUFFIX, read_at_most
from helitune.acfs.errors import InputError

SUMS_NAME = "SHA256SUMS"
SUMS_NAMES = (SUMS_NAME, f"{SUMS_NAME}.txt")
MAX_LISTING_BYTES = 4 << 20

SHA256 = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_SUMS_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Listed:
    """One file as a pack's listing describes it; `sha256` in lower case, `size_bytes` None if not told.

    `stages` are the compilers that an ACF is for, () if not told; `says` is what the listing tells people of it.
    """

    file: str
    sha256: str
    size_bytes: int | None = None
    stages: tuple[str, ...] = ()
    says: str = ""


def is_plain_name(name: str) -> bool:
    """True for a name of a file directly in the pack's folder, False for a path or an unprintable name."""
    return name.isprintable() and name not in ("", ".", "..") and not set(name) & set("/\\:")


def read_sums(path: Path) -> tuple[Listed, ...]:
    """The files listed by a SHA256SUMS file as sha256sum writes it; InputError with the line for anything else."""
    try:
        lines = read_listing(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text", where=str(path)) from error
    listed = []
    for number, line in enumerate(lines, 1):
        found = _SUMS_LINE.fullmatch(line)
        if line.strip() and not found:
            next_step = f"write it with: sha256sum *{SUFFIX} > {path.name}"
            raise InputError("not a line of sha256sum", where=f"{path}:{number}", next_step=next_step)
        if found:
            listed.append(Listed(found[2], found[1].lower()))
    check_count(len(listed), str(path))
    return tuple(listed)


def read_listing(path: Path) -> bytes:
    """The bytes of a listing file. Raises InputError when it cannot be read or has more than 4 MiB."""
    try:
        content = read_at_most(path, MAX_LISTING_BYTES) if path.is_file() else None
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or error}", where=str(path)) from error
    if content is None:
        what = f"{path.name} is not a file of at most {MAX_LISTING_BYTES >> 20} MiB"
        raise InputError(what, where=str(path))
    return content


def check_count(count: int, where: str) -> None:
    """None; raises InputError when a pack has more files than any pack should."""
    if count > MAX_FILES:
        next_step = "give the folder that holds only the ACFs, or split the pack"
        raise InputError(f"more than {MAX_FILES} files in one pack", where=where, next_step=next_step)
