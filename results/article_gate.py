"""The articles' gate, kept exactly so that results can be compared with theirs. It is not enough: see strict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from . import statistics
from .statistics import Floats
from .thresholds import ARTICLE, Thresholds
from .verdict import Numbers, Reason, Status, Verdict


def decide_article(runs: Sequence[tuple[ArrayLike, ArrayLike]], thresholds: Thresholds = ARTICLE) -> Verdict:
    """The article's verdict on (baseline, candidate) times, one pair of series a run, in one unit.

    FASTER where in every run Welch p < 0.05, Cohen's d with pooled variance > 0.2 and the candidate's mean is
    lower; SLOWER the mirror. The series are what the caller averaged: launches, or the medians of blocks.
    """
    pairs = [(np.asarray(b, dtype=np.float64), np.asarray(c, dtype=np.float64)) for b, c in runs]
    problem = _unusable(pairs, thresholds)
    if problem:
        return Verdict(Status.UNDECIDED, problem, "article", Numbers(runs=len(pairs)))
    p = tuple(statistics.welch(base, candidate).p for base, candidate in pairs)
    d = tuple(statistics.cohen_d(base, candidate) for base, candidate in pairs)
    speedups = tuple(float(base.mean() / candidate.mean()) for base, candidate in pairs)
    numbers = Numbers(
        speedup=float(np.exp(np.mean(np.log(speedups)))),
        run_speedups=speedups,
        welch_p=p,
        cohen_d=d,
        runs=len(pairs),
        rounds=pairs[0][0].size,
    )
    significant = all(one < thresholds.welch_p for one in p)
    if significant and all(one > thresholds.cohen_d for one in d):
        return Verdict(Status.FASTER, Reason.EVERY_RUN_FASTER, "article", numbers)
    if significant and all(one < -thresholds.cohen_d for one in d):
        return Verdict(Status.SLOWER, Reason.EVERY_RUN_SLOWER, "article", numbers)
    return Verdict(Status.AMBIGUOUS, Reason.RUN_NOT_SIGNIFICANT, "article", numbers)


def _unusable(pairs: Sequence[tuple[Floats, Floats]], thresholds: Thresholds) -> Reason | None:
    if len(pairs) < thresholds.runs:
        return Reason.TOO_FEW_RUNS
    for base, candidate in pairs:
        if base.ndim != 1 or base.shape != candidate.shape:
            return Reason.MISMATCHED
        if base.size < thresholds.min_samples:
            return Reason.TOO_FEW_SAMPLES
        if not all(np.isfinite(side).all() and (side > 0).all() for side in (base, candidate)):
            return Reason.NOT_FINITE
        if np.ptp(base) == 0 or np.ptp(candidate) == 0:
            return Reason.CONSTANT
    return None
