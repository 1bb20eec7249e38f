"""The rest of the machine: environment variables that change results, disk, and helitune's cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from helitune.acfs.errors import MachineError, UserError
from helitune.acfs.paths import CACHE_VARIABLE, cache_root
from helitune.acfs.store import AcfStore
from helitune.objectives.compile_environment import ignored_variables

from .doctor_check import Check, Status
from .pin_environment import PTXAS_VARIABLES
from .run_directory import working_folder

_JUST_PLACES = ("TRITON_CACHE_DIR", "TRITON_HOME", "HELION_CACHE_DIR", *PTXAS_VARIABLES)
"""Variables that say where things are; of the ptxas ones, the line of Triton's ptxas tells what they do."""

ENOUGH_BYTES = 4 << 30
"""Twice what the compile cache grows to by default: below it, a tune may fill the disk."""
TOO_LITTLE_BYTES = 200 << 20
"""A run's records and the scratch of its compile processes."""


def environment_checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """A warning for each variable that changes what plain Helion or Triton make, or one line that none is set."""
    names = [name for name in ignored_variables(environment) if name not in _JUST_PLACES]
    for name in names:
        value = environment[name] if len(environment[name]) <= 60 else environment[name][:57] + "..."
        what = f"{name}={value}: helitune leaves it out, plain Helion and Triton heed it"
        yield Check("environment", "warn", what, f"unset {name}")
    if not names:
        yield Check("environment", "ok", "no variable is set that changes results")


def disk_check() -> Check:
    """Whether runs, cache and scratch can be written, and how much room there is."""
    try:
        places = {"runs": working_folder(), "cache": cache_root(), "scratch": Path(tempfile.gettempdir())}
    except UserError as error:
        return Check("disk", "fail", error.what, error.next_step)
    for name, folder in places.items():
        if fault := _not_writable(folder):
            return Check("disk", "fail", f"{name}: cannot write to {folder}: {fault}", _elsewhere(name))
    free = {name: shutil.disk_usage(_existing(folder)).free for name, folder in places.items()}
    least = min(free, key=lambda name: free[name])
    shown = ", ".join(f"{name} {_gib(size)} free ({places[name]})" for name, size in free.items())
    if free[least] >= ENOUGH_BYTES:
        return Check("disk", "ok", shown)
    status: Status = "fail" if free[least] < TOO_LITTLE_BYTES else "warn"
    return Check("disk", status, shown, f"free some space, or elsewhere: {_elsewhere(least)}")


def cache_check() -> Check:
    """helitune's cache: where, how full, and whether ACFs can be kept there."""
    try:
        root = cache_root()
        AcfStore(root / "acfs")
    except MachineError as error:
        return Check("caches", "fail", error.what, error.next_step)
    return Check(
        "caches", "ok", f"{_gib(_size(root))} in {root} ({CACHE_VARIABLE}, HELITUNE_CACHE_MAX_BYTES)"
    )


def _elsewhere(name: str) -> str:
    return {
        "runs": "change to a folder that you can write to",
        "cache": f"set {CACHE_VARIABLE} to a folder that you can write to",
        "scratch": "set TMPDIR to a folder that you can write to",
    }[name]


def _not_writable(folder: Path) -> str:
    """ "" where a file can be made in the folder, or in the nearest one above it that exists."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _size(root: Path) -> int:
    """Bytes of all files below `root`."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except OSError:
                continue  # another process trimmed it
    return total


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
