"""The statistics: against numbers worked by hand, and against scipy where it has the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from helitune.results import statistics
from helitune.results.effect import estimate
from helitune.results.noise_floor import noise_floor

A = [1.0, 2.0, 3.0, 4.0, 5.0]
B = [2.0, 4.0, 6.0, 8.0, 10.0]


def test_welch_by_hand() -> None:
    # means 3 and 6, variances 2.5 and 10: t = -3 / sqrt(2.5), df = 2.5^2 / (0.5^2/4 + 2^2/4)
    result = statistics.welch(A, B)
    assert result.t == pytest.approx(-3 / math.sqrt(2.5))
    assert result.df == pytest.approx(6.25 / 1.0625)
    assert result.p == pytest.approx(2 * stats.t.sf(3 / math.sqrt(2.5), 6.25 / 1.0625))


def test_cohen_d_pools_by_degrees_of_freedom() -> None:
    assert statistics.cohen_d(B, A) == pytest.approx(3 / math.sqrt(6.25))
    # variances 2.5 (df 4) and 2 (df 1): pooled 12 / 5
    assert statistics.cohen_d(A, [0.0, 2.0]) == pytest.approx(2 / math.sqrt(2.4))


def test_t_interval_is_scipys() -> None:
    low, high = statistics.t_interval(A, 0.025)
    expected = stats.ttest_1samp(A, 0.0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_tails_are_scipys() -> None:
    assert float(statistics.upper_tail(2.1, 7.5)) == pytest.approx(stats.t.sf(2.1, 7.5))
    assert float(statistics.t_quantile(0.001, 7.5)) == pytest.approx(stats.t.isf(0.001, 7.5))


def test_sign_flip_by_hand() -> None:
    # of the 8 sign patterns only +++ reaches 1 + 2 + 3; +++ and -++ reach -1 + 2 + 3
    assert statistics.sign_flip([1.0, 2.0, 3.0]) == pytest.approx(1 / 8)
    assert statistics.sign_flip([-1.0, 2.0, 3.0]) == pytest.approx(2 / 8)
    assert statistics.sign_flip([-1.0, -2.0, -3.0]) == 1.0


def test_sign_flip_is_scipys() -> None:
    y = np.random.default_rng(3).normal(0.3, 1, 10)
    exact = stats.permutation_test(
        (y,), np.sum, permutation_type="samples", alternative="greater", n_resamples=np.inf
    )
    assert statistics.sign_flip(y) == pytest.approx(exact.pvalue)
    many = np.random.default_rng(4).normal(0.3, 1, 30)
    assert statistics.sign_flip(many) == pytest.approx(
        stats.ttest_1samp(many, 0, alternative="greater").pvalue, abs=0.01
    )
    assert statistics.sign_flip(np.ones(30)) == pytest.approx(1 / 10000)


def test_holm_by_hand() -> None:
    assert statistics.holm_adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # 0.005 <= 0.05/4 and 0.01 <= 0.05/3 are rejected; 0.03 > 0.05/2 is kept and 0.04 with it
    levels = statistics.holm_levels([0.01, 0.04, 0.03, 0.005], 0.05)
    assert levels == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_levels_reject_what_holm_rejects(p_values: list[float]) -> None:
    adjusted = statistics.holm_adjusted(p_values)
    levels = statistics.holm_levels(p_values, 0.05)
    for p, whole, level in zip(p_values, adjusted, levels, strict=True):
        if abs(whole - 0.05) > 1e-12:
            assert (p <= level) == (whole <= 0.05)


def test_lag1_autocorrelation() -> None:
    # about the mean: -1 1 -1 1, lagged products -3 over squares 4, and 1/4 for the mean
    assert float(statistics.lag1_autocorrelation([[0.0, 2.0, 0.0, 2.0]])) == pytest.approx(-0.5)
    rng = np.random.default_rng(0)
    y = rng.normal(size=(1, 4000))
    assert abs(float(statistics.lag1_autocorrelation(y))) < 0.05
    for r in range(1, 4000):
        y[0, r] += 0.6 * y[0, r - 1]
    assert float(statistics.lag1_autocorrelation(y)) == pytest.approx(0.6, abs=0.05)
    # two runs at different levels are not correlated rounds
    split = rng.normal(size=(2, 2000)) + np.array([[0.0], [50.0]])
    assert abs(float(statistics.lag1_autocorrelation(split))) < 0.05


def test_order_effect() -> None:
    result = statistics.order_effect([*A, *B], [True] * 5 + [False] * 5)
    assert result == statistics.welch(A, B)
    assert statistics.order_effect([1.0, 2.0, 3.0], [True, False, False]) is None
    with pytest.raises(ValueError, match="orders"):
        statistics.order_effect(A, [True])


def test_equivalent() -> None:
    assert statistics.equivalent(-0.01, 0.01, 0.01)
    assert not statistics.equivalent(-0.011, 0.005, 0.01)
    assert not statistics.equivalent(float("nan"), 0.005, 0.01)


@pytest.mark.parametrize("bad", [[], [1.0], [1.0, math.nan], [1.0, math.inf], [[1.0, 2.0]]])
def test_bad_series_are_errors(bad: list[float]) -> None:
    for function in (
        lambda y: statistics.welch(y, A),
        lambda y: statistics.cohen_d(A, y),
        statistics.sign_flip,
    ):
        with pytest.raises(ValueError):
            function(bad)


def test_constant_series_are_errors() -> None:
    for function in (statistics.welch, statistics.cohen_d):
        with pytest.raises(ValueError, match="constant"):
            function([1.0, 1.0], [2.0, 2.0])
    for p_values in ([], [1.1], [math.nan]):
        with pytest.raises(ValueError, match="p values"):
            statistics.holm_levels(p_values, 0.05)


def test_floor_takes_the_rounds_noise_out() -> None:
    # baselines at +-0.2 % with rounds +-0.1 % about them: mean square 4e-6, noise 4/3 * 1e-6 / 4
    rounds = np.array([1, -1, 1, -1]) * 0.001
    floor = noise_floor([sign * 0.002 + rounds for sign in (1, -1) * 10])
    assert floor.offsets == 20
    assert floor.quantile95 == pytest.approx(0.002)
    assert floor.offset_noise == pytest.approx(1e-6 / 3)
    assert floor.offset_variance == pytest.approx(4e-6 - 1e-6 / 3)


def test_a_biased_floor_counts_its_bias() -> None:
    rng = np.random.default_rng(0)
    floor = noise_floor(list(0.01 + rng.normal(0, 0.001, (20, 40))))
    assert math.sqrt(floor.offset_variance) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("bad", [[[0.1, 0.2]], [[0.1, 0.1]] * 20, [[0.1, math.nan]] * 20, [[0.1]] * 20])
def test_floor_errors(bad: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        noise_floor(bad)


def test_estimate_by_hand() -> None:
    y = np.array([[0.01, 0.03], [0.05, 0.07]])
    # run points 0.02 and 0.06, rounds' variance 2e-4; seen between runs 8e-4 - 1e-4; pooled with 3 calibrated
    effect = estimate(y, offset_variance=1e-4, offset_noise=0.0, offsets=3, shared=0.5, nuisance_level=0.01)
    variance = (3 * 1e-4 + 7e-4) / 4
    between, rest = 0.75 * variance, 2e-4 / 4
    assert float(effect.point) == pytest.approx(0.04)
    assert float(effect.error) == pytest.approx(math.sqrt(between + rest))
    assert float(effect.df) == pytest.approx((between + rest) ** 2 / (between**2 / 3 + rest**2 / 2))


def test_runs_that_agree_do_not_lower_the_offset_variance() -> None:
    y = np.random.default_rng(0).normal(0, 1e-3, 10) * np.ones((5, 1))
    effect = estimate(y, offset_variance=1e-4, offset_noise=0.0, offsets=20, shared=0.0, nuisance_level=0.01)
    assert float(effect.offset_sd) == pytest.approx(0.01)


def test_correlated_rounds_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(0, 0.003, (2, 40))
    smooth = np.sort(y, axis=1)
    errors = [
        float(
            estimate(
                one, offset_variance=0.0, offset_noise=1e-8, offsets=20, shared=0.25, nuisance_level=0.01
            ).error
        )
        for one in (y - y.mean(axis=1, keepdims=True), smooth - smooth.mean(axis=1, keepdims=True))
    ]
    assert errors[1] > 2 * errors[0]
