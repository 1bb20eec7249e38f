"""Durations and sizes as people write them."""

from __future__ import annotations

import re

from helitune.acfs.errors import InputError

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_BYTES = {"m": 1 << 20, "g": 1 << 30}


def seconds(text: str, option: str) -> float:
    """Seconds of "90", "90s", "10m" or "1.5h"; raises InputError for anything else or nothing."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if not match or float(match[1]) <= 0:
        raise InputError(
            f"cannot read the duration {text!r}", where=option, next_step="write 90s, 10m or 1.5h"
        )
    return float(match[1]) * _UNITS_S[match[2] or "s"]


def memory_bytes(text: str, option: str) -> int:
    """Bytes of "8G" or "512M"; raises InputError for anything else or nothing."""
    match = re.fullmatch(r"\s*(\d+)\s*([MGmg])[iI]?[bB]?\s*", text)
    if not match or int(match[1]) == 0:
        raise InputError(f"cannot read the size {text!r}", where=option, next_step="write 8G or 512M")
    return int(match[1]) * _UNITS_BYTES[match[2].lower()]


def shown_seconds(value: float) -> str:
    """A duration for people: "4.2 s", "3 min 20 s"."""
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"
