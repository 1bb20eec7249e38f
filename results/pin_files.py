"""Which files below a folder are pins."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from helitune.acfs.errors import InputError

MAX_PINS = 4096
"""In one folder of pins; what has more is not one."""


def pin_files(pins: Path, *, kernel: str = "*", gpu: str = "*") -> list[Path]:
    """The JSON files PINS/<kernel>/<gpu>/<shapes>.json, sorted; `pins` itself where it is a file.

    Raises InputError for a folder that cannot be read and for one with more than MAX_PINS.
    """
    try:
        if pins.is_file():
            return [pins]
        found = list(islice(filter(_is_pin, pins.glob(f"{kernel}/{gpu}/*.json")), MAX_PINS + 1))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        next_step = "name the folder of helitune pin -o"
        raise InputError(f"cannot read the pins: {reason}", where=str(pins), next_step=next_step) from error
    if len(found) > MAX_PINS:
        next_step = "name one pin's JSON file"
        raise InputError(f"more than {MAX_PINS} pins", where=str(pins), next_step=next_step)
    return sorted(found)


def _is_pin(path: Path) -> bool:
    """Whether it is named as one; the Helion form beside it, and what is being written, are not."""
    return not path.name.startswith(".") and not path.name.endswith(".helion.json")
