"""The search space that ACFs are evolved in: an opaque file for one version of ptxas, which CompileIQ alone reads.

NVIDIA distributes it under a licence of its own: it is never copied into a run, a pack or this repository. A run
remembers its path and its sha256.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import Ptxas, toolkit

AUTO = "auto"
"""The space for the ptxas in use, as CompileIQ finds it."""

MAX_BYTES = 64 << 20
"""Of a search space; the real one has 13 KiB."""

FOLDER_VARIABLE = "CIQ_SEARCH_SPACES_DIR"
_OFFLINE = f"give the file with --search-space FILE.bin, or set {FOLDER_VARIABLE} to a folder that has it"


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """One search space of ptxas controls: its file, absolute, and the sha256 of its content."""

    path: Path
    sha256: str

    @property
    def name(self) -> str:
        """What people are told: the file's name and the start of its sha256."""
        return f"{self.path.name} ({self.sha256[:12]})"


def find_search_space(given: str, ptxas: Ptxas) -> SearchSpace:
    """The space that `--search-space` means: a file, or "auto" for the one that CompileIQ has for this ptxas.

    CompileIQ looks in the folder CIQ_SEARCH_SPACES_DIR, else asks its releases over the network. Raises InputError
    for a file that cannot be one, MachineError where CompileIQ finds none.
    """
    return read_search_space(_resolved(ptxas) if given == AUTO else Path(given))


def read_search_space(path: Path) -> SearchSpace:
    """The space at `path`; InputError where there is no file that can be one."""
    try:
        size = path.stat().st_size if path.is_file() else 0
        content = path.read_bytes() if 0 < size <= MAX_BYTES else b""
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read the search space: {error}", where=str(path), next_step=_OFFLINE
        ) from error
    if not content:
        what = (
            f"no search space: larger than {MAX_BYTES >> 20} MiB" if size else "no search space in this file"
        )
        raise InputError(
            what if path.exists() else "no such search space", where=str(path), next_step=_OFFLINE
        )
    return SearchSpace(path.absolute(), hashlib.sha256(content).hexdigest())


def _resolved(ptxas: Ptxas) -> Path:
    try:
        from compileiq.search_spaces.compilers import PtxasSearchSpace
    except ImportError as error:
        raise MachineError(
            "CompileIQ is not installed", where="--search-space", next_step="pip install compileiq"
        ) from error
    version = toolkit(ptxas.version)
    try:
        return Path(PtxasSearchSpace(version=version).retrieve())
    except LookupError as error:
        raise MachineError(
            f"CompileIQ has no search space for ptxas {version}: {error.args[0] if error.args else error}",
            where="--search-space",
            next_step="use a ptxas that it has one for (--ptxas), or give the file",
        ) from error
    except (
        Exception
    ) as error:  # a release that cannot be reached, a broken mirror: each has its own exception
        raise MachineError(
            f"CompileIQ does not find the search space of ptxas {version}: {str(error)[:160]}",
            where="--search-space",
            next_step=_OFFLINE,
        ) from error
