"""The Python form of a pin: a file that makes the tuned variant of the user's kernel, without helitune."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from helitune.objectives.check_result import CheckResult
from helitune.search.dtypes import LONG_NAMES
from helitune.search.workload import Argument, ScalarArg

from .pin import Pin
from .pin_environment import pinned_environment
from .pin_template import filled

WIDTH = 88
"""Columns of the written file; what is longer goes on lines of its own."""

_SHAPES_NAMED = 3


def python_text(pin: Pin, kernel_file: Path) -> str:
    """The content of the Python form; the same for the same pin.

    `kernel_file` is where the kernel's source lies: its module's name, with its packages', goes into the file.
    """
    return filled(
        "pin_python_form",
        acf=pin.acf is not None,
        kernel=pin.kernel,
        gpu=pin.gpu,
        evidence=pin.evidence,
        verified=_verified(pin),
        kernel_literal=literal(pin.kernel),
        module=literal(module_name(kernel_file)),
        config="".join(f"    {k}={literal(v, len(k) + 5, 4)},\n" for k, v in pin.config.items()),
        shapes=literal(guarded_calls(pin), len("SHAPES = ")),
        environment=literal(pinned_environment(pin), WIDTH),
        acf_sha256=literal(pin.acf.sha256 if pin.acf else ""),
    )


def agreed(pin: Pin) -> str:
    """How the kernel's source was checked, as a clause: with which reference, on which shapes."""
    check = CheckResult.from_json(pin.check)
    judge = check.reference.removeprefix("file:")
    against = "between two tile sizes, without a reference," if judge == "self" else f"with {judge}"
    more = len(check.shapes) - _SHAPES_NAMED
    named = replace(check, shapes=check.shapes[:_SHAPES_NAMED], factors=check.factors[:_SHAPES_NAMED])
    shapes = named.shown_shapes + (f" and {more} more" if more > 0 else "")
    where = "on the GPU" if check.evidence == "gpu" else "in Helion's interpreter"
    return f"the source's outputs, {where}, agree {against} on {shapes}"


def _verified(pin: Pin) -> str:
    """What was verified, wrapped; it may stand in a docstring whatever it holds."""
    text = f"Verified: plain Helion compiles it, for SHAPES, to the code that was ranked; {agreed(pin)}."
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')


def module_name(kernel_file: Path) -> str:
    """The name under which the file's own package, if it lies in one, imports it: "ops.softmax"."""
    parts = [kernel_file.stem]
    folder = kernel_file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def literal(value: Any, column: int = 0, indent: int = 0) -> str:
    """Python source of plain values that starts at `column`, laid out as a formatter leaves it.

    A list or dict that does not fit into WIDTH has each item on its own line, with a comma behind the last.
    """
    flat = _flat(value)
    if column + len(flat) < WIDTH or not isinstance(value, list | dict) or not value:
        return flat
    pad = " " * (indent + 4)
    items = (
        [(f"{_flat(k)}: ", v) for k, v in value.items()]
        if isinstance(value, dict)
        else [("", v) for v in value]
    )
    rows = [f"{pad}{key}{literal(v, len(pad) + len(key), indent + 4)},\n" for key, v in items]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{''.join(rows)}{' ' * indent}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_flat, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flat(k)}: {_flat(v)}' for k, v in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def guarded_calls(pin: Pin) -> list[list[Any]]:
    """The pinned calls as the generated files compare them: [dtype, shape, strides], the text of a scalar."""
    return [list(map(_guard, shape)) for shape in pin.shapes]


def _guard(argument: Argument) -> Any:
    if isinstance(argument, ScalarArg):
        return str(argument.value)
    name = LONG_NAMES.get(argument.dtype, (argument.dtype,))[0]
    return [name, list(argument.shape), list(argument.strides)]
