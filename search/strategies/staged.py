"""Staged: the baselines, configs without ACFs, a shortlist of them × ACFs by CompileIQ, and both layers refined.

The budget is not known beforehand, so that the stages are not parts of it: each batch holds some of each, in an
order that a budget may cut anywhere, and batches grow with what is known. Small ones at first, because a batch can
only learn from those before it; large ones later, so that compiling and measuring overlap.

docs/strategies.md says what else was tried.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from helitune.search.space import Genome, JointSpace

from . import random_search
from .contract import Evaluate
from .moves import Moves
from .shortlist import Shortlist
from .told import Told

LEAST_BATCH, MOST_BATCH = 16, 64
GROWTH = 0.25
"""A batch is this share of what is known, within those bounds."""

FIRST_EXPLORED = 0.6
"""Share of the first batch that varies configs; the rest tries ACFs on the best known one."""

EXPLORED, JOINT = 0.15, 0.2
"""Shares of later batches: configs without an ACF, and the shortlist × ACFs. The rest refines the best."""

WIDE = 0.05
"""Share of explored configs that are drawn from the whole space: most such configs are slow or fail."""

PARENTS, CROSSED = 8, 0.3
"""Explored configs descend from so many of the best ones; this share of them from two."""

INCUMBENTS, SWAPPED, RECOMBINED = 6, 0.2, 0.2
"""Candidates refined, and the shares of refinements that swap the ACF and that cross two of them."""

TRIES = 30
"""Draws for each genome wanted, before a space counts as used up."""


def search(space: JointSpace, evaluate: Evaluate, /, *, seed: int, known: Mapping[Genome, float]) -> None:
    """Batches of all stages until `evaluate` ends the search; then whatever a small space has left."""
    with tempfile.TemporaryDirectory(prefix="helitune-staged-") as folder:
        stages = _Stages(space, seed, known, Path(folder))
        while batch := stages.batch():
            stages.told.note(batch, evaluate(batch, stages.upcoming()))
    random_search.search(space, evaluate, seed=seed, known=dict.fromkeys(stages.told.genomes, 0.0))


class _Stages:
    """Composes batches; `told` is what they are composed from."""

    def __init__(self, space: JointSpace, seed: int, known: Mapping[Genome, float], folder: Path) -> None:
        self.told = Told(known)
        self._space = space
        self._source = random.Random(seed)
        self._moves = Moves(space, self._source)
        self._shortlist = Shortlist(space, self.told, seed, folder)
        self._taken: set[Genome] = set()
        self._first = True

    def batch(self) -> list[Genome]:
        """The next genomes to evaluate; empty where no move finds a new one."""
        self._taken = set()
        size = max(LEAST_BATCH, min(MOST_BATCH, int(GROWTH * len(self.told))))
        if self._first:
            self._first = False
            return self._opening(size)
        return self._later(size)

    def upcoming(self) -> list[Genome]:
        """What the next batch will take from the shortlist's generation."""
        return [genome for genome in self._shortlist.pending() if genome not in self._taken]

    def _opening(self, size: int) -> list[Genome]:
        """Variations of the best known config (without any, Helion's default first), and ACFs on it."""
        plain = self.told.ranked(plain=True)
        default = (0,) * len(self._space.lengths)
        start = [] if plain else self._new([default])
        explored = self._drawn(round(FIRST_EXPLORED * size) - len(start), self._explorer(plain))
        acfs = self._source.sample(range(1, len(self._space.acfs)), len(self._space.acfs) - 1)
        crossed = [self._space.with_acf(config, acf) for config in plain[:1] for acf in acfs]
        return [*start, *_interleaved([explored, self._new(crossed)[: size - len(start) - len(explored)]])]

    def _later(self, size: int) -> list[Genome]:
        plain, ranked = self.told.ranked(plain=True), self.told.ranked()
        joint = self._new(self._shortlist.propose(plain, max(1, round(JOINT * size))))
        explored = self._drawn(round(EXPLORED * size), self._explorer(plain))
        refined = self._drawn(size - len(joint) - len(explored), self._refiner(ranked)) if ranked else []
        return _interleaved([explored, joint, refined])

    def _explorer(self, plain: Sequence[Genome]) -> Callable[[], Genome]:
        moves, source = self._moves, self._source

        def explore() -> Genome:
            if not plain or source.random() < WIDE:
                return moves.draw()
            parent = moves.pick(plain, PARENTS)
            if source.random() < CROSSED:
                return moves.cross(parent, moves.pick(plain, PARENTS))
            return moves.mutate(parent)

        return explore

    def _refiner(self, ranked: Sequence[Genome]) -> Callable[[], Genome]:
        moves, source = self._moves, self._source

        def refine() -> Genome:
            incumbent, way = moves.pick(ranked, INCUMBENTS), source.random()
            if way < SWAPPED:
                return moves.swap_acf(incumbent)
            if way < SWAPPED + RECOMBINED:
                return moves.cross(incumbent, moves.pick(ranked, 2 * INCUMBENTS))
            return moves.mutate(incumbent)

        return refine

    def _drawn(self, count: int, draw: Callable[[], Genome]) -> list[Genome]:
        """Up to `count` new genomes."""
        found: list[Genome] = []
        for _ in range(TRIES * max(0, count)):
            found += self._new([draw()])
            if len(found) == count:
                break
        return found

    def _new(self, genomes: Sequence[Genome]) -> list[Genome]:
        """Those worth evaluating, each once a batch."""
        kept: list[Genome] = []
        for genome in genomes:
            if genome in self.told or genome in self._taken or self.told.is_hopeless(genome[-1]):
                continue
            self._taken.add(genome)
            kept.append(genome)
        return kept


def _interleaved(parts: Sequence[Sequence[Genome]]) -> list[Genome]:
    """All of the parts, evenly mixed: wherever a budget cuts the batch, each part has had its share."""
    placed = [
        ((place + 0.5) / len(part), number, genome)
        for number, part in enumerate(parts)
        for place, genome in enumerate(part)
    ]
    return [genome for *_, genome in sorted(placed)]
