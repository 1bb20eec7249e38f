"""Joint search in the small: CompileIQ over a shortlist of good, diverse configs × ACFs.

Configs decide the coarse cost and ACFs the fine one, and which ACF is good depends on the config. The product of a
few good configs with the pack is a space that evolution can search within hundreds of candidates, which the whole
one is not. A generation may be proposed in parts; it is told once all of it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from helitune.acfs.acf import Acf
from helitune.search.space import Dimension, Genome, JointSpace

from .compileiq import Evolution
from .told import Told

CONFIGS = 6
APART = 2
"""Axes in which two configs of the shortlist differ at least."""

KNOWN_GENERATIONS = 40
"""Generations that may hold nothing new before the product counts as exhausted."""


class Shortlist:
    """Proposes pairs of a shortlisted config and an ACF; a pure function of the seed and what was told."""

    def __init__(self, space: JointSpace, told: Told, seed: int, folder: Path) -> None:
        self._acfs = space.acfs
        self._told = told
        self._seed = seed
        self._folder = folder
        self._configs: list[Genome] = []
        self._usable: list[int] = []
        self._evolution: Evolution | None = None
        self._generation: list[Genome] = []
        self._restarts = 0

    def propose(self, ranked: Sequence[Genome], count: int) -> list[Genome]:
        """Up to `count` genomes that were not evaluated; `ranked` are the configs without ACF, best first."""
        self._choose(ranked)
        for _ in range(KNOWN_GENERATIONS):
            if new := self.pending():
                return new[:count]
            if not self._advance():
                break
        return self._untried()[:count]

    def pending(self) -> list[Genome]:
        """What of the present generation was not evaluated: more of it will be proposed next."""
        genomes = dict.fromkeys(self._generation)
        return [g for g in genomes if g not in self._told and not self._told.is_hopeless(g[-1])]

    def _choose(self, ranked: Sequence[Genome]) -> None:
        """Begin again with a new shortlist once the best config is none of the present one."""
        if not ranked or ranked[0] in self._configs:
            return
        self._configs = diverse(ranked)
        self._usable = [a for a in range(1, len(self._acfs)) if not self._told.is_hopeless(a)]
        self._generation = []
        self._evolution = None
        if self._usable:
            self._restarts += 1
            self._evolution = self._begun()

    def _begun(self) -> Evolution:
        places = Dimension("config", None, (0,), tuple((place,) for place in range(len(self._configs))))
        acfs: tuple[Acf, ...] = tuple(self._acfs[acf] for acf in self._usable)
        seed = self._seed + 7919 * self._restarts  # any other seed: the first generation is drawn from it
        return Evolution(JointSpace((places,), acfs), seed % 2**63, self._folder, start=(0, 0), seeded=False)

    def _advance(self) -> bool:
        """Tell the generation and ask for the next; False once there is none."""
        if self._evolution is None:
            return False
        if self._generation:
            self._evolution.tell([self._score(genome) for genome in self._generation])
        asked = self._evolution.ask()
        self._generation = [
            (*self._configs[place][:-1], self._usable[acf - 1] if acf else 0) for place, acf in asked
        ]
        if not asked:
            self._evolution = None
        return bool(asked)

    def _score(self, genome: Genome) -> float | None:
        return self._told.score(genome) if genome in self._told else None

    def _untried(self) -> list[Genome]:
        """Pairs that evolution left, those of the best config first."""
        pairs = ((*config[:-1], acf) for config in self._configs for acf in self._usable)
        return [g for g in pairs if g not in self._told and not self._told.is_hopeless(g[-1])]


def diverse(ranked: Sequence[Genome]) -> list[Genome]:
    """The best configs of which no two are near each other, then, where these are too few, the best others."""
    chosen: list[Genome] = []
    for genome in ranked:
        if len(chosen) == CONFIGS:
            break
        if all(sum(a != b for a, b in zip(genome, other, strict=True)) >= APART for other in chosen):
            chosen.append(genome)
    others = [genome for genome in ranked[: 2 * CONFIGS] if genome not in chosen]
    return [*chosen, *others[: CONFIGS - len(chosen)]]
