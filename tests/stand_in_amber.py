"""Stands in for CompileIQ's engine: draws at random, and keeps its promises on batches and generations."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from helitune.search.strategies.amber import Asked, Axis


class StandInAmber:
    """As amber.Amber: a generation is complete once `population` valid scores are told; the bytes differ each time."""

    made = 0
    """Engines so far: what they propose for a seed is the same, the bytes never are."""

    def __init__(
        self,
        controls: Path,
        axes: Mapping[str, Axis],
        *,
        seed: int,
        population: int,
        options: Mapping[str, float],
        folder: Path,
    ) -> None:
        StandInAmber.made += 1
        self._source = random.Random(seed)
        self._axes, self._population = axes, population
        self._valid = self._size = 0
        self.generation = 0
        self.told: list[float | None] = []

    def ask(self, count: int | None = None) -> list[Asked]:
        """The next batch: what the generation still needs."""
        self._size = max(self._size, count or 0, self._population)
        return [self._one() for _ in range(self._size - self._valid)]

    def tell(self, scores: Sequence[float | None]) -> None:
        """Count what is valid."""
        self.told += scores
        self._valid += sum(score is not None for score in scores)
        if self._valid >= self._size:
            self.generation, self._valid, self._size = self.generation + 1, 0, 0

    def _one(self) -> Asked:
        axes = {
            name: self._source.randrange(axis.choices)
            for name, axis in self._axes.items()
            if axis.knockout is None or self._source.random() >= axis.knockout
        }
        meaning = self._source.randrange(256)
        return Asked(axes, bytes([meaning, StandInAmber.made % 256, len(self.told) % 256]))
