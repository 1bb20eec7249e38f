"""The looks of a validation: measure as many rounds as planned, decide, and go on with what is still open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from helitune.objectives.arm_times import ArmRound

from .thresholds import Thresholds
from .validation_record import RoundLine, Validation
from .validation_verdict import Finding, judge

Tell = Callable[[str], None]


class Measuring(Protocol):
    """A run whose arms stand: validation_process.RunProcess."""

    number: int

    def rounds(self, arms: Sequence[str], count: int) -> Iterable[list[ArmRound]]:
        """`count` rounds of these arms, each one a shape."""
        ...


def measure_looks(
    validation: Validation,
    runs: Sequence[Measuring],
    write: Callable[[Mapping[str, Any]], None],
    tell: Tell,
    cool_down_s: float = 0.0,
) -> tuple[Validation, list[Finding]]:
    """The validation with its rounds, and what they say of each finalist; `write` is given each line at once.

    The runs measure in turn, with `cool_down_s` seconds before each turn but the first.
    """
    findings = judge(validation)
    going_on = [one.trial for one in validation.head.finalists if one.trial not in validation.failed]
    done = 0
    for look, rounds in enumerate(look_rounds(validation.head.thresholds)):
        if not going_on:
            break
        arms = [arm for arm in validation.head.arms(going_on) if _stands(validation, arm)]
        tell(f"look {look + 1}: {rounds} rounds a run, {len(going_on)} finalist(s), {len(arms)} arms")
        for run in runs:
            if cool_down_s and (look, run.number) != (0, 1):
                time.sleep(cool_down_s)
            for shapes in run.rounds(arms, rounds - done):
                lines = [
                    RoundLine(run.number, shape, look, one).to_json() for shape, one in enumerate(shapes)
                ]
                for line in lines:
                    write(line)
                # what is judged is what was written, to the last digit
                validation = validation.with_rounds([RoundLine.from_json(line) for line in lines])
        done = rounds
        findings = judge(validation)
        going_on = [finding.finalist.trial for finding in findings if finding.open]
    return validation, findings


def look_rounds(thresholds: Thresholds) -> tuple[int, ...]:
    """The rounds of a run at each look; the article's gate has one look."""
    return thresholds.looks[:1] if thresholds.gate == "article" else thresholds.looks


def _stands(validation: Validation, arm: str) -> bool:
    """Whether an arm stands in every run."""
    return all(arm in run.built for run in validation.runs)
