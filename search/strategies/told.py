"""What a strategy has been told: scores, the best of them, and which ACFs only ever fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from helitune.search.space import Genome

FAILURES = 2
"""An ACF that failed on so many configs which run without it, and more often than not, is not tried further."""


class Told:
    """The scores of all genomes that were evaluated; None for those that failed."""

    def __init__(self, known: Mapping[Genome, float]) -> None:
        self._scores: dict[Genome, float | None] = dict(known)
        self._failures: defaultdict[int, set[Genome]] = defaultdict(set)
        self._successes: defaultdict[int, int] = defaultdict(int)

    def __contains__(self, genome: Genome) -> bool:
        return genome in self._scores

    def __len__(self) -> int:
        return len(self._scores)

    @property
    def genomes(self) -> Sequence[Genome]:
        """All genomes evaluated, in that order."""
        return tuple(self._scores)

    def score(self, genome: Genome) -> float | None:
        """The score of an evaluated genome; None where it failed."""
        return self._scores[genome]

    def note(self, batch: Sequence[Genome], scores: Sequence[float | None]) -> None:
        """Take the scores of a batch."""
        for genome, score in zip(batch, scores, strict=True):
            if genome not in self._scores:
                self._scores[genome] = score
                self._judge_acf(genome, score)

    def is_hopeless(self, acf: int) -> bool:
        """Whether the ACF at this index has failed too often to be tried on further configs."""
        failures = len(self._failures[acf])
        return failures >= FAILURES and failures > self._successes[acf]

    def ranked(self, *, plain: bool = False) -> list[Genome]:
        """Genomes that came through, best first, without ACF only if `plain`.

        Of genomes with the very same score, which are one candidate or one machine code, the simplest stands for all.
        """
        best: dict[float, Genome] = {}
        for genome, score in self._scores.items():
            if score is None or (plain and genome[-1]):
                continue
            if score not in best or _simplicity(genome) < _simplicity(best[score]):
                best[score] = genome
        return [best[score] for score in sorted(best)]

    def _judge_acf(self, genome: Genome, score: float | None) -> None:
        acf, without = genome[-1], (*genome[:-1], 0)
        if acf and score is not None:
            self._successes[acf] += 1
        elif acf and self._scores.get(without) is not None:
            self._failures[acf].add(without)  # a config that fails by itself says nothing of the ACF


def _simplicity(genome: Genome) -> tuple[bool, Genome]:
    return (genome[-1] != 0, genome)
