"""What a strategy is: a function that proposes batches of genomes and is told their scores.

    def search(space, evaluate, *, seed, known): ...

`evaluate(batch)` returns one score a genome, lower is better, None for a candidate that failed or is invalid.
It raises SearchEnded when the budget or the time is spent; a strategy lets that pass. A batch that the budget
cuts short is evaluated from its start: the most promising come first. `known` holds the genomes measured before
(baselines and seeds) with their scores. A strategy must be a pure function of its arguments and the scores it is
told: a resumed run replays it.

`evaluate(batch, upcoming)` also names genomes that are likely to be proposed next: they are compiled while the
batch is measured. That promises nothing, costs no budget, and changes no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from helitune.search.space import Genome, JointSpace


class SearchEnded(Exception):
    """Raised by `evaluate` when no more candidates may be proposed; `str()` says why."""


class Evaluate(Protocol):
    """Scores of a batch of genomes, in its order; `upcoming` may be asked for next."""

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]: ...


class Strategy(Protocol):
    """Proposes until `evaluate` raises SearchEnded, or returns when it has nothing left to propose."""

    def __call__(
        self,
        space: JointSpace,
        evaluate: Evaluate,
        /,
        *,
        seed: int,
        known: Mapping[Genome, float],
    ) -> None: ...
