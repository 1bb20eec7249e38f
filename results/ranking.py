"""What a run found: the best trial, the baselines, what tied, and why candidates failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from helitune.objectives.outcomes import Failed

from .finals import Final, measured_again
from .trial import OWN, Trial


@dataclass(frozen=True, slots=True)
class Ranking:
    """The state of a run.

    `own` is the kernel's own config; `best` the first by `Trial.rank`; `ties` the other trials whose score
    equals the best's; `without_acf` the best that has no ACF. All None where nothing compiled. Where finalists
    were measured again, they alone can be best, in that order.
    """

    own: Trial | None
    best: Trial | None
    without_acf: Trial | None
    ties: tuple[Trial, ...]

    @property
    def improved(self) -> bool:
        """Whether the best ranks above the kernel's own config by the objective itself, not by a tie breaker."""
        best = self.best.score if self.best else None
        own = self.own.score if self.own else None
        if best is None:
            return False
        return own is None or best < own


def rank(trials: Sequence[Trial], finals: Sequence[Final] = ()) -> Ranking:
    """The ranking of `trials`, the same in whatever order they come; `finals` are the finalists' last times."""
    trials = measured_again(trials, finals)
    through = sorted((t for t in trials if t.score is not None), key=lambda t: t.rank)
    best = through[0] if through else None
    own = next((t for t in trials if t.origin == OWN), None)
    return Ranking(
        own=own,
        best=best,
        without_acf=next((t for t in through if not t.acf_sha256), None),
        ties=tuple(t for t in through[1:] if best and t.rank[0] == best.rank[0]),
    )


def no_ops(trials: Sequence[Trial]) -> set[str]:
    """Ids of trials whose ACF changes nothing: the same code as their config gives without one."""
    plain = {
        str(sorted(t.config.items())): t.compiled.code for t in trials if t.compiled and not t.acf_sha256
    }
    return {
        t.id
        for t in trials
        if t.acf_sha256 and t.compiled and plain.get(str(sorted(t.config.items()))) == t.compiled.code
    }


@dataclass(frozen=True, slots=True)
class FailureKind:
    """Trials that failed alike: at which stage, how many, and what the first of them said."""

    stage: str
    count: int
    message: str


def failures(trials: Sequence[Trial]) -> list[FailureKind]:
    """The kinds of failures, most frequent first; messages that differ in numbers only are one kind."""
    counted: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if isinstance(trial.outcome, Failed):
            kind = (trial.outcome.stage, re.sub(r"\d+", "#", trial.outcome.message))
            counted[kind] += 1
            first.setdefault(kind, trial.outcome.message)
    return [FailureKind(kind[0], count, first[kind][:200]) for kind, count in counted.most_common()]


def at_memory_bound(trial: Trial) -> bool:
    """Whether the model charges the trial exactly what its bytes cost, on every shape: nothing can score lower."""
    return trial.compiled is not None and set(trial.compiled.bounds) == {"memory"}
