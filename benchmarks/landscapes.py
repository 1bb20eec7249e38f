"""What the strategies benchmark searches: recorded tables and made-up joint landscapes behind one interface."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from kernel_models import Invalid, KernelModel, matmul_kernel, row_kernel, unit
from made_up_acfs import CRASHING, HARMFUL, MANY, MILD, NONE, TURNING, AcfEffects, AcfStyle

from helitune.acfs.acf import Acf
from helitune.objectives.outcomes import Failed
from helitune.objectives.replay import replay_evaluate
from helitune.objectives.replay_records import MeasuredPoint
from helitune.objectives.replay_table import ReplayTable
from helitune.search.space import Genome, JointSpace
from helitune.search.strategies.contract import Evaluate

RESTARTS = 40


class Landscape(Protocol):
    """A joint space whose scores are known. Times are ratios to the kernel's own config; lower is better."""

    @property
    def name(self) -> str:
        """What the report calls it."""
        ...

    @property
    def space(self) -> JointSpace:
        """Configs × ACFs."""
        ...

    @property
    def known(self) -> Sequence[Genome]:
        """Genomes of the baselines that are measured before a search."""
        ...

    @property
    def optimum(self) -> float:
        """The true score of the best candidate, or of the best that is known."""
        ...

    def identity(self, genome: Genome) -> Genome | None:
        """One genome for all that normalise to the same candidate; None for an invalid config."""
        ...

    def truth(self, genome: Genome) -> float | None:
        """The candidate's true score; None where it fails."""
        ...

    def score(self, genome: Genome, seed: int) -> float | None:
        """The candidate's score with noise, as the run of `seed` would measure it; None where it fails."""
        ...


class Recorded:
    """A recorded table as a landscape; its truth is the mean of each point's rounds."""

    def __init__(self, name: str, table: ReplayTable) -> None:
        self.name = name
        self.space = table.space
        self.known = tuple(dict.fromkeys(table.header.baselines.values()))
        self._table = table
        self._scores: dict[int, Evaluate] = {}

    @cached_property
    def optimum(self) -> float:
        return min(true for genome in self._table.genomes if (true := self.truth(genome)) is not None)

    def identity(self, genome: Genome) -> Genome | None:
        invalid = isinstance(self._table.config(genome), Failed)
        return None if invalid else self._table.point(genome).genome

    def truth(self, genome: Genome) -> float | None:
        point = self._table.point(genome)
        return point.true_score if isinstance(point, MeasuredPoint) else None

    def score(self, genome: Genome, seed: int) -> float | None:
        if seed not in self._scores:
            self._scores[seed] = replay_evaluate(self._table, seed)
        return self._scores[seed]([genome])[0]


@dataclass
class MadeUp:
    """A made-up landscape: a kernel model and ACF effects."""

    name: str
    model: KernelModel
    style: AcfStyle
    source: random.Random
    noise: float
    narrowed: dict[str, int] = field(default_factory=dict)
    """Number of values kept of some axes; the others keep their default only. Empty: the whole space."""

    def __post_init__(self) -> None:
        if self.narrowed:
            kept = {
                label: tuple(dict.fromkeys([s[label] for s in self.model.starts if label in s] + [*values]))[
                    : self.narrowed.get(label, 1)
                ]
                for label, values in self.model.axes.items()
            }
            starts = tuple(s for s in self.model.starts if all(v in kept[k] for k, v in s.items()))
            self.model = KernelModel(kept, self.model.cost, starts or ({},))
        acfs = tuple(Acf(f"{i}.acf", f"{i:064x}", Path(f"{i}.acf")) for i in range(1, self.style.count + 1))
        self.space = JointSpace(self.model.dimensions, acfs)
        self.known = tuple(dict.fromkeys(map(self.model.genome, self.model.starts)))
        self._effects = AcfEffects(self.source, self.style)
        self._cache: dict[Genome, float | None] = {}
        self._own_time = self.model.cost(self.model.config(self.known[0])).time
        if self.style.turning:
            self._effects.turn = self._second_kind()

    def identity(self, genome: Genome) -> Genome | None:
        config = self.model.config(genome)
        try:
            self.model.cost(config)
        except Invalid as error:
            if error.free:
                return None
        return (*self.model.genome(config)[:-1], genome[-1])

    def truth(self, genome: Genome) -> float | None:
        if genome not in self._cache:
            self._cache[genome] = self._truth(genome)
        return self._cache[genome]

    def score(self, genome: Genome, seed: int) -> float | None:
        true = self.truth(genome)
        return None if true is None else true * math.exp(_drawn(seed, genome).gauss(0, self.noise))

    @cached_property
    def optimum(self) -> float:
        return _climbed(self.space, self.truth, self.known)

    def _truth(self, genome: Genome) -> float | None:
        try:
            cost = self.model.cost(self.model.config(genome))
        except Invalid:
            return None
        effect = self._effects.of(genome[-1], cost.features)
        if effect is None:
            return None
        if genome[-1]:
            effect += (unit(*self.model.genome(self.model.config(genome)), genome[-1]) - 0.5) * 0.012
        return cost.time / self._own_time * math.exp(effect)

    def _second_kind(self) -> tuple[int, ...]:
        """Features of the best config that shares neither warps nor register use with the very best one."""
        plain = JointSpace(self.space.dimensions, ())
        found: dict[tuple[int, ...], float] = {}

        def noted(genome: Genome) -> float | None:
            try:
                cost = self.model.cost(self.model.config(genome))
            except Invalid:
                return None
            kind = cost.features[:2]
            found[kind] = min(cost.time, found.get(kind, math.inf))
            return cost.time

        _climbed(plain, noted, self.known)
        best, *others = sorted(found, key=lambda kind: found[kind])
        return next((k for k in others if k[0] != best[0]), best)


def _climbed(space: JointSpace, truth: Callable[[Genome], float | None], starts: Sequence[Genome]) -> float:
    """The best of many descents along single axes from draws and starts, without noise: a bound on what exists."""
    source = random.Random(0)
    best = math.inf
    for restart in range(RESTARTS):
        genome = (
            starts[restart] if restart < len(starts) else tuple(source.randrange(n) for n in space.lengths)
        )
        genome = (*genome[:-1], restart % space.lengths[-1])
        value = _value(truth, genome)
        while True:
            steps = [
                (*genome[:axis], index, *genome[axis + 1 :])
                for axis, length in enumerate(space.lengths)
                for index in range(length)
                if index != genome[axis]
            ]
            step = min(steps, key=lambda g: _value(truth, g), default=genome)
            if _value(truth, step) >= value:
                break
            genome, value = step, _value(truth, step)
        best = min(best, value)
    return best


def _value(truth: Callable[[Genome], float | None], genome: Genome) -> float:
    found = truth(genome)
    return math.inf if found is None else found


def _drawn(seed: int, genome: Genome) -> random.Random:
    return random.Random(hash((seed, *genome)))


TABLE_LIKE = {
    "block_sizes[0]": 4,
    "num_warps": 4,
    "num_stages": 2,
    "pid_type": 2,
    "load_eviction_policies[0]": 2,
}


def made_up(instance: int) -> list[MadeUp]:
    """The made-up landscapes, of which each `instance` draws its own effects."""

    def row(name: str, style: AcfStyle, *, columns: int, accesses: int, **more: dict[str, int]) -> MadeUp:
        source = random.Random(f"{name}/{instance}")
        model = row_kernel(source, columns=columns, accesses=accesses)
        return MadeUp(name, model, style, source, noise=0.004, **more)

    def matmul(name: str, style: AcfStyle) -> MadeUp:
        source = random.Random(f"{name}/{instance}")
        return MadeUp(name, matmul_kernel(source), style, source, noise=0.01)

    return [
        row("rows, mild ACFs", MILD, columns=4096, accesses=2),
        row("rows, harmful ACFs", HARMFUL, columns=8192, accesses=8),
        row("rows, turning ACFs", TURNING, columns=2560, accesses=4),
        row("rows, 100 ACFs", MANY, columns=2560, accesses=4),
        row("rows, no ACFs", NONE, columns=2560, accesses=4),
        row("rows, small product", HARMFUL, columns=4096, accesses=2, narrowed=TABLE_LIKE),
        matmul("matmul, crashing ACFs", CRASHING),
        matmul("matmul, turning ACFs", TURNING),
    ]
