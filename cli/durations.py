"""Durations and sizes as people write them."""

from __future__ import annotations

import re

from helitune.acfs.errors import InputError

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_BYTES = {"m": 1 << 20, "g": 1 << 30}

MOST_S = 30 * 24 * 3600.0
"""Thirty days: more is a slip of the hand, and clocks and timers of some systems end not far above."""

LEAST_BYTES = 256 << 20
"""Triton and ptxas need about this much to compile anything."""

MOST_BYTES = 1 << 40


def seconds(text: str, option: str) -> float:
    """Seconds of "90", "90s", "10m" or "1.5h"; InputError for anything else, nothing, or over 30 days."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smh]?)\s*", text)
    if not match or float(match[1]) <= 0:
        raise InputError(
            f"cannot read the duration {_shown(text)}", where=option, next_step="write 90s, 10m or 1.5h"
        )
    value = float(match[1]) * _UNITS_S[match[2] or "s"]
    if value > MOST_S:
        raise InputError(
            f"the duration {_shown(text)} is too long", where=option, next_step="give at most 720h (30 days)"
        )
    return value


def memory_bytes(text: str, option: str) -> int:
    """Bytes of "8G" or "512M"; InputError for anything else, less than 256M, or more than 1024G."""
    match = re.fullmatch(r"\s*([0-9]+)\s*([MGmg])[iI]?[bB]?\s*", text)
    if not match:
        raise InputError(f"cannot read the size {_shown(text)}", where=option, next_step="write 8G or 512M")
    value = float(match[1]) * _UNITS_BYTES[match[2].lower()]  # an int of thousands of digits is an error
    if not LEAST_BYTES <= value <= MOST_BYTES:
        raise InputError(
            f"the size {_shown(text)} is out of range",
            where=option,
            next_step="give at least 256M and at most 1024G",
        )
    return int(value)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def shown_seconds(value: float) -> str:
    """A duration for people: "4.2 s", "3 min 20 s"."""
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"
