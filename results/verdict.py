"""The verdict on one candidate: a status, the reason for it, and every number behind it. Pure data."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from helitune.objectives.json_fields import integer, number, numbers, optional, text


class Status(StrEnum):
    """What a gate says of a candidate. Only FASTER may be pinned without being allowed explicitly."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    NO_OP = "NO_OP"
    UNSTABLE = "UNSTABLE"
    UNDECIDED = "UNDECIDED"


class Reason(StrEnum):
    """Why: one code for each way a gate can end."""

    ABOVE_FLOOR = "above_floor"
    BELOW_FLOOR = "below_floor"
    WITHIN_FLOOR = "within_floor"
    INTERVAL_CROSSES_FLOOR = "interval_crosses_floor"
    RUN_WITHIN_FLOOR = "run_within_floor"
    PERMUTATION_DISAGREES = "permutation_disagrees"
    ORDER_EFFECT = "order_effect"
    P95_WORSE = "p95_worse"
    SPREAD_WIDER = "spread_wider"
    WRONG_OUTPUT = "wrong_output"
    NOT_SOAKED = "not_soaked"
    THROTTLED = "throttled"
    NEVER_CONVERGED = "never_converged"
    SAME_CODE = "same_code"
    UNCALIBRATED = "uncalibrated"
    TOO_FEW_RUNS = "too_few_runs"
    TOO_FEW_ROUNDS = "too_few_rounds"
    TOO_FEW_SAMPLES = "too_few_samples"
    MISMATCHED = "mismatched"
    NOT_FINITE = "not_finite"
    CONSTANT = "constant"
    EVERY_RUN_FASTER = "every_run_faster"
    EVERY_RUN_SLOWER = "every_run_slower"
    RUN_NOT_SIGNIFICANT = "run_not_significant"
    DRIFT = "drift"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a verdict; None or () where the gate did not get that far.

    Speedups are baseline over candidate. `delta` and its parts are log ratios: the least effect asked for, the
    95th percentile of the machine's |A/A|, the largest |A/A| among these runs. `p_value` is one-sided, of the
    effect being within `delta`; it is compared with `level`, the share of alpha left by the family of `family`
    candidates and the looks. Ratios are candidate over baseline: 1.02 is 2 % worse.
    """

    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    run_speedups: tuple[float, ...] = ()
    delta: float | None = None
    min_effect: float | None = None
    calibrated_aa: float | None = None
    largest_aa: float | None = None
    offset_sd: float | None = None
    pair_sd: float | None = None
    p_value: float | None = None
    level: float | None = None
    family: int | None = None
    permutation_p: float | None = None
    autocorrelation: float | None = None
    order_p: float | None = None
    welch_p: tuple[float, ...] = ()
    cohen_d: tuple[float, ...] = ()
    p95_ratio: float | None = None
    spread_ratio: float | None = None
    throttled_share: float | None = None
    runs: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate decided of one candidate on one shape.

    `next_rounds` is the rounds a run of the next preplanned look, where an AMBIGUOUS candidate still has one;
    `runs_needed` the number of runs that would settle an effect of this size, None where no number within the
    thresholds' `max_runs` does.
    """

    status: Status
    reason: Reason
    gate: str
    numbers: Numbers
    next_rounds: int | None = None
    runs_needed: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the gate confirms the candidate as faster."""
        return self.status is Status.FASTER

    def to_record(self) -> dict[str, Any]:
        """A flat dict that JSON can hold: status, reason, gate, then every number (None for an infinite one)."""
        numbers = {name: _plain(value) for name, value in dataclasses.asdict(self.numbers).items()}
        head = {"status": self.status.value, "reason": self.reason.value, "gate": self.gate}
        return {**head, **numbers, "next_rounds": self.next_rounds, "runs_needed": self.runs_needed}

    @classmethod
    def from_record(cls, record: Any) -> Verdict:
        """The verdict that `to_record` gave; ValueError with the field that is missing or of another type."""
        return cls(
            status=Status(text(record, "status")),
            reason=Reason(text(record, "reason")),
            gate=text(record, "gate"),
            numbers=Numbers(**{name: _number(record, name) for name in Numbers.__dataclass_fields__}),
            next_rounds=optional(integer, record, "next_rounds"),
            runs_needed=optional(integer, record, "runs_needed"),
        )


def _plain(value: Any) -> Any:
    """A number or series as JSON has it."""
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(record: Any, name: str) -> Any:
    """One of the numbers as the record has it."""
    if name in ("runs", "rounds"):
        return integer(record, name)
    if name == "family":
        return optional(integer, record, name)
    return (numbers if name in ("run_speedups", "welch_p", "cohen_d") else partial(optional, number))(
        record, name
    )
