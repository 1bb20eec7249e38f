"""The files of a pack's folder: which are ACFs, which belong beside them, and which look like a mistake."""

from __future__ import annotations

import atexit
import shutil
import stat
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from helitune.acfs.archive import unpack
from helitune.acfs.content import MAX_FILES, SUFFIX, read_at_most, shown
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.listing import SUMS_NAMES, check_count

MAX_NOTICE_BYTES = 1 << 16
_TITLES = ("NOTICE", "README", "LICENSE")


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder, resolved, and the sorted names in it; hidden ones are left out."""

    path: Path
    names: tuple[str, ...]

    def acf_files(self) -> tuple[str, ...]:
        """The names that end with .acf, whatever they are."""
        return tuple(name for name in self.names if name.endswith(SUFFIX))

    def strays(self) -> dict[str, str]:
        """What somebody may have meant as part of the pack and is not: name and reason."""
        reasons = {name: self._stray(name) for name in self.names if not name.endswith(SUFFIX)}
        return {name: reason for name, reason in reasons.items() if reason}

    def notice(self) -> str:
        """The text of the pack's NOTICE, "" when it has none that can be read."""
        for name in self.names:
            if name.split(".")[0] == "NOTICE" and (self.path / name).is_file():
                try:
                    content = read_at_most(self.path / name, MAX_NOTICE_BYTES)
                except OSError:
                    return ""
                return (content or b"").decode(errors="replace")
        return ""

    def _stray(self, name: str) -> str:
        path = self.path / name
        if path.is_dir():
            try:
                holds_acfs = any(inside.endswith(SUFFIX) for inside in _names(path))
            except OSError:
                return "an unreadable folder"
            return "a folder with ACFs: give it as a pack of its own" if holds_acfs else ""
        return "" if _belongs(name) else f"not an {SUFFIX} file"


def open_folder(source: Path) -> Folder:
    """The folder at `source`, or what the zip file there holds, unpacked into a temporary folder.

    That one stays until the process ends. Raises InputError when the source is neither, cannot be read or
    holds more than 4096 files, MachineError when there is no room to unpack.
    """
    next_step = f"give a folder of {SUFFIX} files, or a .zip of one"
    try:
        mode = source.stat().st_mode
    except (OSError, ValueError) as error:
        what = f"no pack at {shown(str(source))}: {getattr(error, 'strerror', None) or error}"
        raise InputError(what, next_step=next_step) from error
    if stat.S_ISDIR(mode):
        return _list(source)
    if not stat.S_ISREG(mode) or source.suffix.lower() != ".zip":
        raise InputError(f"{shown(str(source))} is neither a folder nor a .zip file", next_step=next_step)
    folder = _temporary_folder()
    unpack(source, folder)
    unpacked = _list(folder)
    # `zip -r pack.zip pack` puts everything below one folder
    only = folder / unpacked.names[0] if len(unpacked.names) == 1 else folder
    return _list(only) if only.is_dir() and only.suffix != SUFFIX else unpacked


def _list(path: Path) -> Folder:
    try:
        names = _names(path)
    except OSError as error:
        raise InputError(f"cannot read the pack {path}: {error.strerror or error}") from error
    check_count(len(names), str(path))
    return Folder(path.resolve(), tuple(names))


def _names(path: Path) -> list[str]:
    # desktop systems leave .DS_Store and __MACOSX behind
    visible = (entry.name for entry in path.iterdir() if entry.name[0] != "." and entry.name != "__MACOSX")
    return sorted(islice(visible, MAX_FILES + 1))


def _belongs(name: str) -> bool:
    """True for what is usual beside the ACFs of a pack."""
    title = name.split(".")[0].upper()
    return name in SUMS_NAMES or title in _TITLES or Path(name).suffix in (".md", ".json")


def _temporary_folder() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="helitune-pack-")).resolve()
    except OSError as error:
        what = f"cannot make a temporary folder: {error.strerror or error}"
        raise MachineError(
            what, next_step="free some space there, or set TMPDIR to another folder"
        ) from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
