"""A verdict's chain of decisions in words."""

from __future__ import annotations

import math

from .verdict import Numbers, Reason, Status, Verdict

WORDS = {
    Reason.ABOVE_FLOOR: "the interval lies above the floor; the runs, the permutation and both orders agree",
    Reason.BELOW_FLOOR: "the interval lies below minus the floor; the runs, the permutation and both orders agree",
    Reason.WITHIN_FLOOR: "the whole interval lies within the floor on both sides",
    Reason.INTERVAL_CROSSES_FLOOR: "the interval crosses the floor",
    Reason.RUN_WITHIN_FLOOR: "the interval is beyond the floor, but not enough runs are by themselves",
    Reason.PERMUTATION_DISAGREES: "the interval is beyond the floor, but the sign-flip permutation is not sure",
    Reason.ORDER_EFFECT: "the effect depends on the order of the arms and is within the floor in one order",
    Reason.P95_WORSE: "faster in the median, but its 95th percentile is worse than allowed",
    Reason.SPREAD_WIDER: "faster in the median, but its times spread wider than allowed",
    Reason.WRONG_OUTPUT: "an output was wrong: its speed is not looked at",
    Reason.NOT_SOAKED: "faster, but its outputs were not checked over enough repeats",
    Reason.THROTTLED: "the GPU throttled in too many rounds",
    Reason.NEVER_CONVERGED: "the rounds still scatter too widely at the last look",
    Reason.SAME_CODE: "its machine code is the baseline's: there is nothing to measure",
    Reason.UNCALIBRATED: "this machine's A/A floor is not known from enough rebuilt baselines",
    Reason.TOO_FEW_RUNS: "there are too few runs",
    Reason.TOO_FEW_ROUNDS: "a run has too few rounds for this look",
    Reason.TOO_FEW_SAMPLES: "a run has too few samples",
    Reason.MISMATCHED: "runs or arms differ in how many samples they have",
    Reason.NOT_FINITE: "a time is not finite and positive",
    Reason.CONSTANT: "times do not vary at all, as no real measurement does",
    Reason.EVERY_RUN_FASTER: "every run has a lower mean, a small enough p and a large enough d",
    Reason.EVERY_RUN_SLOWER: "every run has a higher mean, a small enough p and a large enough d",
    Reason.RUN_NOT_SIGNIFICANT: "a run misses the p or the d, or the runs disagree in direction",
    Reason.DRIFT: "compiled anew it is other code than was tuned: there is nothing to say of it",
    Reason.FAILED: "it failed on the GPU: its speed is not looked at",
}


def explain(verdict: Verdict) -> list[str]:
    """The chain of decisions, one sentence a line; the last line is the verdict."""
    n = verdict.numbers
    lines = [f"{verdict.gate} gate, {n.runs} runs of {n.rounds} rounds"]
    lines += _effect(n) + _floor(n) + _checks(n)
    lines.append(f"{verdict.status}: {WORDS[verdict.reason]}")
    if verdict.next_rounds is not None:
        lines.insert(-1, f"the next look is at {verdict.next_rounds} rounds a run")
    elif verdict.status is Status.AMBIGUOUS and verdict.gate == "strict":
        lines.insert(-1, _runs(verdict))
    return lines


def _runs(verdict: Verdict) -> str:
    if verdict.runs_needed is None:
        return "no number of runs is likely to settle an effect of this size: it is too near the floor"
    if verdict.runs_needed <= verdict.numbers.runs:
        return f"an effect of this size is usually settled by {verdict.runs_needed} runs: validate again"
    return f"an effect of this size needs {verdict.runs_needed} runs on this machine"


def _effect(n: Numbers) -> list[str]:
    if n.speedup is None:
        return []
    runs = ", ".join(f"{one:.4f}" for one in n.run_speedups)
    lines = [f"speedup {n.speedup:.4f}× (runs: {runs})"]
    if n.low is not None and n.high is not None and n.level is not None:
        lines.append(
            f"interval {n.low:.4f} to {n.high:.4f}, each end with an error of {n.level:.3g} (family of {n.family})"
        )
    if n.pair_sd is not None and n.offset_sd is not None:
        lines.append(
            f"rounds scatter by {n.pair_sd:.2%} about their run, runs by {n.offset_sd:.2%} (calibrated A/A or more)"
        )
    return lines


def _floor(n: Numbers) -> list[str]:
    if n.delta is None or n.min_effect is None or n.calibrated_aa is None or n.largest_aa is None:
        return []
    parts = (
        f"the largest of: asked for {math.expm1(n.min_effect):.2%}, "
        f"calibrated A/A {math.expm1(n.calibrated_aa):.2%}, A/A of these runs {math.expm1(n.largest_aa):.2%}"
    )
    return [f"floor {math.expm1(n.delta):.2%}, {parts}"]


def _checks(n: Numbers) -> list[str]:
    lines = []
    if n.p_value is not None:
        lines.append(f"p of an effect within the floor {n.p_value:.2g}")
    if n.permutation_p is not None:
        lines.append(f"sign-flip permutation p {n.permutation_p:.2g}")
    if n.autocorrelation is not None:
        lines.append(f"lag-1 autocorrelation of the rounds {n.autocorrelation:+.2f}")
    if n.order_p is not None:
        lines.append(f"p of a difference between orders {n.order_p:.2g}")
    if n.welch_p:
        pairs = zip(n.welch_p, n.cohen_d, strict=True)
        lines.append("Welch p and Cohen's d by run: " + ", ".join(f"{p:.2g} and {d:.2f}" for p, d in pairs))
    if n.p95_ratio is not None and n.spread_ratio is not None and n.throttled_share is not None:
        lines.append(
            f"candidate over baseline: 95th percentile {n.p95_ratio:.3f}, spread {n.spread_ratio:.2f}; "
            f"throttled rounds {n.throttled_share:.0%}"
        )
    return lines
