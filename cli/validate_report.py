"""What `validate` prints: the table of its finalists, the chain of decisions, and the next step."""

from __future__ import annotations

import json as json_text
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from helitune.acfs.errors import NegativeVerdict
from helitune.results.run_verdicts import Whole, read_validation, read_verdicts, read_wholes
from helitune.results.verdict import Status, Verdict
from helitune.results.verdict_words import WORDS, explain

from .verdict_table import csv_text, markdown, shown_shape

if TYPE_CHECKING:
    from helitune.results.validation_record import Validation
    from helitune.results.validation_verdict import Finding

FORMATS = ("markdown", "csv")


def report_validated(
    validation: Validation,
    findings: Sequence[Finding],
    *,
    json: bool,
    explain: bool,
    format_: str,
) -> None:
    """Print what a validation came to; raises NegativeVerdict where no finalist is FASTER."""
    from helitune.results.finding_record import validation_record, verdict_records
    from helitune.results.validation_file import FILE

    records = verdict_records(validation, findings)
    when = str(validation.head.context.get("created", ""))
    fields = {
        "verdicts": records,
        "validation": validation_record(validation, findings, file=FILE, when=when),
    }
    end = _end(findings)
    if json:
        error = {"what": end.what, "where": end.where, "next_step": end.next_step} if end else None
        print(json_text.dumps({**fields, "error": error, "exit_code": end.exit_code if end else 0}))
    elif format_ == "csv":
        print(csv_text(records, validation.head.shapes), end="")
    else:
        print_verdicts(fields, "validation", explained=explain)
    if end is not None:
        end.reported = True
        raise end
    if not json and format_ == "markdown":
        print("next: helitune pin -o pins/")


def print_verdicts(fields: dict[str, Any], where: str, *, explained: bool = False) -> None:
    """Print the verdicts in these fields of run.json; nothing where there are none."""
    records, wholes = read_verdicts(fields, where), read_wholes(fields, where)
    if not records or not wholes:
        return
    validation = read_validation(fields, where)
    shapes = validation.get("shapes", [])
    for line in [_heading(validation), "", *markdown(records, shapes), ""]:
        print(line)
    if len(shapes) > 1:
        for one in wholes:
            print(f"trial {one.number} over all shapes: {_over_all(one)}")
    if explained:
        for record in records:
            print_explained(record, shapes)
    else:
        for failed in dict.fromkeys((r["number"], r["detail"]) for r in records if r["detail"]):
            print(f"  trial {failed[0]} failed at {failed[1]}")
        for reason in dict.fromkeys(Verdict.from_record(record).reason for record in records):
            print(f"  {reason}: {WORDS[reason]}")


def print_explained(record: dict[str, Any], shapes: Sequence[str]) -> None:
    """Print the chain of decisions of one finalist on one shape, and what it adds to the best without an ACF."""
    place = f" on {shown_shape(record, shapes)}" if len(shapes) > 1 else ""
    print(f"trial {record['number']}{place}:")
    for line in explain(Verdict.from_record(record)):
        print(f"  {line}")
    if record["detail"]:
        print(f"  {record['detail']}")
    if record["over_plain"] is not None:
        plain = Verdict.from_record(record["over_plain"])
        print("  beside the best config without an ACF:")
        for line in explain(plain)[1:]:
            print(f"    {line}")


def _heading(validation: dict[str, Any]) -> str:
    floor, calibration = validation["floor"], validation.get("calibration") or {}
    known = f"{math.expm1(floor['quantile95']):.2%}" if floor else "unknown"
    again = f" (validation {validation['number']} of this run)" if validation["number"] > 1 else ""
    return (
        f"validated {validation['when']} by the {validation['gate']} gate, {validation['runs']} run(s){again}; "
        f"calibrated A/A {known} of {calibration.get('baselines', '?')} baselines"
    )


def _over_all(one: Whole) -> str:
    numbers = one.verdict.numbers
    gain = f"{numbers.speedup:.4f}x, " if numbers.speedup is not None else ""
    return f"{gain}{one.verdict.status} ({one.verdict.reason})"


def _end(findings: Sequence[Finding]) -> NegativeVerdict | None:
    """None where a finalist is FASTER, else the verdict that none is."""
    if any(finding.whole.accepted for finding in findings):
        return None
    counts = {status: sum(f.whole.status is status for f in findings) for status in Status}
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return NegativeVerdict(
        f"none of {len(findings)} finalist(s) is FASTER: {said}",
        where="validate",
        next_step=_next_step(findings),
    )


def _next_step(findings: Sequence[Finding]) -> str:
    ambiguous = [f.whole for f in findings if f.whole.status is Status.AMBIGUOUS]
    if not ambiguous:
        return "keep the kernel's own config, or search more: helitune tune --resume '' --budget N"
    needed = [verdict.runs_needed for verdict in ambiguous if verdict.runs_needed is not None]
    if needed:
        return f"validate again with --runs {min(needed)}"
    return "no number of runs is likely to settle these: keep the kernel's own config, or search more"
