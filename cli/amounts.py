"""Bytes and FLOPs of a call as people write them: "84MB", "80MiB", "1.2GFLOP", one amount a shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from helitune.acfs.errors import InputError

_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BYTES = {f"{prefix}b": factor for prefix, factor in _PREFIXES.items()} | {
    f"{prefix}ib": 1 << 10 * power for power, prefix in enumerate("kmgtp", start=1)
}
_FLOPS = {f"{prefix}{unit}": factor for prefix, factor in _PREFIXES.items() for unit in ("flop", "flops")}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z/]*)\s*", re.ASCII)

MOST = 10**18
"""No GPU's memory holds an exabyte, and an exaflop takes it minutes: more is a slip of the hand."""


def bytes_moved(text: str, option: str) -> tuple[int, ...]:
    """Bytes of "84e6", "84MB", "80MiB", one each of several with commas between; InputError for anything else.

    At least one byte: every kernel writes something.
    """
    return _amounts(text, option, _BYTES, "size", least=1, example="84e6, 84MB or 80MiB")


def flops(text: str, option: str) -> tuple[int, ...]:
    """FLOPs of "1.2e9" or "1.2GFLOP", one each of several with commas between; InputError for anything else.

    0 says that the call multiplies no matrices.
    """
    return _amounts(text, option, _FLOPS, "FLOPs", least=0, example="1.2e9 or 1.2GFLOP")


def one_a_shape(amounts: Sequence[int], shapes: int, option: str) -> tuple[int, ...]:
    """The amounts, one for each of `shapes` shapes, else InputError."""
    if len(amounts) != shapes:
        given = "1 amount" if len(amounts) == 1 else f"{len(amounts)} amounts"
        raise InputError(
            f"{given} for {shapes} shape{'s' * (shapes != 1)}",
            where=option,
            next_step="give one for each shape, in their order, with commas between",
        )
    return tuple(amounts)


def _amounts(
    text: str, option: str, units: Mapping[str, int], what: str, *, least: int, example: str
) -> tuple[int, ...]:
    return tuple(_amount(part, option, units, what, least, example) for part in text.split(","))


def _amount(text: str, option: str, units: Mapping[str, int], what: str, least: int, example: str) -> int:
    match = _NUMBER.fullmatch(text)
    unit = match[2].lower() if match else ""
    if not match or (unit and unit not in units):
        raise InputError(f"cannot read the {what} {_shown(text)}", where=option, next_step=f"write {example}")
    value = Decimal(match[1]) * units.get(unit, 1)  # a float would lose bytes of large sizes
    if not least <= value <= MOST:
        raise InputError(
            f"the {what} {_shown(text)} is out of range",
            where=option,
            next_step=f"give at least {least} and at most 1e18",
        )
    return round(value)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
