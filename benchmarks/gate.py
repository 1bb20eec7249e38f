"""How often each gate calls a candidate FASTER that is not, and finds one that is: simulated, no GPU.

    python benchmarks/gate.py [--nulls 2000] [--powers 400] [--jobs 2]

For each noise model a family of 24 candidates goes through both gates; all 24 are nulls ("false FASTER": the
share of families in which any is accepted at any look), or one has an effect ("power": the share in which that
one is accepted at the default looks, at the level it has as the first of 24). The strict gate is calibrated
in every family anew: 20 rebuilt baselines of 40 rounds under the same noise model. The article's gate sees
100 launches a block, 10 rounds, its two runs; its power is that of one candidate alone.

An arm's block time scatters so that a round's pair has a standard deviation of 0.3 %. Offsets are given as the
standard deviation of a pair, which is what A/A shows; "unshared" ones are drawn anew in every run, "shared" ones
are the same in all runs, as if each build landed where it landed before. Candidates' offsets are independent.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from helitune.results import statistics
from helitune.results.blocks import Block, Evidence, Round, Run
from helitune.results.effect import estimate
from helitune.results.noise_floor import NoiseFloor
from helitune.results.strict_gate import decide_family
from helitune.results.thresholds import ARTICLE, STRICT
from helitune.results.verdict import Status

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, Floats], Floats]

FAMILY = 24
ARM_SD = 0.003 / math.sqrt(2)
LAUNCHES, LAUNCH_SD = 100, 0.01
REBUILT, REBUILT_ROUNDS = 20, 40
EFFECTS = (0.005, 0.01, 0.02)
CHUNK = 100


def white(rng: np.random.Generator, at: Floats) -> Floats:
    return rng.normal(0, ARM_SD, at.shape)


def drift(rng: np.random.Generator, at: Floats) -> Floats:
    """Warm-up: 5 % that fade over 10 rounds."""
    return white(rng, at) + 0.05 * np.exp(-at / 10)


def autoregressive(rng: np.random.Generator, at: Floats) -> Floats:
    noise = white(rng, at)
    for r in range(1, at.shape[-1]):
        noise[..., r] = 0.6 * noise[..., r - 1] + 0.8 * noise[..., r]
    return noise


def bimodal(rng: np.random.Generator, at: Floats) -> Floats:
    """Two clocks 3 % apart; a block in five runs at the lower."""
    return white(rng, at) + 0.03 * (rng.random(at.shape) < 0.2)


def outliers(rng: np.random.Generator, at: Floats) -> Floats:
    return white(rng, at) + (rng.random(at.shape) < 0.05) * rng.exponential(0.05, at.shape)


def step(rng: np.random.Generator, at: Floats) -> Floats:
    """3 % from a moment on, in the first 15 rounds, for all arms."""
    when = rng.uniform(0, 15, (1, *at.shape[1:-1], 1))
    return white(rng, at) + 0.03 * (at > when)


@dataclass(frozen=True)
class Model:
    name: str
    noise: Noise = white
    offset: float = 0.0
    shared: bool = False


MODELS = (
    Model("white"),
    Model("drift", drift),
    Model("AR(1) 0.6", autoregressive),
    Model("bimodal clocks", bimodal),
    Model("outliers 5 %", outliers),
    Model("step", step),
    *(Model(f"unshared offset {s:.1%}", offset=s) for s in (0.001, 0.003, 0.005, 0.01)),
    *(Model(f"shared offset {s:.1%}", offset=s, shared=True) for s in (0.001, 0.003, 0.005, 0.01)),
)


@dataclass(frozen=True)
class Families:
    """Log times of shape (arms, families, candidates, runs, rounds), and whether a round ran base first."""

    times: Floats
    forward: NDArray[np.bool_]


def draw(rng: np.random.Generator, model: Model, shape: tuple[int, int, int, int]) -> Families:
    """Null families of `shape` (families, candidates, runs, rounds), measured under `model`."""
    families, candidates, runs, rounds = shape
    forward = rng.random(shape) < 0.5
    slot = np.stack([np.where(forward, 0, 2), np.ones(shape), np.where(forward, 2, 0)])
    times = model.noise(rng, np.arange(rounds) + slot / 3)
    placed = (3, families, candidates, 1 if model.shared else runs, 1)
    times += rng.normal(0, model.offset / math.sqrt(2), placed)
    return Families(times, forward)


@dataclass(frozen=True)
class Floors:
    """One calibration for each family, as arrays."""

    quantile95: Floats
    offset_variance: Floats
    offset_noise: Floats

    def of(self, family: int) -> NoiseFloor:
        return NoiseFloor(
            float(self.quantile95[family]),
            float(self.offset_variance[family]),
            float(self.offset_noise[family]),
            REBUILT,
        )


def calibrate(rng: np.random.Generator, model: Model, families: int) -> Floors:
    """What `noise_floor` says of rebuilt baselines, for all families at once."""
    times = draw(rng, model, (families, REBUILT, 1, REBUILT_ROUNDS)).times
    y = (times[0] - times[1])[:, :, 0]
    points = y.mean(axis=-1)
    noise = (y.var(axis=-1, ddof=1) / REBUILT_ROUNDS).mean(axis=-1)
    return Floors(
        np.quantile(np.abs(points), 0.95, axis=-1, method="higher"),
        np.maximum(0.0, (points**2).mean(axis=-1) - noise),
        noise,
    )


def strict_accepts(
    rng: np.random.Generator, drawn: Families, floors: Floors, alpha: float, runs_above: float
) -> NDArray[np.bool_]:
    """For each family, whether the strict gate accepts any candidate at any look.

    What cannot be accepted is found on arrays; the gate itself decides the rest.
    """
    base, candidate = drawn.times[0], drawn.times[2]
    accepted = np.zeros(base.shape[0], dtype=bool)
    thresholds = replace(STRICT, alpha=alpha, runs=base.shape[2], runs_above=runs_above)
    for look, (rounds, spend) in enumerate(zip(thresholds.looks, thresholds.spend, strict=True)):
        y = (base - candidate)[..., :rounds]
        effect = estimate(
            y,
            offset_variance=floors.offset_variance[:, None],
            offset_noise=floors.offset_noise[:, None],
            offsets=REBUILT,
            shared=thresholds.shared_share,
            nuisance_level=thresholds.nuisance_level,
        )
        delta = np.maximum(math.log1p(thresholds.min_effect), floors.quantile95)[:, None]
        level = alpha * spend / base.shape[1]
        possible = (effect.p_above(delta) <= level).any(axis=-1) & ~accepted
        for family in np.flatnonzero(possible).tolist():
            evidence = [_evidence(rng, drawn, family, one, rounds) for one in range(base.shape[1])]
            verdicts = decide_family(evidence, floors.of(family), thresholds, look=look)
            accepted[family] = any(verdict.status is Status.FASTER for verdict in verdicts)
    return accepted


def _evidence(rng: np.random.Generator, drawn: Families, family: int, one: int, rounds: int) -> Evidence:
    times = np.exp(drawn.times[:, family, one, :, :rounds])
    tails = 1 + LAUNCH_SD * (1.645 + rng.normal(0, 0.2, times.shape))
    spreads = times * LAUNCH_SD * (3.29 + rng.normal(0, 0.3, times.shape))
    forward = drawn.forward[family, one]

    def block(arm: int, run: int, r: int) -> Block:
        at = (arm, run, r)
        return Block(float(times[at]), float(times[at] * tails[at]), float(spreads[at]))

    def round_of(run: int, r: int) -> Round:
        base, again, candidate = (block(arm, run, r) for arm in range(3))
        return Round(base, again, candidate, "ABBA" if forward[run, r] else "BAAB")

    runs = tuple(Run(tuple(round_of(run, r) for r in range(rounds))) for run in range(times.shape[1]))
    return Evidence(runs, soak_repeats=STRICT.soak_repeats)


def article_accepts(rng: np.random.Generator, drawn: Families) -> NDArray[np.bool_]:
    """For each family and candidate, whether the article's gate accepts it, from the moments of its launches."""
    blocks = np.exp(drawn.times[[0, 2], ..., : STRICT.looks[0]])
    rounds = blocks.shape[-1]
    count = LAUNCHES * rounds
    mean = blocks.mean(axis=-1)
    within = LAUNCH_SD**2 * rng.chisquare(count - rounds, mean.shape)
    variance = (LAUNCHES * rounds * blocks.var(axis=-1) + within) / (count - 1)
    difference = mean[0] - mean[1]
    error = variance.sum(axis=0) / count
    df = error**2 * (count - 1) / ((variance / count) ** 2).sum(axis=0)
    p = 2 * statistics.upper_tail(np.abs(difference) / np.sqrt(error), df)
    d = difference / np.sqrt(variance.mean(axis=0))
    passed: NDArray[np.bool_] = ((p < ARTICLE.welch_p) & (d > ARTICLE.cohen_d)).all(axis=-1)
    return passed


@dataclass(frozen=True)
class Rates:
    """Shares of families: false FASTER of both gates (and of one candidate by the article's), power by effect."""

    strict: float
    article: float
    article_one: float
    strict_power: tuple[float, ...]
    article_power: tuple[float, ...]


def false_rates(
    model: Model, nulls: int, runs: int = STRICT.runs, runs_above: float = STRICT.runs_above
) -> tuple[float, float, float]:
    """Shares of null families accepted: strict, article best of 24, article one candidate."""
    rng = np.random.default_rng([1, runs, *model.name.encode()])
    strict, article = [], []
    for start in range(0, nulls, CHUNK):
        size = min(CHUNK, nulls - start)
        drawn = draw(rng, model, (size, FAMILY, runs, STRICT.looks[-1]))
        strict.append(strict_accepts(rng, drawn, calibrate(rng, model, size), STRICT.alpha, runs_above))
        article.append(article_accepts(rng, drawn))
    one = np.concatenate(article)
    return float(np.concatenate(strict).mean()), float(one.any(axis=1).mean()), float(one.mean())


def powers(
    model: Model, effect: float, trials: int, runs: int = STRICT.runs, runs_above: float = STRICT.runs_above
) -> tuple[float, float]:
    """Shares of candidates faster by `effect` that each gate accepts: strict as the first of 24, article."""
    rng = np.random.default_rng([2, runs, round(effect * 1e4), *model.name.encode()])
    drawn = draw(rng, model, (trials, 1, runs, STRICT.looks[-1]))
    drawn.times[2] -= math.log1p(effect)
    strict = strict_accepts(rng, drawn, calibrate(rng, model, trials), STRICT.alpha / FAMILY, runs_above)
    return float(strict.mean()), float(article_accepts(rng, drawn).mean())


def rates(model: Model, nulls: int, trials: int) -> Rates:
    """All of one row."""
    power = [powers(model, effect, trials) for effect in EFFECTS]
    return Rates(*false_rates(model, nulls), *(tuple(column) for column in zip(*power, strict=True)))


RUNS = (2, 3, 4, 6, 8, 12)
OFFSETS = (0.002, 0.003, 0.005)
RUNS_ABOVE = (1.0, 0.75)


def by_runs(nulls: int, trials: int, case: tuple[float, float]) -> list[str]:
    """The rows of one (offset, runs_above): power at each effect if unshared, false FASTER if shared, by runs."""
    offset, above = case
    unshared = Model(f"unshared {offset}", offset=offset)
    shared = Model(f"shared {offset}", offset=offset, shared=True)
    rows = []
    for effect in EFFECTS[1:]:
        shares = [powers(unshared, effect, trials, runs, above)[0] for runs in RUNS]
        enough = next(
            (str(k) for k, share in zip(RUNS, shares, strict=True) if share >= STRICT.power), "none"
        )
        cells = "".join(f"{share:8.1%}" for share in shares)
        rows.append(f"{offset:6.1%} {above:6.0%}  power at {effect:.0%}   {cells}   {enough}")
    cells = "".join(f"{false_rates(shared, nulls, runs, above)[0]:8.2%}" for runs in RUNS)
    rows.append(f"{offset:6.1%} {above:6.0%}  false, shared {cells}")
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nulls", type=int, default=2000, help="null families per noise model")
    parser.add_argument("--powers", type=int, default=400, help="trials per effect")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    asked = parser.parse_args()
    start = time.perf_counter()
    print(
        f"{asked.nulls} null families of {FAMILY} and {asked.powers} trials per effect, {STRICT.runs} runs\n"
    )
    print(f"{'':22}{'false FASTER':^28}{'power, strict':^24}{'power, article':^24}")
    heads = "".join(f"{effect:8.1%}" for effect in EFFECTS)
    print(f"{'noise':22}{'strict':>8}{'article':>9}{'one':>8}   {heads}{heads}")
    with ProcessPoolExecutor(asked.jobs) as pool:
        row = partial(rates, nulls=asked.nulls, trials=asked.powers)
        for model, r in zip(MODELS, pool.map(row, MODELS), strict=True):
            power = "".join(f"{share:8.1%}" for share in (*r.strict_power, *r.article_power))
            print(f"{model.name:22}{r.strict:8.2%}{r.article:9.2%}{r.article_one:8.2%}   {power}", flush=True)
        print(
            "\nstrict, by number of runs; above: runs_above, 100 % is the default; last: the least with 95 %"
        )
        print(f"{'offset':>6} {'above':>6}  {'':14}" + "".join(f"{runs:8}" for runs in RUNS))
        cases = [(offset, above) for offset in OFFSETS for above in RUNS_ABOVE]
        for rows in pool.map(partial(by_runs, asked.nulls // 2, asked.powers // 4), cases):
            print("\n".join(rows), flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
