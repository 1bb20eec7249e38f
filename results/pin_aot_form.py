"""The form of pins that Helion's own ahead-of-time lookup loads: one file for a kernel file and an architecture.

    pins/_helion_aot_<kernel file>_cuda_sm<NN>.py

`@helion.aot_kernel()` looks for that name beside the kernel file, or in the folder HELION_HEURISTIC_DIR, and asks
its `key_<kernel>(*args)` and `autotune_<kernel>(*args)`. Helion itself loads such a file on newer architectures
too and compares nothing, so the file compares: architecture, versions, source, and ptxas for an ACF. An ACF stays
where the pin has it, at a path relative to the file: whoever moves the file moves the pins' folders with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, UserError
from helitune.acfs.paths import atomic_write

from .pin import Pin, read_pin
from .pin_environment import pinned_environment
from .pin_files import pin_files
from .pin_forms import slug
from .pin_python_form import guarded_calls, literal
from .pin_template import filled

MARK = "made by helitune pin"
"""Stands in the first line of the files that may be written anew."""


@dataclass(frozen=True, slots=True)
class AotForm:
    """The file that was written, how many pins it holds, and why others of the folder are not in it."""

    path: Path
    pins: int
    left_out: tuple[str, ...]


def aot_path(pin: Pin, root: Path) -> Path:
    """Where the file of a pin goes, under the name that Helion looks for; InputError where another file has it."""
    path = root.absolute() / f"_helion_aot_{Path(pin.file).stem}_cuda_{pin.gpu.replace('_', '')}.py"
    if path.exists() and MARK not in _first_line(path):
        raise InputError(
            "a file that helitune did not make has the name of the AOT form",
            where=str(path),
            next_step="move it away, or give another folder with -o",
        )
    return path


def aot_heuristic(pins: Sequence[Pin]) -> str:
    """The file's content for pins of one kernel file and architecture; the same for the same pins.

    Raises InputError for pins of several files, of several versions of one, or of several architectures.
    """
    first = pins[0]
    if {(pin.file, pin.source_sha256, pin.gpu) for pin in pins} != {_origin(first)}:
        raise InputError(
            "pins of several kernel files or architectures do not go into one file",
            where=", ".join(sorted({f"{pin.file} {pin.gpu}" for pin in pins})),
            next_step="give those of one",
        )
    # where two pins have one call, the later one counts: the one made for fewer calls
    ordered = sorted(pins, key=lambda pin: (pin.kernel, -len(pin.shapes), slug(pin.shapes)))
    acf = any(pin.acf for pin in pins)
    return filled(
        "pin_aot_form",
        acf=acf,
        file=first.file,
        gpu=first.gpu,
        evidence=" and ".join(sorted({pin.evidence for pin in pins})),
        file_literal=literal(first.file),
        pins=literal([_entry(pin, acf=acf) for pin in ordered], len("PINS = ")),
        config='pin["config"] | acf' if acf else 'pin["config"]',
        functions="\n\n\n".join(map(_functions, sorted({pin.kernel for pin in pins}))),
    )


def write_aot(pin: Pin, root: Path) -> AotForm:
    """The file below `root`, written of `pin` and of what else is pinned there of its kernel file and architecture.

    Raises InputError where another file has its name, and MachineError where it cannot be written.
    """
    path = aot_path(pin, root)
    taken: list[Pin] = []
    left_out: list[str] = []
    for one in pin_files(root, gpu=pin.gpu):
        try:
            found = read_pin(one)
        except UserError as error:
            left_out.append(error.line())
            continue
        if _origin(found) == _origin(pin):
            taken.append(found)
        elif found.file == pin.file:
            left_out.append(f"made of another version of {pin.file} ({one})")
    atomic_write(path, aot_heuristic(taken).encode())
    return AotForm(path, len(taken), tuple(left_out))


def _origin(pin: Pin) -> tuple[str, str, str]:
    return pin.file, pin.source_sha256, pin.gpu


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as handle:
            return handle.readline(500)
    except OSError:
        return ""


def _entry(pin: Pin, *, acf: bool) -> dict[str, Any]:
    entry = {
        "kernel": pin.kernel,
        "calls": guarded_calls(pin),
        "environment": pinned_environment(pin),
        "config": pin.config,
    }
    file = f"{pin.kernel}/{pin.gpu}/{pin.acf.file}" if pin.acf else None
    return entry | {"acf": file} if acf else entry


def _functions(kernel: str) -> str:
    return "\n\n\n".join(
        f"def {name}_{kernel}(*args):\n    return {inner}({literal(kernel)}, args)"
        for name, inner in (("key", "_key"), ("autotune", "_config"))
    )
