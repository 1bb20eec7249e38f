"""The effect of a candidate and how sure it is: the estimate behind the strict gate.

A round's log ratio is y = effect + offset of the run + noise of the round. The rounds of a run show only the
noise. The offset (where an arm's buffers and code landed) is the same in all of them, and two runs are too few
to see its size, so its variance comes from the machine's A/A calibration:

    variance of the mean = offset variance * (shared + (1 - shared) / runs) + noise variance / (runs * rounds)

It is a one-way random effects model (Searle, Casella, McCulloch, Variance Components, 1992, chapter 3), with one
term more: `shared`, the share of offset variance that new runs do not average because they may land alike.
Degrees of freedom after Satterthwaite, Biometrics Bulletin 2 (1946).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import statistics
from .statistics import Floats


@dataclass(frozen=True, slots=True)
class Effect:
    """The estimate in log units, each an array over whatever leading axes the rounds had.

    `run_points` has one more axis, the runs. `pair_sd` is the standard deviation of a round about its run,
    `offset_sd` that of a run's offset, `autocorrelation` the lag-1 of the rounds.
    """

    point: Floats
    error: Floats
    df: Floats
    run_points: Floats
    pair_sd: Floats
    offset_sd: Floats
    autocorrelation: Floats

    def p_above(self, delta: Floats | float) -> Floats:
        """The one-sided p of "the effect is at most `delta`"."""
        return statistics.upper_tail((self.point - delta) / self.error, self.df)

    def p_below(self, delta: Floats | float) -> Floats:
        """The one-sided p of "the effect is at least -`delta`"."""
        return statistics.upper_tail((-self.point - delta) / self.error, self.df)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Both ends, each with one-sided error `level`."""
        half = statistics.t_quantile(level, self.df) * self.error
        return self.point - half, self.point + half


def estimate(
    log_ratios: ArrayLike,
    *,
    offset_variance: Floats | float,
    offset_noise: Floats | float,
    offsets: int,
    shared: float,
    nuisance_level: float,
) -> Effect:
    """The effect in `log_ratios` of shape (..., runs, rounds), the rounds not all equal.

    `offset_variance` is the calibrated one, `offset_noise` the rounds' noise that was taken out of it and
    `offsets` how many rebuilt baselines it rests on. Runs that scatter more than calibrated raise the variance;
    runs that happen to agree never lower it.
    """
    y = np.asarray(log_ratios, dtype=np.float64)
    runs, rounds = y.shape[-2:]
    run_points = y.mean(axis=-1)
    within = y.var(axis=-1, ddof=1).mean(axis=-1)
    autocorrelation = statistics.lag1_autocorrelation(y)
    noise = within * _inflation(autocorrelation, runs * rounds, nuisance_level)
    calibrated = np.maximum(offset_variance, _unseen(offset_noise, offsets))
    variance = calibrated
    if runs > 1:
        seen = run_points.var(axis=-1, ddof=1) - noise / rounds
        variance = np.maximum(calibrated, (offsets * calibrated + (runs - 1) * seen) / (offsets + runs - 1))
    weight = shared + (1 - shared) / runs
    between, rest = weight * variance, noise / (runs * rounds)
    # the noise taken out makes the calibrated variance doubtful; it has been given at least what may be unseen in it
    doubtful = weight * (variance + np.minimum(offset_noise, variance))
    doubt = doubtful**2 / offsets + rest**2 / (runs * (rounds - 1))
    return Effect(
        point=run_points.mean(axis=-1),
        error=np.sqrt(between + rest),
        df=(between + rest) ** 2 / doubt,
        run_points=run_points,
        pair_sd=np.sqrt(within),
        offset_sd=np.sqrt(variance),
        autocorrelation=autocorrelation,
    )


def _unseen(offset_noise: Floats | float, offsets: int) -> Floats:
    """The offset variance that a calibration cannot tell from none: two standard errors of its estimate at none.

    The mean square of `offsets` offsets that are noise alone has the relative standard error sqrt(2 / offsets).
    Where the calibration was noisier than what is judged, an estimate near 0 says nothing; this much is then
    assumed, instead of degrees of freedom near 0.
    """
    return np.asarray(2 * np.asarray(offset_noise, dtype=np.float64) * math.sqrt(2 / offsets))


def _inflation(autocorrelation: Floats, count: int, level: float) -> Floats:
    """How much the variance of a mean grows, (1 + r) / (1 - r), where r is significantly above 0; else 1."""
    significant = autocorrelation * np.sqrt(count) > float(statistics.t_quantile(level, count))
    r = np.clip(autocorrelation, 0.0, 0.95)
    return np.where(significant, (1 + r) / (1 - r), 1.0)
