"""The verdict on synthetic series whose truth is known: the gate fails closed, and finds what is there."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helitune.results.article_gate import decide_article
from helitune.results.blocks import Block, Evidence, Round, Run
from helitune.results.noise_floor import NoiseFloor
from helitune.results.runs_needed import forecast_power, runs_needed
from helitune.results.strict_gate import decide, decide_family
from helitune.results.thresholds import QUICK, STRICT
from helitune.results.verdict import Reason, Status, Verdict
from helitune.results.verdict_words import WORDS, explain

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]
QUIET = NoiseFloor(quantile95=0.002, offset_variance=0.001**2, offset_noise=0.0005**2, offsets=20)
SEEDS = range(20)


def loud(offset_sd: float) -> NoiseFloor:
    return replace(QUIET, quantile95=1.96 * offset_sd, offset_variance=offset_sd**2)


def white(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.normal(0, 0.003 / math.sqrt(2), shape)


def drift(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return white(rng, shape) + 0.05 * np.exp(-np.arange(shape[-1]) / 5)


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    noise = white(rng, shape)
    for r in range(1, shape[-1]):
        noise[..., r] = 0.6 * noise[..., r - 1] + 0.8 * noise[..., r]
    return noise


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return white(rng, shape) + 0.03 * (rng.random(shape) < 0.2)


def outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return white(rng, shape) + (rng.random(shape) < 0.05) * rng.exponential(0.05, shape)


def step(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return white(rng, shape) + 0.03 * (np.arange(shape[-1]) > rng.integers(0, shape[-1]))


NOISES = (white, drift, autoregressive, bimodal, outliers, step)


def evidence(
    speedup: float = 1.0,
    *,
    seed: int = 0,
    noise: Noise = white,
    rounds: int = 10,
    offsets: tuple[float, ...] = (0.0, 0.0),
    scale: float = 1.0,
) -> Evidence:
    """A soaked candidate; `offsets` are the candidate's own, run by run, in log units (above 0 is faster)."""
    rng = np.random.default_rng(seed)
    times = noise(rng, (3, len(offsets), rounds))
    times[2] -= math.log(speedup) + np.array(offsets)[:, None]
    blocks = 0.05 * scale * np.exp(times)
    orders = rng.random((len(offsets), rounds)) < 0.5
    runs = tuple(
        Run(
            tuple(
                Round(*(block(blocks[arm, k, r]) for arm in range(3)), "ABBA" if orders[k, r] else "BAAB")
                for r in range(rounds)
            )
        )
        for k in range(len(offsets))
    )
    return Evidence(runs, "candidate", "base", soak_repeats=100)


def block(median: float) -> Block:
    return Block(float(median), float(median * 1.02), float(median * 0.04))


def each_round(one: Evidence, change: Callable[[Round], Round]) -> Evidence:
    return replace(one, runs=tuple(Run(tuple(change(r) for r in run.rounds)) for run in one.runs))


def outcome(verdict: Verdict) -> tuple[Status, Reason]:
    return verdict.status, verdict.reason


# what is there is found


def test_a_gain_is_faster_and_all_numbers_are_there() -> None:
    verdict = decide(evidence(1.02), QUIET)
    n = verdict.numbers
    assert outcome(verdict) == (Status.FASTER, Reason.ABOVE_FLOOR) and verdict.accepted
    assert n.speedup == pytest.approx(1.02, abs=0.003)
    assert n.low is not None and n.high is not None and 1.005 < n.low < 1.02 < n.high
    assert n.delta == pytest.approx(math.log(1.005))
    assert n.level == pytest.approx(STRICT.alpha * STRICT.spend[0])
    assert n.pair_sd == pytest.approx(0.003, rel=0.4)
    assert (n.runs, n.rounds, n.family, len(n.run_speedups), len(n.welch_p)) == (2, 10, 1, 2, 2)
    assert n.permutation_p is not None and n.permutation_p < n.level


def test_the_same_kernel_is_the_same() -> None:
    statuses = {decide(evidence(rounds=40, seed=seed), QUIET, look=2).status for seed in SEEDS}
    assert statuses == {Status.SAME}


def test_a_loss_is_slower() -> None:
    assert outcome(decide(evidence(0.98), QUIET)) == (Status.SLOWER, Reason.BELOW_FLOOR)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.__name__)
def test_no_noise_makes_a_null_faster(noise: Noise) -> None:
    verdicts = [decide(evidence(seed=seed, noise=noise), QUIET) for seed in SEEDS]
    assert not any(verdict.accepted for verdict in verdicts)


@pytest.mark.parametrize("noise", [white, drift, step, autoregressive], ids=lambda noise: noise.__name__)
def test_noise_common_to_the_arms_hides_no_gain(noise: Noise) -> None:
    verdicts = [decide(evidence(1.03, seed=seed, noise=noise), QUIET) for seed in SEEDS]
    assert sum(verdict.accepted for verdict in verdicts) >= 19


# what a run's offset does


def test_an_offset_of_one_run_is_no_gain() -> None:
    for offsets in ((0.03, 0.0), (0.0, 0.03)):
        assert decide(evidence(offsets=offsets), QUIET).status is Status.AMBIGUOUS


def test_every_run_must_be_above_the_floor_by_itself() -> None:
    offsets = (0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.001)
    verdict = decide(evidence(offsets=offsets, rounds=40), loud(0.0025), look=2)
    assert outcome(verdict) == (Status.AMBIGUOUS, Reason.RUN_WITHIN_FLOOR)


def test_a_share_of_the_runs_may_be_spared() -> None:
    offsets = (0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.0, 0.0)
    for spared, accepted in ((0.75, True), (0.8, False)):
        thresholds = replace(STRICT, runs_above=spared)
        verdict = decide(evidence(offsets=offsets, rounds=40), loud(0.0025), thresholds, look=2)
        assert verdict.accepted is accepted
    assert [replace(STRICT, runs_above=0.75).runs_spared(runs) for runs in (1, 2, 3, 4, 8)] == [0, 0, 0, 1, 2]


def test_the_same_offset_in_both_runs_is_caught_by_calibration_only() -> None:
    shared = evidence(offsets=(0.015, 0.015))
    assert decide(shared, QUIET).accepted
    assert decide(shared, loud(0.01)).status is Status.AMBIGUOUS


def test_a_control_that_is_off_widens_the_floor() -> None:
    def off(one: Round) -> Round:
        return replace(one, again=block(one.base.median_ms * 1.03))

    assert decide(evidence(1.02), QUIET).accepted
    verdict = decide(each_round(evidence(1.02), off), QUIET)
    assert not verdict.accepted and verdict.numbers.delta == pytest.approx(math.log(1.03))


# what cannot be judged


def spoiled(value: float, arm: str) -> Evidence:
    first = True

    def change(one: Round) -> Round:
        nonlocal first
        was, first = first, False
        return replace(one, **{arm: block(value)}) if was else one

    return each_round(evidence(1.05), change)


@pytest.mark.parametrize("arm", ["base", "again", "candidate"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_not_finite_and_positive_is_undecided(value: float, arm: str) -> None:
    assert outcome(decide(spoiled(value, arm), QUIET)) == (Status.UNDECIDED, Reason.NOT_FINITE)


@pytest.mark.parametrize("arms", [("base",), ("again",), ("candidate",), ("base", "again", "candidate")])
def test_constant_is_undecided(arms: tuple[str, ...]) -> None:
    constant = each_round(evidence(1.05), lambda r: replace(r, **dict.fromkeys(arms, block(0.01))))
    assert outcome(decide(constant, QUIET)) == (Status.UNDECIDED, Reason.CONSTANT)


def test_a_constant_ratio_is_undecided() -> None:
    copied = each_round(evidence(), lambda r: replace(r, candidate=block(r.base.median_ms * 0.9)))
    half = replace(copied, runs=(copied.runs[0], evidence(1.1).runs[1]))
    for one in (copied, half):
        assert outcome(decide(one, QUIET)) == (Status.UNDECIDED, Reason.CONSTANT)


def test_too_few_or_mismatched_is_undecided() -> None:
    one = evidence(1.05)
    cut = replace(one, runs=(one.runs[0], Run(one.runs[1].rounds[:9])))
    cases = {
        Reason.TOO_FEW_ROUNDS: evidence(1.05, rounds=2),
        Reason.TOO_FEW_RUNS: evidence(1.05, offsets=(0.0,)),
        Reason.MISMATCHED: cut,
    }
    for reason, case in cases.items():
        assert outcome(decide(case, QUIET)) == (Status.UNDECIDED, reason)
    assert outcome(decide(Evidence(()), QUIET)) == (Status.UNDECIDED, Reason.TOO_FEW_RUNS)


def test_no_or_too_small_a_calibration_is_undecided() -> None:
    for floor in (None, replace(QUIET, offsets=19)):
        assert outcome(decide(evidence(1.05), floor)) == (Status.UNDECIDED, Reason.UNCALIBRATED)
    with pytest.raises(ValueError):
        replace(QUIET, quantile95=math.nan)


@pytest.mark.parametrize("samples", [[1.0] * 4, [1.0, 2.0, 3.0, 4.0, math.nan], [1.0, 2.0, 3.0, 4.0, 0.0]])
def test_bad_blocks_are_errors(samples: list[float]) -> None:
    with pytest.raises(ValueError):
        Block.of(samples)


def test_a_block_by_hand() -> None:
    assert Block.of(range(1, 21)) == Block(10.5, 19.0, 18.0)
    with pytest.raises(ValueError, match="order"):
        Round(block(1), block(1), block(1), "ABAB")


# vetoes


def test_vetoes() -> None:
    fast = evidence(1.05)
    tail = each_round(fast, lambda r: replace(r, candidate=replace(r.candidate, p95_ms=r.base.p95_ms * 1.03)))
    wide = each_round(
        fast, lambda r: replace(r, candidate=replace(r.candidate, spread_ms=r.base.spread_ms * 1.3))
    )
    sharp = each_round(fast, lambda r: replace(r, base=replace(r.base, spread_ms=0.0)))
    hot = replace(
        fast, runs=(fast.runs[0], Run(tuple(replace(r, throttled=True) for r in fast.runs[1].rounds)))
    )
    cases = [
        (tail, Status.AMBIGUOUS, Reason.P95_WORSE),
        (wide, Status.AMBIGUOUS, Reason.SPREAD_WIDER),
        (sharp, Status.AMBIGUOUS, Reason.SPREAD_WIDER),
        (hot, Status.UNSTABLE, Reason.THROTTLED),
        (replace(fast, wrong_outputs=1), Status.UNDECIDED, Reason.WRONG_OUTPUT),
        (replace(fast, soak_repeats=99), Status.UNDECIDED, Reason.NOT_SOAKED),
        (replace(fast, code_sha256="base"), Status.NO_OP, Reason.SAME_CODE),
        (replace(fast, code_sha256="", base_code_sha256=""), Status.FASTER, Reason.ABOVE_FLOOR),
    ]
    for case, status, reason in cases:
        verdict = decide(case, QUIET)
        assert outcome(verdict) == (status, reason)
        json.dumps(verdict.to_record(), allow_nan=False)


def test_an_effect_of_the_order_only_is_no_gain() -> None:
    def favoured(one: Round) -> Round:
        gain = 1.08 if one.order == "ABBA" else 1.0
        return replace(one, candidate=block(one.candidate.median_ms / gain))

    thresholds = replace(STRICT, alpha=0.4)
    verdict = decide(each_round(evidence(rounds=40), favoured), QUIET, thresholds, look=2)
    assert outcome(verdict) == (Status.AMBIGUOUS, Reason.ORDER_EFFECT)


def test_an_offset_of_a_run_measured_in_one_order_is_no_order_effect() -> None:
    one = evidence(1.02, offsets=(0.0, 0.04))
    runs = tuple(
        Run(
            tuple(
                replace(r, order="ABBA" if (i < 7) == (k == 0) else "BAAB") for i, r in enumerate(run.rounds)
            )
        )
        for k, run in enumerate(one.runs)
    )
    order_p = decide(replace(one, runs=runs), QUIET).numbers.order_p
    assert order_p is not None and order_p > STRICT.nuisance_level


def test_the_permutation_has_the_last_word_on_few_rounds() -> None:
    # 6 rounds have 64 sign patterns: their permutation can never be surer than 1/64
    thresholds = replace(STRICT, looks=(3,), spend=(1.0,), alpha=0.01)
    verdict = decide(evidence(1.05, rounds=3), QUIET, thresholds)
    assert outcome(verdict) == (Status.AMBIGUOUS, Reason.PERMUTATION_DISAGREES)


# looks, families, runs


def test_looks() -> None:
    border = evidence(1.006, rounds=40)
    assert [decide(border, QUIET, look=look).next_rounds for look in range(3)] == [20, 40, None]
    assert outcome(decide(evidence(rounds=19), QUIET, look=1)) == (Status.UNDECIDED, Reason.TOO_FEW_ROUNDS)
    for look in (-1, 3):
        with pytest.raises(ValueError, match="preplanned"):
            decide(border, QUIET, look=look)


def test_noise_that_never_converges_is_unstable_at_the_last_look() -> None:
    def awful(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.normal(0, 0.3, shape)

    verdicts = [decide(evidence(noise=awful, rounds=40), QUIET, look=look) for look in range(3)]
    assert [verdict.status for verdict in verdicts] == [Status.AMBIGUOUS, Status.AMBIGUOUS, Status.UNSTABLE]
    assert verdicts[-1].reason is Reason.NEVER_CONVERGED


def test_a_family_raises_the_bar() -> None:
    border = evidence(1.008, seed=1)
    assert decide(border, QUIET).accepted
    nulls = [evidence(seed=seed) for seed in range(2, 25)]
    assert not decide_family([border, *nulls], QUIET)[0].accepted
    # what cannot be judged still counts
    broken = [replace(one, runs=()) for one in nulls]
    verdict = decide_family([border, *broken], QUIET)[0]
    assert not verdict.accepted and verdict.numbers.family == 24
    assert decide_family([], QUIET) == []


def test_holm_steps_down_within_a_family() -> None:
    verdicts = decide_family([evidence(1.05, seed=seed) for seed in range(4)], QUIET)
    levels = sorted(verdict.numbers.level or 0.0 for verdict in verdicts)
    assert levels == pytest.approx([0.01 / 4, 0.01 / 3, 0.01 / 2, 0.01])


def test_an_ambiguous_verdict_names_the_runs_that_settle_it() -> None:
    family_of_8 = replace(STRICT, alpha=STRICT.alpha / 8)
    spared = replace(family_of_8, runs_above=0.75)
    border = evidence(1.012, rounds=40)
    needed = decide(border, loud(0.003), spared, look=2)
    assert needed.status is Status.AMBIGUOUS and needed.runs_needed is not None and needed.runs_needed > 2
    assert f"needs {needed.runs_needed} runs" in explain(needed)[-2]
    # with every run held to the floor, more runs are more chances to miss it
    assert decide(border, loud(0.003), family_of_8, look=2).runs_needed is None
    hopeless = decide(evidence(1.012, rounds=40), loud(0.01), look=2)
    assert hopeless.status is Status.AMBIGUOUS and hopeless.runs_needed is None
    assert "no number of runs" in explain(hopeless)[-2]


def test_forecast_is_no_better_than_what_happens() -> None:
    floor, seeds = loud(0.002), range(60)
    accepted = 0
    for seed in seeds:
        offsets = tuple(np.random.default_rng([seed, 1]).normal(0, 0.002, 3))
        accepted += decide(evidence(1.013, seed=seed, offsets=offsets, rounds=40), floor, look=2).accepted
    forecast = forecast_power(
        math.log(1.013),
        3,
        delta=math.log(1.005),
        pair_sd=0.003,
        offset_sd=0.002,
        level=STRICT.alpha * STRICT.spend[-1],
        df=22,
        thresholds=STRICT,
    )
    assert 0.5 < forecast < accepted / len(seeds) + 0.12


def test_more_effect_needs_no_more_runs() -> None:
    def needed(effect: float) -> float:
        found = runs_needed(
            effect, delta=0.005, pair_sd=0.003, offset_sd=0.002, level=0.001, df=20, thresholds=STRICT
        )
        return math.inf if found is None else found

    series = [needed(effect) for effect in (0.005, 0.011, 0.014, 0.02)]
    assert series == sorted(series, reverse=True) and series[0] == math.inf and series[-1] == 2


def test_quick_decides_from_one_run() -> None:
    assert decide(evidence(1.05, offsets=(0.0,)), QUIET, QUICK).accepted
    assert not decide(evidence(1.0, offsets=(0.0,)), QUIET, QUICK).accepted


# properties


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.97, 0.99, 1.0, 1.007, 1.01, 1.03]), st.sampled_from(NOISES))
def test_units_and_order_do_not_matter(seed: int, speedup: float, noise: Noise) -> None:
    verdict = decide(evidence(speedup, seed=seed, noise=noise), QUIET)
    micro = decide(evidence(speedup, seed=seed, noise=noise, scale=1000.0), QUIET)
    turned = decide(
        each_round(
            evidence(speedup, seed=seed, noise=noise),
            lambda r: replace(r, order="BAAB" if r.order == "ABBA" else "ABBA"),
        ),
        QUIET,
    )
    for other in (micro, turned):
        assert outcome(other) == outcome(verdict) and other.next_rounds == verdict.next_rounds
        assert other.numbers.speedup == pytest.approx(verdict.numbers.speedup)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.97, 0.99, 1.0, 1.007, 1.01, 1.03]), st.sampled_from(NOISES))
def test_arms_exchanged_mirror_the_verdict(seed: int, speedup: float, noise: Noise) -> None:
    one = evidence(speedup, seed=seed, noise=noise)
    mirrored = each_round(
        one,
        lambda r: Round(
            r.candidate,
            block(r.candidate.median_ms * r.again.median_ms / r.base.median_ms),
            r.base,
            r.order,
        ),
    )
    there, back = decide(one, QUIET), decide(mirrored, QUIET)
    mirror = {Status.FASTER: Status.SLOWER, Status.SLOWER: Status.FASTER}
    assert back.status is mirror.get(there.status, there.status)
    assert back.numbers.speedup == pytest.approx(1 / (there.numbers.speedup or math.nan))
    assert back.numbers.low == pytest.approx(1 / (there.numbers.high or math.nan))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 130), st.sampled_from([1.0, 1.008, 1.03]))
def test_every_sample_ten_times_is_the_same_evidence(seed: int, launches: int, speedup: float) -> None:
    rng = np.random.default_rng(seed)
    samples = np.exp(rng.normal(0, 0.01, (2, 10, 3, launches))) / np.array([1.0, 1.0, speedup])[:, None]

    def judged(repeat: int) -> Verdict:
        runs = tuple(
            Run(tuple(Round(*(Block.of(np.repeat(arm, repeat)) for arm in r), "ABBA") for r in run))
            for run in samples
        )
        return decide(Evidence(runs, soak_repeats=100), QUIET)

    assert judged(10) == judged(1)


# the article's gate


def launches(seed: int, *means: float, count: int = 500) -> list[tuple[Floats, Floats]]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(1.0, 0.01, count), rng.normal(mean, 0.01, count)) for mean in means]


def test_the_articles_gate() -> None:
    assert outcome(decide_article(launches(0, 0.98, 0.98))) == (Status.FASTER, Reason.EVERY_RUN_FASTER)
    assert outcome(decide_article(launches(0, 1.02, 1.02))) == (Status.SLOWER, Reason.EVERY_RUN_SLOWER)
    for means in ((0.98, 1.0), (0.98, 1.02), (1.0, 1.0)):
        assert decide_article(launches(0, *means)).status is Status.AMBIGUOUS
    # p < 0.05 with d of 0.1 is not enough
    small = decide_article(launches(1, 0.999, 0.999, count=5000))
    assert max(small.numbers.welch_p) < 0.05 and not small.accepted
    # d above 0.2 with p above 0.05 is not either
    few = decide_article(launches(4, 0.994, 0.994, count=5))
    assert min(few.numbers.cohen_d) > 0.2 and max(few.numbers.welch_p) > 0.05 and not few.accepted


def test_the_articles_gate_accepts_a_run_offset_and_strict_does_not() -> None:
    # why it is not enough: both see the same kernel, off by 0.4 % in both runs
    assert decide_article(launches(0, 0.996, 0.996)).accepted
    assert not decide(evidence(offsets=(0.004, 0.004), rounds=40), QUIET, look=2).accepted


def test_the_articles_gate_fails_closed() -> None:
    good = launches(0, 0.9, 0.9)
    base = good[1][0]
    cases = [
        (good[:1], Reason.TOO_FEW_RUNS),
        ([good[0], (base, base[:-1])], Reason.MISMATCHED),
        ([good[0], (base[:2], base[:2] * 0.9)], Reason.TOO_FEW_SAMPLES),
        ([good[0], (base, np.where(base == base[3], np.nan, base))], Reason.NOT_FINITE),
        ([good[0], (np.ones(9), np.full(9, 0.5))], Reason.CONSTANT),
    ]
    for runs, reason in cases:
        assert outcome(decide_article(runs)) == (Status.UNDECIDED, reason)


# words


def test_every_reason_has_words() -> None:
    assert set(WORDS) == set(Reason)


def test_explain_tells_the_chain() -> None:
    lines = explain(decide(evidence(1.02), QUIET))
    text = "\n".join(lines)
    assert lines[0] == "strict gate, 2 runs of 10 rounds"
    assert lines[-1].startswith("FASTER: ")
    for words in (
        "speedup 1.0",
        "interval 1.0",
        "floor 0.50%",
        "permutation",
        "Welch p",
        "orders",
        "spread 1.00",
    ):
        assert words in text
    assert explain(decide(Evidence(()), None)) == [
        "strict gate, 0 runs of 0 rounds",
        "UNDECIDED: there are too few runs",
    ]


# the rate of false FASTER


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "gate.py"
    spec = importlib.util.spec_from_file_location("gate_benchmark", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["white", "AR(1) 0.6", "shared offset 0.5%"])
def test_best_of_24_nulls(simulation: ModuleType, name: str) -> None:
    model = next(model for model in simulation.MODELS if model.name == name)
    strict, article, one = simulation.false_rates(model, 200)
    assert strict <= 0.01
    if model.offset:
        assert article > 0.9 and one > 0.1


def test_power_at_one_percent(simulation: ModuleType) -> None:
    model = next(model for model in simulation.MODELS if model.name == "unshared offset 0.1%")
    assert simulation.powers(model, 0.01, 100)[0] >= 0.93


def test_the_simulated_calibration_is_the_gates(simulation: ModuleType) -> None:
    from helitune.results.noise_floor import noise_floor

    model = simulation.Model("white", offset=0.002)
    floor = simulation.calibrate(np.random.default_rng(5), model, 1).of(0)
    times = simulation.draw(np.random.default_rng(5), model, (1, 20, 1, 40)).times
    expected = noise_floor(list((times[0] - times[1])[0, :, 0]))
    assert floor.offsets == expected.offsets
    for name in ("quantile95", "offset_variance", "offset_noise"):
        assert getattr(floor, name) == pytest.approx(getattr(expected, name))
