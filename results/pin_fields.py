"""Fields of a pin file that end up in paths, in generated Python or in a comparison: each is what it must be.

Every function gives its argument back, and raises TypeError, ValueError or KeyError for anything else.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Any

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?", re.ASCII)
_VERSIONS = (("packages", "helion"), ("packages", "triton"), ("packages", "torch"), ("ptxas", "version"))


DEEPEST = 32
"""Levels of lists and objects; a pin has less than ten, and what reads one is recursive."""


def plain(value: Any) -> Any:
    """A JSON value of at most DEEPEST levels, whose texts can be written into a file of UTF-8."""
    level = [value]
    for _ in range(DEEPEST):
        for text in (each for each in level if isinstance(each, str)):
            if "\0" in text or not _is_unicode(text):
                raise ValueError("a text that is none")
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in ([*outer, *outer.values()] if isinstance(outer, dict) else outer)
        ]
        if not level:
            return value
    raise ValueError("lists in lists without end")


def _is_unicode(text: str) -> bool:
    """JSON can spell halves of characters, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def of(kind: type, value: Any) -> Any:
    """A value of the type `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def identifier(value: Any) -> str:
    """A name that may stand in Python and in a path, as "softmax"."""
    name: str = of(str, value)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name[:40]!r} is no name")
    return name


def file_name(value: Any) -> str:
    """The name of a Python file, without folders."""
    name: str = of(str, value)
    if name != Path(name).name or not name.endswith(".py") or not name.isprintable():
        raise ValueError(f"{name[:40]!r} is no name of a Python file")
    return name


def architecture(value: Any) -> str:
    """A GPU architecture, as "sm_90"."""
    name: str = of(str, value)
    if not _ARCHITECTURE.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no architecture")
    return name


def config(value: Any) -> dict[str, Any]:
    """A Helion config. It names no ACF: the pin's own is checked, and one here would not be."""
    found: dict[str, Any] = of(dict, value)
    if "advanced_controls_file" in found:
        raise ValueError("config names an ACF")
    for key in found:
        identifier(key)
    return found


def fingerprint(value: Any) -> dict[str, Any]:
    """A fingerprint that has the versions by which a pin is compared with where it is used."""
    found: dict[str, Any] = of(dict, value)
    for record, name in _VERSIONS:
        of(str, of(dict, found[record])[name])
    return found


def evidence(value: Any) -> tuple[str, dict[str, Any] | None]:
    """What a pin's evidence says in one word, and the record of the verdict where it is one."""
    if isinstance(value, str):
        return identifier(value), None
    found: dict[str, Any] = of(dict, value)
    if found["kind"] != "measured":
        raise ValueError("evidence is neither 'compiled' nor a verdict of a measurement")
    return identifier(found["status"]), found
