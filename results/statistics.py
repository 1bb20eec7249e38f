"""The statistics of a verdict: pure functions of numbers, each with the source of its formula.

Only this module imports scipy, whose import costs a second: nothing that every command needs may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats  # type: ignore[import-untyped]

Floats = NDArray[np.float64]


def series(values: ArrayLike, least: int = 2) -> Floats:
    """`values` as a one-dimensional float array; ValueError if fewer than `least` or not all finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size < least:
        raise ValueError(f"needs one series of at least {least} numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("a number is not finite")
    return array


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's test of two means: t, its degrees of freedom, the two-sided p."""

    t: float
    df: float
    p: float


def welch(first: ArrayLike, second: ArrayLike) -> Welch:
    """Welch's unequal variances t test of mean(first) - mean(second), by scipy.

    B. L. Welch, The generalization of "Student's" problem, Biometrika 34 (1947). ValueError where both series
    are constant: the test has no answer there.
    """
    a, b = series(first), series(second)
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        raise ValueError("both series are constant")
    result = stats.ttest_ind(a, b, equal_var=False)
    return Welch(float(result.statistic), float(result.df), float(result.pvalue))


def cohen_d(first: ArrayLike, second: ArrayLike) -> float:
    """(mean(first) - mean(second)) / pooled standard deviation; ValueError where that is 0.

    The pooled variance weighs each by its degrees of freedom. J. Cohen, Statistical Power Analysis for the
    Behavioral Sciences (1988), section 2.5.
    """
    a, b = series(first), series(second)
    pooled = ((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / (a.size + b.size - 2)
    if pooled == 0:
        raise ValueError("both series are constant")
    return float((a.mean() - b.mean()) / np.sqrt(pooled))


def upper_tail(t: ArrayLike, df: ArrayLike) -> Floats:
    """P(T > t) of Student's t with `df` degrees of freedom, elementwise."""
    return np.asarray(special.stdtr(df, -np.asarray(t, dtype=np.float64)), dtype=np.float64)


def t_quantile(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t that is exceeded with probability `level`, elementwise."""
    return np.asarray(-special.stdtrit(df, np.asarray(level, dtype=np.float64)), dtype=np.float64)


def normal_cdf(z: float) -> float:
    """P(Z < z) of the standard normal."""
    return float(special.ndtr(z))


def binomial_cdf(most: int, trials: int, chance: float) -> float:
    """The probability of at most `most` hits in `trials`, each of probability `chance`."""
    return float(special.bdtr(most, trials, chance))


def t_interval(log_ratios: ArrayLike, level: float) -> tuple[float, float]:
    """The t interval of the mean of `log_ratios`, each end with one-sided error `level`, in log units.

    Student (1908); on logarithms, so that base/candidate and candidate/base give mirrored answers.
    """
    y = series(log_ratios)
    half = float(t_quantile(level, y.size - 1)) * float(y.std(ddof=1)) / np.sqrt(y.size)
    return float(y.mean() - half), float(y.mean() + half)


def sign_flip(values: ArrayLike, resamples: int = 9999, seed: int = 0) -> float:
    """The one-sided p of mean(values) > 0 when each sign is as likely as its opposite.

    Exact for up to 13 values, else `resamples` random flips with (1 + hits) / (1 + resamples), which is never 0.
    R. A. Fisher, The Design of Experiments (1935), section 21; the count of Phipson and Smyth (2010).
    """
    y = series(values)
    # a tie must count as a hit whatever the order of summation
    least = y.sum() - 1e-9 * np.abs(y).sum()
    if y.size <= 13:
        bits = np.arange(2**y.size)[:, None] >> np.arange(y.size) & 1
        return float(np.mean((2 * bits - 1) @ y >= least))
    rng, hits = np.random.default_rng(seed), 0
    for start in range(0, resamples, 4096):  # in pieces, for the memory
        flips = rng.integers(0, 2, (min(4096, resamples - start), y.size), dtype=np.int8)
        hits += int(np.count_nonzero((2 * flips - 1).astype(np.float64) @ y >= least))
    return float((1 + hits) / (1 + resamples))


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Each p adjusted for the family, in the order given: at most alpha exactly where Holm rejects.

    S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    p = _probabilities(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """The level at which Holm tests each p, in the order given: p <= level exactly where it is rejected.

    Once one is kept, all larger ones are judged at its level. An interval at that level agrees with the test.
    """
    p = _probabilities(p_values)
    order = np.argsort(p, kind="stable")
    steps = alpha / np.arange(p.size, 0, -1)
    kept = np.flatnonzero(p[order] > steps)
    if kept.size:
        steps[kept[0] :] = steps[kept[0]]
    levels = np.empty_like(p)
    levels[order] = steps
    return [float(value) for value in levels]


def _probabilities(p_values: Sequence[float]) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not p.size or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values are one or more numbers between 0 and 1")
    return p


def lag1_autocorrelation(y: ArrayLike) -> Floats:
    """The lag-1 autocorrelation of rounds, pooled over runs; `y` has shape (..., runs, rounds).

    Each run about its own mean, plus 1/rounds for the bias that the mean costs: 0 is expected of white noise.
    G. E. P. Box and G. M. Jenkins, Time Series Analysis (1976), chapter 2; the bias after Kendall (1954).
    """
    array = np.asarray(y, dtype=np.float64)
    centred = array - array.mean(axis=-1, keepdims=True)
    total = (centred**2).sum(axis=(-2, -1))
    lagged = (centred[..., 1:] * centred[..., :-1]).sum(axis=(-2, -1))
    safe = np.where(total > 0, total, 1.0)
    return np.asarray(np.where(total > 0, lagged / safe + 1 / array.shape[-1], 0.0), dtype=np.float64)


def order_effect(log_ratios: ArrayLike, first_order: ArrayLike) -> Welch | None:
    """Welch's test of the rounds in ABBA order against those in BAAB; None with fewer than 2 of either.

    The second argument says of each round whether its order was ABBA.
    """
    y, mask = series(log_ratios), np.asarray(first_order, dtype=bool)
    if mask.shape != y.shape:
        raise ValueError(f"{y.size} rounds but {mask.size} orders")
    a, b = y[mask], y[~mask]
    if min(a.size, b.size) < 2 or (np.ptp(a) == 0 and np.ptp(b) == 0):
        return None
    return welch(a, b)


def equivalent(low: float, high: float, delta: float) -> bool:
    """Whether the interval lies in [-delta, delta]: two one-sided tests, each at the level of one end.

    D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987).
    """
    return bool(-delta <= low <= high <= delta)
