"""The verdicts in run.json, read back: what `validate` left there (results/finding_record.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helitune.acfs.errors import InputError
from helitune.objectives.json_fields import integer, items, mapping, number, optional, text, texts

from .verdict import Verdict


@dataclass(frozen=True, slots=True)
class Whole:
    """The verdict on one finalist as a whole, and the statuses of its shapes against the best without an ACF."""

    trial: str
    number: int
    acf: str
    verdict: Verdict
    over_plain: tuple[str, ...]


def read_verdicts(fields: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The records of each finalist and shape; [] where the run was not validated.

    Each is one that Verdict.from_record takes. InputError, naming `where`, for what is none.
    """
    try:
        found = items(fields, "verdicts") if "verdicts" in fields else []
        for record in found:
            text(record, "trial")
            integer(record, "number")
            integer(record, "shape")
            text(record, "acf")
            text(record, "detail")
            Verdict.from_record(record)
            for name in ("ms", "base_ms"):
                optional(number, record, name)
            optional(lambda one, key: Verdict.from_record(mapping(one, key)), record, "over_plain")
    except ValueError as error:
        raise _unreadable(error, where) from error
    return found


def read_validation(fields: dict[str, Any], where: str) -> dict[str, Any]:
    """How the verdicts came to be; {} where the run was not validated. InputError for a broken record."""
    if "validation" not in fields:
        return {}
    try:
        found = mapping(fields, "validation")
        for name in ("when", "gate"):
            text(found, name)
        for name in ("number", "runs"):
            integer(found, name)
        texts(found, "shapes")
        items(found, "whole")
        floor = mapping(found, "floor")
        if floor:
            number(floor, "quantile95")
        optional(mapping, found, "calibration")
    except ValueError as error:
        raise _unreadable(error, where) from error
    return found


def read_wholes(fields: dict[str, Any], where: str) -> list[Whole]:
    """The verdicts on finalists as wholes; [] where the run was not validated. InputError for broken ones."""
    validation = read_validation(fields, where)
    try:
        return [
            Whole(
                trial=text(record, "trial"),
                number=integer(record, "number"),
                acf=text(record, "acf"),
                verdict=Verdict.from_record(record),
                over_plain=texts(record, "over_plain"),
            )
            for record in (items(validation, "whole") if validation else ())
        ]
    except ValueError as error:
        raise _unreadable(error, where) from error


def _unreadable(error: ValueError, where: str) -> InputError:
    what = f"the run's verdicts cannot be read: {error}"
    return InputError(what, where=where, next_step="validate the run again")
