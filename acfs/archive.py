"""A zip pack unpacked without trusting it: no name leaves the folder, no size counts before it is read."""

from __future__ import annotations

import io
import re
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from helitune.acfs.content import MAX_ACF_BYTES, MAX_FILES, shown
from helitune.acfs.errors import InputError, MachineError

MAX_MEMBER_BYTES = MAX_ACF_BYTES
MAX_TOTAL_BYTES = 64 << 20
_MAX_DIRECTORY_BYTES = 4 << 20

_DRIVE = re.compile(r"[A-Za-z]:")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x40
# what zipfile and zlib raise for bytes that are no sound archive
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class _ShortReads(io.FileIO):
    """A file that answers at most 4 MiB at once: zipfile reads the directory in one call and keeps it."""

    def read(self, size: int | None = -1, /) -> bytes:
        limit = _MAX_DIRECTORY_BYTES
        return super().read(limit if size is None or not 0 <= size <= limit else size) or b""


def unpack(source: Path, into: Path) -> None:
    """None; the members of the zip file `source` are then below `into`, an empty folder.

    Raises InputError that names the member for what a pack has no use for: names that leave the folder,
    links, encryption, duplicates, more than 4096 members, 1 MiB in one or 64 MiB in all; MachineError
    when `into` cannot be written.
    """
    try:
        with _ShortReads(source) as file, zipfile.ZipFile(file) as archive:
            _unpack_members(archive, source, into)
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror or error}") from error
    except _BROKEN as error:
        raise _refuse(source, "", f"is no sound zip file: {error}") from error


def _unpack_members(archive: zipfile.ZipFile, source: Path, into: Path) -> None:
    members = archive.infolist()
    if len(members) > MAX_FILES:
        raise _refuse(source, "", f"has more than {MAX_FILES} members")
    total_bytes = 0
    for member in members:
        reason = _fault(member)
        if reason:
            raise _refuse(source, member.orig_filename, reason)
        content = b"" if member.is_dir() else _content(archive, member, source)
        total_bytes += len(content)
        if total_bytes > MAX_TOTAL_BYTES:
            raise _refuse(source, member.filename, f"exceeds {MAX_TOTAL_BYTES >> 20} MiB in all")
        _put(into / member.filename, member, content, source)


def _fault(member: zipfile.ZipInfo) -> str:
    """Why `member` is refused by its header alone; "" if it is not."""
    name = member.orig_filename
    file_type = stat.S_IFMT(member.external_attr >> 16)
    if not name.isprintable() or len(name.encode()) > 255:
        return "has an unusable name"
    if name.startswith("/") or "\\" in name or _DRIVE.match(name):
        return "has an absolute or foreign path"
    parts = PurePosixPath(name).parts
    if ".." in parts or (not parts and not member.is_dir()):
        return "leaves the pack's folder"
    if file_type not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a symbolic link" if file_type == stat.S_IFLNK else "is not a regular file"
    if member.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if member.compress_type not in _METHODS:
        return "is compressed by a method other than deflate"
    return ""


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: Path) -> bytes:
    try:
        with archive.open(member) as handle:
            content = handle.read(MAX_MEMBER_BYTES + 1)
    except (OSError, *_BROKEN) as error:
        raise _refuse(source, member.filename, f"is damaged: {error}") from error
    if len(content) > MAX_MEMBER_BYTES:
        raise _refuse(source, member.filename, f"is larger than {MAX_MEMBER_BYTES >> 20} MiB")
    return content


def _put(path: Path, member: zipfile.ZipInfo, content: bytes, source: Path) -> None:
    try:
        if member.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as handle:
            handle.write(content)
    except (FileExistsError, NotADirectoryError) as error:
        raise _refuse(source, member.filename, "is there twice, or as a file and a folder") from error
    except OSError as error:
        what = f"cannot unpack {source} into {path.parent}: {error.strerror or error}"
        raise MachineError(
            what, next_step="free some space there, or set TMPDIR to another folder"
        ) from error


def _refuse(source: Path, member: str, reason: str) -> InputError:
    what = f"member {shown(member)} {reason}" if member else f"the archive {reason}"
    return InputError(what, where=str(source), next_step="get the pack again, or give an unpacked folder")
