"""The Python form of a pin: a file that makes the tuned variant of the user's kernel, without helitune."""

from __future__ import annotations

import json
import math
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from helitune.search.dtypes import LONG_NAMES
from helitune.search.workload import Argument, ScalarArg

from .pin import Pin

WIDTH = 88
"""Columns of the written file; what is longer goes on lines of its own."""

_PACKAGES = ("helion", "triton", "torch")


def python_text(pin: Pin, kernel_file: Path) -> str:
    """The content of the Python form; the same for the same pin.

    `kernel_file` is where the kernel's source lies: its module's name, with its packages', goes into the file.
    """
    template = files(__package__).joinpath("pin_python_form.template").read_text(encoding="utf-8")
    # lines for pins with an ACF are marked; Template then sees one text
    marked = re.compile(r"^(\$config)?#acf ?(.*\n)", re.MULTILINE)
    text = marked.sub(r"\1\2" if pin.acf else r"\1", template)
    return Template(text).substitute(
        kernel=pin.kernel,
        gpu=pin.gpu,
        evidence=pin.evidence,
        kernel_literal=literal(pin.kernel),
        module=literal(module_name(kernel_file)),
        config="".join(f"    {k}={literal(v, len(k) + 5, 4)},\n" for k, v in pin.config.items()),
        shapes=literal([list(map(_guard, shape)) for shape in pin.shapes], len("SHAPES = ")),
        environment=literal(_environment(pin), WIDTH),
        acf_sha256=literal(pin.acf.sha256 if pin.acf else ""),
    )


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


def _guard(argument: Argument) -> Any:
    if isinstance(argument, ScalarArg):
        return str(argument.value)
    name = LONG_NAMES.get(argument.dtype, (argument.dtype,))[0]
    return [name, list(argument.shape), list(argument.strides)]


def _environment(pin: Pin) -> dict[str, str]:
    versions: dict[str, str] = pin.fingerprint["packages"]
    ptxas = f"ptxas {pin.fingerprint['ptxas']['version']}"
    return {
        **{name: versions[name].partition("+")[0] for name in _PACKAGES},
        "gpu": pin.gpu,
        "TRITON_PTXAS_PATH": ptxas,
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
        pin.file: pin.source_sha256,
    }
