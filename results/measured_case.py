"""One candidate's measured case: what the strict gate judges, or why there is nothing to judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import statistics
from .blocks import Evidence, Round
from .effect import Effect, estimate
from .noise_floor import NoiseFloor
from .statistics import Floats
from .thresholds import Thresholds
from .verdict import Numbers, Reason, Status, Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate, measured: its log ratios (runs, rounds), the estimate, and the numbers so far."""

    evidence: Evidence
    y: Floats
    effect: Effect
    delta: float
    numbers: Numbers

    @property
    def p(self) -> float:
        return float(min(self.effect.p_above(self.delta), self.effect.p_below(self.delta)))


def measured(
    evidence: Evidence, floor: NoiseFloor | None, thresholds: Thresholds, look: int
) -> Case | Verdict:
    """The measured case, or the verdict that its numbers allow none."""
    runs = evidence.runs
    counts = Numbers(runs=len(runs), rounds=min((len(run.rounds) for run in runs), default=0))
    problem = _unusable(evidence, floor, thresholds, look)
    if problem or floor is None:
        return Verdict(Status.UNDECIDED, problem or Reason.UNCALIBRATED, "strict", counts)
    y = _times(evidence, "base") - _times(evidence, "candidate")
    if (np.ptp(y, axis=1) < 1e-12).any():
        return Verdict(Status.UNDECIDED, Reason.CONSTANT, "strict", counts)
    effect = estimate(
        y,
        offset_variance=floor.offset_variance,
        offset_noise=floor.offset_noise,
        offsets=floor.offsets,
        shared=thresholds.shared_share,
        nuisance_level=thresholds.nuisance_level,
    )
    control = float(np.abs((_times(evidence, "base") - _times(evidence, "again")).mean(axis=1)).max())
    least = math.log1p(thresholds.min_effect)
    delta = max(least, floor.quantile95, control)
    numbers = _numbers(evidence, y, effect, counts)
    numbers = replace(
        numbers, delta=delta, min_effect=least, calibrated_aa=floor.quantile95, largest_aa=control
    )
    return Case(evidence, y, effect, delta, numbers)


def _unusable(
    evidence: Evidence, floor: NoiseFloor | None, thresholds: Thresholds, look: int
) -> Reason | None:
    runs = evidence.runs
    if len(runs) < thresholds.runs:
        return Reason.TOO_FEW_RUNS
    if len({len(run.rounds) for run in runs}) > 1:
        return Reason.MISMATCHED
    if len(runs[0].rounds) < thresholds.looks[look]:
        return Reason.TOO_FEW_ROUNDS
    blocks = [b for run in runs for r in run.rounds for b in (r.base, r.again, r.candidate)]
    times = np.array([(b.median_ms, b.p95_ms, b.spread_ms) for b in blocks])
    if not np.isfinite(times).all() or (times[:, :2] <= 0).any() or (times[:, 2] < 0).any():
        return Reason.NOT_FINITE
    if any((np.ptp(_times(evidence, arm), axis=1) == 0).any() for arm in ("base", "again", "candidate")):
        return Reason.CONSTANT
    if floor is None or floor.offsets < thresholds.min_offsets:
        return Reason.UNCALIBRATED
    return None


def _times(evidence: Evidence, arm: str) -> Floats:
    """Log of the block medians of `arm`, (runs, rounds)."""
    return np.log([[getattr(r, arm).median_ms for r in run.rounds] for run in evidence.runs])


def rounds_of(evidence: Evidence) -> list[Round]:
    return [r for run in evidence.runs for r in run.rounds]


def _numbers(evidence: Evidence, y: Floats, effect: Effect, counts: Numbers) -> Numbers:
    rounds = rounds_of(evidence)
    abba = np.array([r.order == "ABBA" for r in rounds])
    # orders are compared about each run's own mean: a run's offset is no order effect
    order = statistics.order_effect((y - y.mean(axis=1, keepdims=True)).ravel(), abba)
    base, candidate = np.exp(_times(evidence, "base")), np.exp(_times(evidence, "candidate"))
    pairs = list(zip(base, candidate, strict=True))
    return replace(
        counts,
        speedup=math.exp(float(effect.point)),
        run_speedups=tuple(float(np.exp(point)) for point in effect.run_points),
        offset_sd=float(effect.offset_sd),
        pair_sd=float(effect.pair_sd),
        autocorrelation=float(effect.autocorrelation),
        order_p=order.p if order else None,
        welch_p=tuple(statistics.welch(b, c).p for b, c in pairs),
        cohen_d=tuple(statistics.cohen_d(b, c) for b, c in pairs),
        p95_ratio=float(np.median([r.candidate.p95_ms / r.base.p95_ms for r in rounds])),
        spread_ratio=_spread_ratio(rounds),
        throttled_share=float(np.mean([r.throttled for r in rounds])),
    )


def _spread_ratio(rounds: Sequence[Round]) -> float:
    """The candidate's median relative spread over the baseline's; 1 where neither spreads."""
    base = float(np.median([r.base.spread_ms / r.base.median_ms for r in rounds]))
    candidate = float(np.median([r.candidate.spread_ms / r.candidate.median_ms for r in rounds]))
    if base == 0:
        return 1.0 if candidate == 0 else math.inf
    return candidate / base
