"""The strict gate: when is faster faster. Every doubt ends in a status that is not FASTER."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from . import statistics
from .blocks import Evidence
from .measured_case import Case, measured, rounds_of
from .noise_floor import NoiseFloor
from .runs_needed import runs_needed
from .thresholds import STRICT, Thresholds
from .verdict import Numbers, Reason, Status, Verdict


def decide(
    evidence: Evidence,
    floor: NoiseFloor | None,
    thresholds: Thresholds = STRICT,
    *,
    look: int = 0,
) -> Verdict:
    """The verdict on a candidate that is the only one of its family."""
    return decide_family([evidence], floor, thresholds, look=look)[0]


def decide_family(
    family: Sequence[Evidence],
    floor: NoiseFloor | None,
    thresholds: Thresholds = STRICT,
    *,
    look: int = 0,
) -> list[Verdict]:
    """The verdicts on all finalists × shapes of one validation, in the order given.

    `floor` is this machine's calibration (None is answered with UNDECIDED); `look` the index of the preplanned
    look, whose rounds every run must have reached. ValueError where there is no such look.
    """
    if not 0 <= look < len(thresholds.looks):
        raise ValueError(f"look {look} is none of the {len(thresholds.looks)} preplanned")
    cases = [measured(evidence, floor, thresholds, look) for evidence in family]
    # what cannot be judged stays in the family: leaving it out would loosen the level of the others
    p_values = [case.p if isinstance(case, Case) else 1.0 for case in cases]
    alpha = thresholds.alpha * thresholds.spend[look]
    levels = statistics.holm_levels(p_values, alpha) if cases else []
    return [
        _judge(case, level, len(cases), thresholds, look) if isinstance(case, Case) else case
        for case, level in zip(cases, levels, strict=True)
    ]


def _judge(
    case: Case,
    level: float,
    family: int,
    thresholds: Thresholds,
    look: int,
) -> Verdict:
    low, high = (float(end) for end in case.effect.interval(level))
    numbers = replace(
        case.numbers, low=math.exp(low), high=math.exp(high), p_value=case.p, level=level, family=family
    )
    case = replace(case, numbers=numbers)
    status, reason = _before_timing(case.evidence, numbers, thresholds) or _by_interval(case, low, high)
    if status in (Status.FASTER, Status.SLOWER):
        status, reason, numbers = _confirmed(case, status, level, thresholds)
    if status is Status.FASTER:
        status, reason = _vetoed(case.evidence, numbers, thresholds) or (status, reason)
    if status is not Status.AMBIGUOUS:
        return Verdict(status, reason, "strict", numbers)
    if look + 1 < len(thresholds.looks):
        more = thresholds.looks[look + 1]
    elif case.effect.pair_sd > thresholds.max_pair_sd:
        return Verdict(Status.UNSTABLE, Reason.NEVER_CONVERGED, "strict", numbers)
    else:
        more = None
    needed = runs_needed(
        float(case.effect.point),
        delta=case.delta,
        pair_sd=float(case.effect.pair_sd),
        offset_sd=float(case.effect.offset_sd),
        level=level,
        df=float(case.effect.df),
        thresholds=thresholds,
    )
    return Verdict(status, reason, "strict", numbers, more, needed)


def _before_timing(
    evidence: Evidence, numbers: Numbers, thresholds: Thresholds
) -> tuple[Status, Reason] | None:
    """What settles the matter whatever the times say."""
    if evidence.wrong_outputs:
        return Status.UNDECIDED, Reason.WRONG_OUTPUT
    if evidence.code_sha256 and evidence.code_sha256 == evidence.base_code_sha256:
        return Status.NO_OP, Reason.SAME_CODE
    if (numbers.throttled_share or 0.0) > thresholds.max_throttled:
        return Status.UNSTABLE, Reason.THROTTLED
    return None


def _by_interval(case: Case, low: float, high: float) -> tuple[Status, Reason]:
    if low > case.delta:
        return Status.FASTER, Reason.ABOVE_FLOOR
    if high < -case.delta:
        return Status.SLOWER, Reason.BELOW_FLOOR
    if statistics.equivalent(low, high, case.delta):
        return Status.SAME, Reason.WITHIN_FLOOR
    return Status.AMBIGUOUS, Reason.INTERVAL_CROSSES_FLOOR


def _confirmed(
    case: Case, status: Status, level: float, thresholds: Thresholds
) -> tuple[Status, Reason, Numbers]:
    """The status if every run, the permutation and either order agree with the interval, else AMBIGUOUS."""
    sign = 1.0 if status is Status.FASTER else -1.0
    beyond = sign * case.y - case.delta
    resamples = min(200_000, max(9_999, math.ceil(20 / level)))
    numbers = replace(case.numbers, permutation_p=statistics.sign_flip(beyond.ravel(), resamples))
    if np.count_nonzero(beyond.mean(axis=1) <= 0) > thresholds.runs_spared(len(beyond)):
        return Status.AMBIGUOUS, Reason.RUN_WITHIN_FLOOR, numbers
    if (numbers.permutation_p or 0.0) > level:
        return Status.AMBIGUOUS, Reason.PERMUTATION_DISAGREES, numbers
    if numbers.order_p is not None and numbers.order_p < thresholds.nuisance_level:
        abba = np.array([r.order == "ABBA" for r in rounds_of(case.evidence)])
        flat = beyond.ravel()
        if min(flat[abba].mean(), flat[~abba].mean()) <= 0:
            return Status.AMBIGUOUS, Reason.ORDER_EFFECT, numbers
    reason = Reason.ABOVE_FLOOR if status is Status.FASTER else Reason.BELOW_FLOOR
    return status, reason, numbers


def _vetoed(evidence: Evidence, numbers: Numbers, thresholds: Thresholds) -> tuple[Status, Reason] | None:
    """Why a candidate that is faster in the median is still not accepted."""
    if numbers.p95_ratio is None or not numbers.p95_ratio <= 1 + thresholds.p95_worse:
        return Status.AMBIGUOUS, Reason.P95_WORSE
    if numbers.spread_ratio is None or not numbers.spread_ratio <= 1 + thresholds.spread_wider:
        return Status.AMBIGUOUS, Reason.SPREAD_WIDER
    if evidence.soak_repeats < thresholds.soak_repeats:
        return Status.UNDECIDED, Reason.NOT_SOAKED
    return None
