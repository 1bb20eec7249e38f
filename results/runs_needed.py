"""How many runs would settle an effect: the forecast an AMBIGUOUS verdict names."""

from __future__ import annotations

import math

from . import statistics
from .thresholds import Thresholds


def forecast_power(
    effect: float,
    runs: int,
    *,
    delta: float,
    pair_sd: float,
    offset_sd: float,
    level: float,
    df: float,
    thresholds: Thresholds,
) -> float:
    """The least probability that `runs` runs at the last look call `effect` (log units) FASTER.

    Both conditions are counted, by Bonferroni: the lower bound above `delta`, and the runs' own points.
    """
    rounds = thresholds.looks[-1]
    noise = pair_sd**2 / rounds
    weight = thresholds.shared_share + (1 - thresholds.shared_share) / runs
    error = math.sqrt(weight * offset_sd**2 + noise / runs)
    one_run = math.sqrt(offset_sd**2 + noise)
    bound = delta + float(statistics.t_quantile(level, df)) * error
    bound_fails = statistics.normal_cdf((bound - effect) / (one_run / math.sqrt(runs)))
    one_fails = statistics.normal_cdf((delta - effect) / one_run)
    runs_hold = statistics.binomial_cdf(thresholds.runs_spared(runs), runs, one_fails)
    return max(0.0, runs_hold - bound_fails)


def runs_needed(
    effect: float,
    *,
    delta: float,
    pair_sd: float,
    offset_sd: float,
    level: float,
    df: float,
    thresholds: Thresholds,
) -> int | None:
    """The least number of runs with the thresholds' power for `effect`; None if none up to `max_runs` has it.

    Where `runs_above` is 1 there is mostly none: one more run is one more that can fall below `delta` by itself.
    """
    for runs in range(thresholds.runs, thresholds.max_runs + 1):
        power = forecast_power(
            abs(effect),
            runs,
            delta=delta,
            pair_sd=pair_sd,
            offset_sd=offset_sd,
            level=level,
            df=df,
            thresholds=thresholds,
        )
        if power >= thresholds.power:
            return runs
    return None
