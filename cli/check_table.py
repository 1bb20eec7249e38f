"""The rows of a check's table: one for each pin, of several measured shapes one for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from helitune.results.check_history import last_speedups
from helitune.results.checked import Checked
from helitune.results.drift import Drift
from helitune.results.verdict import Verdict

MEASURED = ("pin", "result", "over own config", "over no ACF", "A/A floor", "before", "moved")
RECOMPILED = ("pin", "result", "code", "PTX", "registers", "spilled bytes", "moved")

History = Sequence[Mapping[str, Any]]


def table(checked: Sequence[Checked], *, measured: bool, history: History) -> list[list[str]]:
    """The headings and the rows of the table; a column in which no row has anything is left out."""
    rows = [row for one in checked for row in (_measured(one, history) if measured else [_recompiled(one)])]
    headings = list(MEASURED if measured else RECOMPILED)
    kept = [place for place in range(len(headings)) if any(row[place] != "-" for row in rows)]
    return [[row[place] for place in kept] for row in (headings, *rows)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _measured(one: Checked, history: History) -> list[list[str]]:
    before = ", ".join(f"{speedup:.4f}" for speedup in last_speedups(history, one)) or "-"
    if one.times is None:
        return [[one.name, one.result, "-", "-", "-", before, one.moved.words()]]
    return [
        [
            one.named(shape),
            one.result,
            gain(times.over_own),
            gain(times.over_no_acf),
            _floor(times.over_own),
            before,
            one.moved.words(),
        ]
        for shape, times in zip(one.shapes, one.times.shapes, strict=True)
    ]


def _recompiled(one: Checked) -> list[str]:
    drift = one.drift
    if drift is None:
        return [one.name, one.result, "-", "-", "-", "-", one.moved.words()]
    return [
        one.name,
        one.result,
        "-" if drift.now is None else _same(drift, "code_sha256"),
        "-" if drift.failed else _same(drift, "ptx_sha256"),
        _numbers(one, "registers"),
        _numbers(one, "spill_bytes"),
        one.moved.words(),
    ]


def gain(verdict: Verdict | None) -> str:
    """A verdict in a cell: "1.0255 (1.0241 to 1.0269) FASTER"."""
    if verdict is None:
        return "-"
    numbers = verdict.numbers
    speedup = f"{numbers.speedup:.4f} " if numbers.speedup is not None else ""
    has_interval = numbers.low is not None and numbers.high is not None
    interval = f"({numbers.low:.4f} to {numbers.high:.4f}) " if has_interval else ""
    return f"{speedup}{interval}{verdict.status}"


def _floor(verdict: Verdict) -> str:
    delta = verdict.numbers.delta
    return "-" if delta is None else f"{math.expm1(delta):.2%}"


def _same(drift: Drift, name: str) -> str:
    return "changed" if any(change.name == name for change in drift.pin) else "same"


def _numbers(one: Checked, name: str) -> str:
    """A number of each launch, as it was and as it is: "40", "40 → 48", "40/32"."""
    if one.pin is None or one.drift is None or one.drift.now is None:
        return "-"
    then, now = (
        "/".join(str(launch[name]) for shape in side for launch in shape)
        for side in (one.pin.artifacts, one.drift.now)
    )
    return now if then == now else f"{then} → {now}"
