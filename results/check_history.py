"""The history of checks: a file of JSON lines, one for each pin and check, that only grows.

Format 1 (first version). A line has format, when (ISO 8601), mode ("measured" or "drift"), environment (a
fingerprint), and the fields of Checked.to_json. A reader passes over lines of a newer format and what is no line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from io import BufferedRandom
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, MachineError

from .checked import Checked

HISTORY_FORMAT = 1


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines of a history, oldest first; [] where there is none yet. InputError where it cannot be read."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"cannot read the history: {error.strerror or error}"
        raise InputError(what, where=str(path), next_step="name a file with --history") from error
    return [fields for line in lines if (fields := _line(line)) is not None]


def append_history(
    path: Path, checked: Sequence[Checked], *, when: str, mode: str, environment: Mapping[str, Any]
) -> None:
    """Add a line for each pin; MachineError where the file cannot be written."""
    head = {"format": HISTORY_FORMAT, "when": when, "mode": mode, "environment": dict(environment)}
    text = "".join(json.dumps({**head, **one.to_json()}) + "\n" for one in checked)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            file.write(b"" if _ends_whole(file) else b"\n")
            file.write(text.encode())
    except OSError as error:
        what = f"cannot write the history: {error.strerror or error}"
        raise MachineError(what, where=str(path), next_step="name a file that you can write to") from error


def last_speedups(history: Sequence[Mapping[str, Any]], checked: Checked, most: int = 3) -> list[float]:
    """The last measured speedups of the same pin, oldest first: what it was worth when it was checked before."""
    if checked.pin is None:
        return []
    identity = checked.pin.identity()
    found = [_speedup(line) for line in history if line.get("identity") == identity]
    return [speedup for speedup in found if speedup is not None][-most:]


def _ends_whole(file: BufferedRandom) -> bool:
    """Whether the file ends with a whole line: one that a kill left half written must not spoil the next."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _line(text: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    known = (
        isinstance(fields, dict) and type(fields.get("format")) is int and fields["format"] <= HISTORY_FORMAT
    )
    return fields if known else None


def _speedup(line: Mapping[str, Any]) -> float | None:
    try:
        speedup = line["measured"]["whole"]["speedup"]
    except (KeyError, TypeError):
        return None
    return speedup if type(speedup) is float else None
