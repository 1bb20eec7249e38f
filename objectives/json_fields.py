"""Fields of a JSON record, each of the type it must have: a record that somebody edited is refused, not believed.

Each function gives the value of one key and raises ValueError that names the key where it is missing or of
another type. JSON's true is no number here, and its NaN and Infinity are none either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_SHA256 = re.compile(r"[0-9a-f]{64}")


def text(record: Any, key: str) -> str:
    """A string."""
    return _of(str, "text", record, key)


def sha256(record: Any, key: str) -> str:
    """64 lower-case hexadecimal digits: file names are made of these."""
    value = text(record, key)
    if not _SHA256.fullmatch(value):
        raise ValueError(f"{key}: {_shown(value)} is no SHA-256")
    return value


def flag(record: Any, key: str) -> bool:
    """True or false."""
    return _of(bool, "true or false", record, key)


def integer(record: Any, key: str) -> int:
    """A whole number."""
    return _of(int, "a whole number", record, key)


def number(record: Any, key: str) -> float:
    """A finite number."""
    return finite(_value(record, key), key)


def mapping(record: Any, key: str) -> dict[str, Any]:
    """A JSON object."""
    return _of(dict, "an object", record, key)


def items(record: Any, key: str) -> list[Any]:
    """A JSON array."""
    return _of(list, "a list", record, key)


def texts(record: Any, key: str) -> tuple[str, ...]:
    """An array of strings."""
    return _each(str, "a list of texts", record, key)


def integers(record: Any, key: str) -> tuple[int, ...]:
    """An array of whole numbers."""
    return _each(int, "a list of whole numbers", record, key)


def numbers(record: Any, key: str) -> tuple[float, ...]:
    """An array of finite numbers."""
    return tuple(finite(value, key) for value in items(record, key))


def optional(read: Callable[[Any, str], T], record: Any, key: str) -> T | None:
    """What `read` gives, or None where the record says null; the key must be there."""
    return None if _value(record, key) is None else read(record, key)


def finite(value: Any, key: str) -> float:
    """`value` itself, a finite number; ValueError names `key`."""
    try:
        if type(value) in (int, float) and math.isfinite(value):
            number: float = value
            return number
    except OverflowError:  # an integer beyond every float
        pass
    raise ValueError(f"{key}: {_shown(value)} is no finite number")


def _value(record: Any, key: str) -> Any:
    if not isinstance(record, dict):
        raise ValueError(f"an object with {key} is expected, not {_shown(record)}")
    if key not in record:
        raise ValueError(f"{key} is missing")
    return record[key]


def _of(kind: type[T], name: str, record: Any, key: str) -> T:
    value = _value(record, key)
    if type(value) is not kind:  # bool is an int to isinstance
        raise ValueError(f"{key}: {_shown(value)} is not {name}")
    return value


def _each(kind: type[T], name: str, record: Any, key: str) -> tuple[T, ...]:
    found = items(record, key)
    if any(type(value) is not kind for value in found):
        raise ValueError(f"{key}: {_shown(found)} is not {name}")
    return tuple(found)


def _shown(value: Any) -> str:
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists in lists
        return f"this {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
