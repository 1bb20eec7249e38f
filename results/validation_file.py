"""The file validation.jsonl: written line by line, read back whole. What a line is: results/validation_record.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, MachineError
from helitune.objectives.json_fields import integer, text

from .validation_record import VALIDATION_FORMAT, Head, RoundLine, RunHead, Validation

FILE = "validation.jsonl"


class ValidationFile:
    """validation.jsonl of a run, open for appending; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = FileIO(path, "a+")
            # the part of a line that a kill left at the end would spoil the next one
            self._handle.seek(0)
            self._handle.truncate(self._handle.readall().rfind(b"\n") + 1)
        except OSError as error:
            raise self._refused(error) from error

    def append(self, fields: Mapping[str, Any]) -> None:
        """Add one line; MachineError where the disk does not take it."""
        try:
            rest = memoryview(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
            while rest:
                rest = rest[self._handle.write(rest) :]
        except OSError as error:
            raise self._refused(error) from error

    def __enter__(self) -> ValidationFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def _refused(self, error: OSError) -> MachineError:
        what = f"cannot write the validation: {error.strerror or error}"
        return MachineError(what, where=str(self.path), next_step="free disk space, then validate again")


def read_validations(path: Path) -> list[Validation]:
    """The validations of a file, oldest first; InputError with the line that is none of this format.

    A last line that a kill left half written is passed over.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise InputError(
            f"cannot read the validation: {error.strerror or error}",
            where=str(path),
            next_step="name the validation.jsonl of a run",
        ) from error
    found: list[Validation] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            found = _with_line(found, json.loads(line), where)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            what = f"not a line of a validation: {error}"
            raise InputError(what, where=where, next_step="restore the file, or validate again") from error
    if not found:
        raise InputError("no validation in it", where=str(path), next_step="run helitune validate")
    return found


def count_validations(path: Path) -> int:
    """How many validations a file holds; 0 where there is none."""
    try:
        return sum(line.startswith(b'{"kind":"validation"') for line in path.read_bytes().split(b"\n"))
    except FileNotFoundError:
        return 0
    except OSError as error:
        what = f"cannot read the validation: {error.strerror or error}"
        raise InputError(what, where=str(path), next_step="mend its permissions") from error


def _with_line(found: list[Validation], fields: Any, where: str) -> list[Validation]:
    """The validations with one more line read."""
    kind = text(fields, "kind")
    if kind == "validation":
        version = integer(fields, "format")
        if version > VALIDATION_FORMAT:
            raise InputError(
                f"the validation has format {version}, this helitune reads up to {VALIDATION_FORMAT}",
                where=where,
                next_step="upgrade helitune",
            )
        return [*found, Validation(Head.from_json(fields, where))]
    if not found:
        raise ValueError("a validation begins with a line of kind 'validation'")
    if kind == "run":
        found[-1] = found[-1].with_run(RunHead.from_json(fields))
    elif kind == "round":
        found[-1] = found[-1].with_rounds([RoundLine.from_json(fields)])
    elif kind != "end":
        raise ValueError(f"kind: {kind!r} is none of validation, run, round and end")
    return found
