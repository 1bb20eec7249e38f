"""How good what a strategy finds is, at equal budget over many seeds: on recorded tables and made-up landscapes.

    python benchmarks/strategies.py [TABLE ...] [--synthetic] [--budget 1000] [--seeds 20] [--strategies NAME ...]

A cell is the regret of what would be picked after that many candidates: how much slower the candidate with the best
(noisy) score truly is than the best candidate of the landscape, in percent; median and quartiles over the seeds.
Budgets are charged as a run charges them: what normalises to a known candidate costs nothing, nor does an invalid
config, and the baselines are measured before. Of made-up landscapes, seeds share five instances.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from landscapes import Landscape, Recorded, made_up

from helitune.objectives.replay_table import read_table
from helitune.search.space import Genome
from helitune.search.strategies.contract import SearchEnded
from helitune.search.strategies.registry import STRATEGIES, find_strategy

CHECKPOINTS = (20, 50, 100, 200, 400, 700, 1000, 2000)
INSTANCES = 5
STALLED_BATCHES = 60
"""As the ledger: batches without a new candidate after which a space counts as exhausted."""


@dataclass
class Run:
    """The `evaluate` of one run on a landscape; `picked` is the true score of the best one at each checkpoint."""

    landscape: Landscape
    seed: int
    checkpoints: Sequence[int]
    picked: list[float] = field(default_factory=list)
    _scores: dict[Genome, float | None] = field(default_factory=dict)
    _best: tuple[float, float] = (math.inf, math.inf)
    _charged: int = 0
    _stalled: int = 0

    def baselines(self) -> dict[Genome, float]:
        """The scores of the landscape's baselines, those that fail left out."""
        scores = {genome: self._score(genome) for genome in self.landscape.known}
        self._charged = 0
        return {genome: score for genome, score in scores.items() if score is not None}

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        before = self._charged
        answers = [self._score(genome) for genome in batch]
        self._stalled = 0 if self._charged > before else self._stalled + 1
        if self._stalled >= STALLED_BATCHES:
            raise SearchEnded("no new candidate")
        return answers

    def finish(self) -> list[float]:
        """`picked`, with what the run ended on for the checkpoints that it did not reach."""
        return self.picked + [self._best[1]] * (len(self.checkpoints) - len(self.picked))

    def _score(self, genome: Genome) -> float | None:
        identity = self.landscape.identity(genome)
        if identity is None:
            return None
        if identity in self._scores:
            return self._scores[identity]
        if self._charged == self.checkpoints[-1]:
            raise SearchEnded("the budget is spent")
        score = self._scores[identity] = self.landscape.score(identity, self.seed)
        if score is not None and score < self._best[0]:
            true = self.landscape.truth(identity)
            self._best = (score, math.inf if true is None else true)
        self._charged += 1
        if self._charged in self.checkpoints:
            self.picked.append(self._best[1])
        return score


def run(landscape: Landscape, strategy: str, seed: int, checkpoints: Sequence[int]) -> list[float]:
    """The true score of what `strategy` would pick at each checkpoint."""
    evaluate = Run(landscape, seed, checkpoints)
    known = evaluate.baselines()
    evaluate.picked.clear()
    try:
        find_strategy(strategy)(landscape.space, evaluate, seed=seed, known=known)
    except SearchEnded:
        pass
    return evaluate.finish()


Picked = dict[str, list[list[float]]]
"""For each strategy a list of seeds, each with the true scores at the checkpoints, over the optimum."""


def regrets(
    landscape: Landscape, strategies: Sequence[str], seeds: Sequence[int], checkpoints: Sequence[int]
) -> Picked:
    """Regret of each strategy, seed and checkpoint; the optimum is the best that is known or that any run picked."""
    picked = {name: [run(landscape, name, seed, checkpoints) for seed in seeds] for name in strategies}
    optimum = min([landscape.optimum, *(score for runs in picked.values() for one in runs for score in one)])
    return {name: [[score / optimum - 1 for score in one] for one in runs] for name, runs in picked.items()}


def _instance(
    strategies: Sequence[str], seeds: int, checkpoints: Sequence[int], job: tuple[str, int]
) -> Picked:
    """Regrets on one made-up landscape and instance; `job` names them."""
    name, instance = job
    landscape = next(one for one in made_up(instance) if one.name == name)
    return regrets(landscape, strategies, range(instance, seeds, INSTANCES), checkpoints)


def _table(strategies: Sequence[str], seeds: int, checkpoints: Sequence[int], path: Path) -> Picked:
    return regrets(Recorded(path.name, read_table(path)), strategies, range(seeds), checkpoints)


def report(title: str, picked: Picked, checkpoints: Sequence[int]) -> str:
    """A Markdown table of one landscape."""
    lines = [f"### {title}", "", "| strategy |" + "".join(f" {budget} |" for budget in checkpoints)]
    lines.append("|---|" + "---|" * len(checkpoints))
    for name, runs in picked.items():
        lines.append(f"| {name} |" + "".join(f" {_cell(column)} |" for column in zip(*runs, strict=True)))
    return "\n".join([*lines, ""])


def _cell(values: Sequence[float]) -> str:
    low, middle, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    )
    return f"{middle:.1%} ({low * 100:.1f}-{high * 100:.1f})"


def summary(tables: Sequence[Picked], checkpoints: Sequence[int]) -> str:
    """A Markdown table of the mean regret over all landscapes and seeds, each landscape counting alike."""
    means: Picked = {
        name: [[statistics.fmean(column) for column in zip(*table[name], strict=True)] for table in tables]
        for name in tables[0]
    }
    lines = ["| strategy |" + "".join(f" {budget} |" for budget in checkpoints)]
    lines.append("|---|" + "---|" * len(checkpoints))
    for name, rows in means.items():
        cells = "".join(f" {statistics.fmean(column):.2%} |" for column in zip(*rows, strict=True))
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE")
    parser.add_argument("--synthetic", action="store_true", help="made-up joint landscapes")
    parser.add_argument("--only", default="", help="made-up landscapes whose names contain this")
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser.parse_args()


def main() -> None:
    """Print a table for each landscape, and their summary."""
    asked = _arguments()
    start = time.perf_counter()
    checkpoints = [*(c for c in CHECKPOINTS if c < asked.budget), asked.budget]
    found: dict[str, Picked] = {}
    with ProcessPoolExecutor(asked.jobs) as pool:
        tables = pool.map(partial(_table, asked.strategies, asked.seeds, checkpoints), asked.tables)
        found.update(zip((str(path) for path in asked.tables), tables, strict=True))
        if asked.synthetic:
            names = [one.name for one in made_up(0) if asked.only in one.name]
            jobs = [(name, instance) for name in names for instance in range(min(INSTANCES, asked.seeds))]
            parts = pool.map(partial(_instance, asked.strategies, asked.seeds, checkpoints), jobs)
            for (name, _), part in zip(jobs, parts, strict=True):
                whole = found.setdefault(f"made up: {name}", {one: [] for one in asked.strategies})
                for strategy, runs in part.items():
                    whole[strategy] += runs
    print(f"Regret by budget: median (quartiles) of {asked.seeds} seeds\n")
    for title, picked in found.items():
        print(report(title, picked, checkpoints))
    if len(found) > 1:
        print("### mean over all\n")
        print(summary(list(found.values()), checkpoints))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
