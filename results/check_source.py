"""Where the kernel file of a pin is: a pin knows the file's name and its content, not its folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from helitune.acfs.errors import InputError

from .pin import Pin

MOST_FOLDERS = 20_000
"""Folders that are looked into; a repository with more needs --kernel-file."""

_PASSED_OVER = {"node_modules", "site-packages", "__pycache__"}


@dataclass(frozen=True, slots=True)
class Source:
    """A pin's kernel file, absolute; `same` says whether its content is still the pinned one."""

    path: Path
    same: bool


class KernelFiles:
    """The Python files among which pins find theirs: `file` alone where one is named, else all below `folder`."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self._folder = folder.absolute()
        self._file = file.absolute() if file else None

    def find(self, pin: Pin) -> Source:
        """The pin's kernel file: one of its content, else the only one of its name. InputError where there is none.

        Of several with the same content it is the one with the shortest path.
        """
        if self._file is not None:
            return Source(self._file, sha256_of(self._file) == pin.source_sha256)
        named = self._named.get(pin.file, [])
        for path in named:
            if sha256_of(path) == pin.source_sha256:
                return Source(path, True)
        if len(named) == 1:
            return Source(named[0], False)
        if named:
            raise InputError(
                f"{len(named)} files are called {pin.file}, and none has the content that was pinned",
                where=str(self._folder),
                next_step="name the one that the pin is of: --kernel-file FILE",
            )
        raise InputError(
            f"the pin's kernel file {pin.file} is not there",
            where=str(self._folder),
            next_step="give the folder of your kernels with --source DIR, or --kernel-file FILE",
        )

    @cached_property
    def _named(self) -> dict[str, list[Path]]:
        """The Python files below the folder by name, those with shorter paths first. InputError for too many."""
        found: dict[str, list[Path]] = {}
        for count, (folder, below, names) in enumerate(os.walk(self._folder)):
            if count >= MOST_FOLDERS:
                raise InputError(
                    f"more than {MOST_FOLDERS} folders to look for kernel files in",
                    where=str(self._folder),
                    next_step="name a smaller one with --source DIR, or --kernel-file FILE",
                )
            below[:] = [name for name in below if not name.startswith(".") and name not in _PASSED_OVER]
            for name in names:
                if name.endswith(".py"):
                    found.setdefault(name, []).append(Path(folder) / name)
        return {name: sorted(paths, key=lambda p: (len(p.parts), str(p))) for name, paths in found.items()}


def sha256_of(file: Path) -> str:
    """The sha256 of a kernel file; InputError where it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            f"the kernel file cannot be read: {error.strerror or error}",
            where=str(file),
            next_step="mend its permissions, or name another with --kernel-file",
        ) from error
