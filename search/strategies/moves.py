"""Moves in a joint space: draws, steps along axes, and crosses. Configs move; ACFs are only swapped."""

from __future__ import annotations

import random
from collections.abc import Sequence

from helitune.search.space import Dimension, Genome, JointSpace

CHANGED = 0.1
"""Chance of each axis besides the first to be changed in a mutation: three or four of 25 axes, one of four."""

STEP = 0.5
"""Chance that an ordered axis moves to the next value up or down instead of to any."""

LEAST_ORDERED = 3


class Moves:
    """Moves that draw from `source`; all give genomes of the space."""

    def __init__(self, space: JointSpace, source: random.Random) -> None:
        self._lengths = space.lengths
        self._source = source
        self._axes = [axis for axis, length in enumerate(space.lengths[:-1]) if length > 1]
        self._orders = [_order(dimension) for dimension in space.dimensions]

    def draw(self) -> Genome:
        """Any config, without an ACF."""
        return (*(self._source.randrange(length) for length in self._lengths[:-1]), 0)

    def mutate(self, genome: Genome) -> Genome:
        """The genome with one or more config axes changed; itself where no axis has a choice."""
        count = 1 + sum(self._source.random() < CHANGED for _ in self._axes[1:])
        for axis in self._source.sample(self._axes, min(count, len(self._axes))):
            genome = (*genome[:axis], self._changed(axis, genome[axis]), *genome[axis + 1 :])
        return genome

    def cross(self, one: Genome, other: Genome) -> Genome:
        """Each index, the ACF's too, from one of two genomes; mutated in every second case."""
        child = tuple(a if self._source.random() < 0.5 else b for a, b in zip(one, other, strict=True))
        return self.mutate(child) if self._source.random() < 0.5 else child

    def swap_acf(self, genome: Genome) -> Genome:
        """The same config with any ACF or none."""
        return (*genome[:-1], self._source.randrange(self._lengths[-1]))

    def pick(self, ranked: Sequence[Genome], most: int) -> Genome:
        """One of the `most` first, an earlier one rather than a later one."""
        most = min(most, len(ranked))
        return ranked[min(int(self._source.expovariate(2.5 / most)), most - 1)]

    def _changed(self, axis: int, index: int) -> int:
        order = self._orders[axis]
        if order and self._source.random() < STEP:
            place = order.index(index)
            return self._source.choice([order[p] for p in (place - 1, place + 1) if 0 <= p < len(order)])
        changed = self._source.randrange(self._lengths[axis] - 1)
        return changed + (changed >= index)


def _order(dimension: Dimension) -> list[int] | None:
    """The indices of the axis by size of their values, None's last; None for an axis whose values have no order."""
    numbers: dict[int, float] = {}
    for index, row in enumerate(dimension.values):
        value = row[0]
        if len(row) > 1 or not (value is None or type(value) in (int, float)):
            return None
        numbers[index] = float("inf") if value is None else float(value)  # type: ignore[arg-type]
    return sorted(numbers, key=lambda i: numbers[i]) if len(numbers) >= LEAST_ORDERED else None
