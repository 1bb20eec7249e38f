"""Shares as people write them: "1%", "0.5 %", "0.01"."""

from __future__ import annotations

import re

from helitune.acfs.errors import InputError


def share(text: str, option: str) -> float:
    """The fraction that "1%" or "0.01" says; InputError for anything else, and for 100 % or more."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", text, re.ASCII)
    value = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if not match or value >= 1:
        shown = repr(text if len(text) <= 40 else f"{text[:37]}...")
        raise InputError(f"cannot read the share {shown}", where=option, next_step="write 1% or 0.01")
    return value
