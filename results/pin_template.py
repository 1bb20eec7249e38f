"""Generated Python files: a template with parts that several files share, and lines for pins with an ACF only."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from string import Template

_SHARED = re.compile(r"^#include (\w+)\n", re.MULTILINE)
_ACF_LINE = re.compile(r"^(\$config)?#acf ?(.*\n)", re.MULTILINE)


def filled(name: str, *, acf: bool, **fields: str) -> str:
    """The text of NAME.template with `fields` in place of its $names; `#acf` lines stay where `acf` says so."""
    text = _SHARED.sub(lambda found: _template(found[1]), _template(name))
    # the lines are marked in the template; Template then sees one text
    text = _ACF_LINE.sub(r"\1\2" if acf else r"\1", text)
    return Template(text).substitute(fields)


@functools.cache
def _template(name: str) -> str:
    return files(__package__).joinpath(f"{name}.template").read_text(encoding="utf-8")
