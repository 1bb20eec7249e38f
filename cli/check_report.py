"""What `check` reports, on a terminal and as JSON; the other forms are in check_markdown.py and junit.py."""

from __future__ import annotations

import json as json_text
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helitune.acfs.errors import InputError, Interrupted, MachineError, NegativeVerdict, UserError
from helitune.results.checked import Checked, Result, exit_code
from helitune.results.pin_environment import PACKAGES

from .check_table import aligned, table

_ERRORS: dict[int, type[UserError]] = {1: NegativeVerdict, 2: InputError, 3: MachineError}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A finished check: its pins, and what they were checked in.

    `mode` is "measured" or "drift"; `environment` a fingerprint, empty where nothing could be compiled; `how` says in a
    clause how pins were checked; `history` is what the checks before left; `total` counts the pins that were asked
    for: more than `checked` where the check was interrupted.
    """

    mode: str
    checked: tuple[Checked, ...]
    environment: Mapping[str, Any]
    how: str
    when: str
    history: Sequence[Mapping[str, Any]] = ()
    total: int = 0

    @property
    def measured(self) -> bool:
        """Whether pins were timed."""
        return self.mode == "measured"

    @property
    def headline(self) -> str:
        """How many pins came out how: "1 regression, 2 fine"."""
        counts = Counter(one.result for one in self.checked)
        severest = sorted(counts, key=lambda result: list(Result).index(result), reverse=True)
        return ", ".join(f"{counts[result]} {result}" for result in severest) or "no pin was checked"

    @property
    def where(self) -> str:
        """The environment in one line."""
        fields = self.environment
        if not fields:
            return "environment not known"
        gpu = [f"{fields['gpu']['name']}, driver {fields['gpu']['driver']}"] if "gpu" in fields else []
        packages = [f"{name} {fields['packages'][name]}" for name in PACKAGES]
        return ", ".join([*gpu, *packages, f"ptxas {fields['ptxas']['version']}"])

    def rows(self) -> list[list[str]]:
        """The headings and rows of the table."""
        return table(self.checked, measured=self.measured, history=self.history)

    def end(self) -> UserError | None:
        """None where every pin is fine or ambiguous, else the error that the command ends with."""
        if len(self.checked) < self.total:
            done = f"interrupted after {len(self.checked)} of {self.total} pins"
            return Interrupted(done, where="check", next_step="start it again")
        code = exit_code(self.checked)
        if code == 0:
            return None
        worst = [one for one in self.checked if one.exit_code == code]
        first = worst[0]
        what = first.message if len(self.checked) == 1 else f"{self.headline}; {first.name}: {first.message}"
        return _ERRORS[code](what, where=str(first.path), next_step=first.next_step)


def print_report(report: CheckReport, *, json: bool, quiet: bool) -> None:
    """Print the report on stdout."""
    if json:
        print(json_text.dumps(_fields(report)))
        return
    if quiet:
        print(report.headline)
        return
    print(report.headline)
    print(f"  {report.where}")
    print(f"  {report.how}")
    if report.checked:
        print("", *aligned(report.rows()), "", sep="\n")
    for one in report.checked:
        print(f"{one.name}: {one.result}: {one.message}")
        if one.next_step:
            print(f"  next: {one.next_step}")


def _fields(report: CheckReport) -> dict[str, Any]:
    end = report.end()
    return {
        "mode": report.mode,
        "when": report.when,
        "environment": dict(report.environment),
        "pins": [one.to_json() for one in report.checked],
        "error": {"what": end.what, "where": end.where, "next_step": end.next_step} if end else None,
        "exit_code": end.exit_code if end else 0,
    }
