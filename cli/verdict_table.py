"""The table of a validation: a row for each finalist and shape, as Markdown or CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

HEADINGS = (
    "trial",
    "ACF",
    "shape",
    "us",
    "speedup",
    "interval",
    "verdict",
    "reason",
    "A/A floor",
    "Welch p",
    "Cohen's d",
    "over best without ACF",
    "limit",
)

Record = Mapping[str, Any]
"""One of run.json's `verdicts` (results/finding_record.py)."""


def markdown(records: Sequence[Record], shapes: Sequence[str]) -> list[str]:
    """The lines of a Markdown table whose columns are also aligned for a terminal."""
    rows = [list(HEADINGS), *(cells(record, shapes) for record in records)]
    kept = [i for i, name in enumerate(HEADINGS) if name != "shape" or len(shapes) > 1]
    table = [[row[i].replace("|", "/") for i in kept] for row in rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(kept))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in table]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [lines[0], rule, *lines[1:]]


def csv_text(records: Sequence[Record], shapes: Sequence[str]) -> str:
    """A CSV table with numbers as they are, a row for each finalist and shape."""
    names = (
        *("trial", "number", "acf", "shape", "ms", "base_ms", "status", "reason", "gate", "speedup", "low"),
        *("high", "delta", "p_value", "level", "runs", "rounds", "pair_sd", "offset_sd", "p95_ratio"),
        *("spread_ratio", "throttled_share", "detail"),
    )
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*names, "welch_p", "cohen_d", "over_plain_status", "over_plain_speedup", "limit_share"])
    for record in records:
        plain, limit = record.get("over_plain") or {}, record.get("limit") or {}
        values = {**record, "shape": shown_shape(record, shapes)}
        table.writerow(
            [
                *(values.get(name) for name in names),
                max(record["welch_p"], default=None),
                _weakest(record["cohen_d"]),
                plain.get("status"),
                plain.get("speedup"),
                limit.get("share"),
            ]
        )
    return text.getvalue()


def cells(record: Record, shapes: Sequence[str]) -> list[str]:
    """The cells of one row, in the order of HEADINGS."""
    return [
        str(record["number"]),
        record["acf"] or "none",
        shown_shape(record, shapes),
        _number(record["ms"], lambda ms: f"{1e3 * ms:.4g}"),
        _number(record["speedup"], lambda value: f"{value:.4f}"),
        interval(record),
        str(record["status"]),
        str(record["reason"]),
        _number(record["delta"], lambda value: f"{math.expm1(value):.2%}"),
        _number(max(record["welch_p"], default=None), lambda value: f"{value:.2g}"),
        _number(_weakest(record["cohen_d"]), lambda value: f"{value:.2f}"),
        _over_plain(record.get("over_plain")),
        _limit(record.get("limit")),
    ]


def interval(record: Record) -> str:
    """ "1.0241 to 1.0269", or "-" where the gate gives none."""
    if record["low"] is None or record["high"] is None:
        return "-"
    return f"{record['low']:.4f} to {record['high']:.4f}"


def shown_shape(record: Record, shapes: Sequence[str]) -> str:
    """The shape of a record in the notation of --args."""
    return shapes[record["shape"]] if record["shape"] < len(shapes) else str(record["shape"])


def _over_plain(record: Record | None) -> str:
    """What the ACF adds: "1.0034 (SAME)"."""
    if record is None or record["speedup"] is None:
        return "-"
    return f"{record['speedup']:.4f} ({record['status']})"


def _limit(record: Record | None) -> str:
    """ "87 % of memory"."""
    share = (record or {}).get("share")
    return f"{100 * share:.0f} % of {(record or {}).get('bound')}" if share is not None else "-"


def _weakest(values: Sequence[float]) -> float | None:
    """The d nearest to 0 among the runs."""
    return min(values, key=abs, default=None)


def _number(value: Any, shown: Any) -> str:
    return "-" if value is None else str(shown(value))
