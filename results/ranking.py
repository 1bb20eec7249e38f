"""What a run found: the best trial, the baselines, what tied, and why candidates failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from helitune.objectives.outcomes import Compiled, Failed

from .trial import Trial

OWN = "baseline own"


@dataclass(frozen=True, slots=True)
class Ranking:
    """The state of a run.

    `own` is the kernel's own config; `best` the first by `Trial.rank`; `ties` the other trials whose score
    equals the best's; `without_acf` the best that has no ACF. All None where nothing compiled.
    """

    own: Trial | None
    best: Trial | None
    without_acf: Trial | None
    ties: tuple[Trial, ...]

    @property
    def improved(self) -> bool:
        """Whether the best ranks above the kernel's own config by the objective itself, not by a tie breaker."""
        if self.best is None or self.best.compiled is None:
            return False
        if self.own is None or self.own.compiled is None:
            return True
        return self.best.compiled.score < self.own.compiled.score


def rank(trials: Sequence[Trial]) -> Ranking:
    """The ranking of `trials`, the same in whatever order they come."""
    compiled = sorted((t for t in trials if isinstance(t.outcome, Compiled)), key=lambda t: t.rank)
    best = compiled[0] if compiled else None
    own = next((t for t in trials if t.origin == OWN), None)
    return Ranking(
        own=own,
        best=best,
        without_acf=next((t for t in compiled if not t.acf_sha256), None),
        ties=tuple(t for t in compiled[1:] if best and t.rank[0] == best.rank[0]),
    )


def no_ops(trials: Sequence[Trial]) -> set[str]:
    """Ids of trials whose ACF changes nothing: the same code as their config gives without one."""
    plain = {
        str(sorted(t.config.items())): t.outcome.code
        for t in trials
        if isinstance(t.outcome, Compiled) and not t.acf_sha256
    }
    return {
        t.id
        for t in trials
        if t.acf_sha256
        and isinstance(t.outcome, Compiled)
        and plain.get(str(sorted(t.config.items()))) == t.outcome.code
    }


def failures(trials: Sequence[Trial]) -> Counter[tuple[str, str]]:
    """How many trials failed by (stage, reason), with numbers taken out of the reasons so that kinds add up."""
    return Counter(
        (t.outcome.stage, _kind(t.outcome.message)) for t in trials if isinstance(t.outcome, Failed)
    )


def _kind(message: str) -> str:
    digits = "".join("#" if c.isdigit() else c for c in message)
    while "##" in digits:
        digits = digits.replace("##", "#")
    return digits[:160]
