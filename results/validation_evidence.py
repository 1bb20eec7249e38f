"""From the raw rounds of a validation to what a gate judges, for any finalist, shape and baseline."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from helitune.objectives.arm_times import ArmRound
from helitune.objectives.gpu.throttle_reasons import throttling

from .blocks import Block, Evidence, Round, Run
from .validation_record import AGAIN, OWN, PLAIN_AGAIN, Contestant, Validation

Series = tuple[tuple[float, ...], tuple[float, ...]]
"""Samples of the baseline and of the candidate."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which arms are compared: a baseline, the same built again, and a candidate, with their code on each shape."""

    base: str
    again: str
    candidate: str
    base_code: tuple[str, ...]
    code: tuple[str, ...]


def over_own(validation: Validation, finalist: Contestant) -> Pairing:
    """The finalist beside the kernel's own config."""
    own = validation.head.own
    return Pairing(OWN, AGAIN, finalist.trial, own.code, finalist.code)


def over_plain(validation: Validation, finalist: Contestant) -> Pairing | None:
    """The finalist beside the best config without an ACF; None where that is own, or the finalist itself."""
    plain = validation.head.plain
    if plain is None or plain.trial == finalist.trial:
        return None
    return Pairing(plain.trial, PLAIN_AGAIN, finalist.trial, plain.code, finalist.code)


def arm_rounds(validation: Validation, pairing: Pairing, run: int, shape: int) -> list[ArmRound]:
    """The rounds of a run on a shape in which all three arms stood, in the order they were measured."""
    arms = {pairing.base, pairing.again, pairing.candidate}
    return [
        line.round
        for line in validation.rounds
        if line.run == run and line.shape == shape and arms <= line.round.samples_ms.keys()
    ]


def evidence(
    validation: Validation, pairing: Pairing, shape: int, *, rounds: int | None = None, least: int = 5
) -> Evidence:
    """What the strict gate judges on one shape, of the first `rounds` of each run.

    A block of fewer than `least` samples has no time: the gate takes it for one that is not finite.
    """
    runs = tuple(
        Run(
            tuple(
                _round(one, pairing, least)
                for one in arm_rounds(validation, pairing, head.run, shape)[:rounds]
            )
        )
        for head in validation.runs
    )
    return Evidence(
        runs,
        code_sha256=pairing.code[shape],
        base_code_sha256=pairing.base_code[shape],
        soak_repeats=_soaked(validation),
    )


def geometric(each: Sequence[Evidence]) -> Evidence:
    """All shapes as one: the geometric mean of their times, round by round.

    Shapes of one round were measured in the same order of arms. The soak is the shortest; the code is the
    baseline's only where it is so on every shape.
    """
    runs = tuple(
        Run(tuple(_mean_round(rounds) for rounds in zip(*(run.rounds for run in same), strict=False)))
        for same in zip(*(one.runs for one in each), strict=True)
    )
    known = all(one.code_sha256 and one.base_code_sha256 for one in each)
    return Evidence(
        runs,
        code_sha256=" ".join(one.code_sha256 for one in each) if known else "",
        base_code_sha256=" ".join(one.base_code_sha256 for one in each) if known else "",
        soak_repeats=min(one.soak_repeats for one in each),
        wrong_outputs=sum(one.wrong_outputs for one in each),
    )


def series(validation: Validation, pairing: Pairing, shape: int, rounds: int) -> list[Series]:
    """For each run all samples of baseline and candidate in its first `rounds`: what the article's gate judges."""
    found: list[Series] = []
    for head in validation.runs:
        used = arm_rounds(validation, pairing, head.run, shape)[:rounds]
        base = tuple(ms for one in used for ms in one.samples_ms[pairing.base])
        candidate = tuple(ms for one in used for ms in one.samples_ms[pairing.candidate])
        found.append((base, candidate))
    return found


def fewest_rounds(validation: Validation, pairing: Pairing) -> int:
    """The rounds that every run has of these arms, on every shape."""
    return min(
        (
            len(arm_rounds(validation, pairing, head.run, shape))
            for head in validation.runs
            for shape in range(len(validation.head.shapes))
        ),
        default=0,
    )


def median_ms(validation: Validation, arm: str, shape: int) -> float | None:
    """An arm's time on a shape: the median over its rounds' medians, None where it has none."""
    blocks = [
        statistics.median(line.round.samples_ms[arm])
        for line in validation.rounds
        if line.shape == shape and arm in line.round.samples_ms
    ]
    return statistics.median(blocks) if blocks else None


def _soaked(validation: Validation) -> int:
    """Repeats of the longest soak: of what failed in one, nothing is judged."""
    return max((run.soak_repeats for run in validation.runs), default=0)


def _round(one: ArmRound, pairing: Pairing, least: int) -> Round:
    first = one.order.index(pairing.base) < one.order.index(pairing.candidate)
    return Round(
        base=_block(one, pairing.base, least),
        again=_block(one, pairing.again, least),
        candidate=_block(one, pairing.candidate, least),
        order="ABBA" if first else "BAAB",
        throttled=bool(throttling(one.throttle_reasons)),
    )


def _block(one: ArmRound, arm: str, least: int) -> Block:
    try:
        return Block.of(one.samples_ms[arm], least)
    except ValueError:
        return Block(math.nan, math.nan, math.nan)


def _mean_round(rounds: Sequence[Round]) -> Round:
    return Round(
        base=_mean_block([one.base for one in rounds]),
        again=_mean_block([one.again for one in rounds]),
        candidate=_mean_block([one.candidate for one in rounds]),
        order=rounds[0].order,
        throttled=any(one.throttled for one in rounds),
    )


def _mean_block(blocks: Sequence[Block]) -> Block:
    median = _geometric([block.median_ms for block in blocks])
    relative = statistics.fmean(block.spread_ms / block.median_ms for block in blocks)
    return Block(median, _geometric([block.p95_ms for block in blocks]), median * relative)


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))
