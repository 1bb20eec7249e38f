"""Finalists: the best of a search, checked longer and measured anew, so that the winner is no lucky reading.

The best of many noisy times is too good: what it was chosen by cannot also say how good it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from helitune.objectives.json_fields import integer, items, number, text
from helitune.objectives.outcomes import Failed, Measured
from helitune.objectives.times import ShapeTimes

from .trial import OWN, Trial

MOST_FINALISTS = 8


@dataclass(frozen=True, slots=True)
class Final:
    """One finalist: its trial, its soak, and its times; or the stage at which it failed after all."""

    trial_id: str
    soak_repeats: int
    shapes: tuple[ShapeTimes, ...] = ()
    max_rel_error: float = 0.0
    stage: str = ""
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "trial": self.trial_id,
            "soak_repeats": self.soak_repeats,
            "shapes": [shape.to_json() for shape in self.shapes],
            "max_rel_error": self.max_rel_error,
            "stage": self.stage,
            "message": self.message,
        }

    @classmethod
    def from_json(cls, fields: Any) -> Final:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        shapes = tuple(ShapeTimes.from_json(shape) for shape in items(fields, "shapes"))
        stage = text(fields, "stage")
        if bool(shapes) == bool(stage):
            raise ValueError("shapes: a finalist has either times or the stage at which it failed")
        return cls(
            trial_id=text(fields, "trial"),
            soak_repeats=integer(fields, "soak_repeats"),
            shapes=shapes,
            max_rel_error=number(fields, "max_rel_error"),
            stage=stage,
            message=text(fields, "message"),
        )


WITHIN = 1.05
"""Finalists are within this of the best: what is 5 % behind has lost by more than a search can be wrong."""


def finalists(trials: Sequence[Trial], most: int = MOST_FINALISTS) -> list[Trial]:
    """The best measured trials of different code, the best without an ACF always among them; own is none."""
    ranked = sorted((t for t in trials if t.measured), key=lambda t: t.rank)
    own = next((t.compiled.identity for t in trials if t.origin == OWN and t.compiled), None)
    different: dict[tuple[str, ...], Trial] = {}
    for trial in ranked:
        if trial.compiled and trial.compiled.identity != own:
            different.setdefault(trial.compiled.identity, trial)
    best = ranked[0].score if ranked else None
    chosen = [t for t in different.values() if t.score and best and t.score <= best * WITHIN][:most]
    plain = next((t for t in different.values() if not t.acf_sha256), None)
    if plain is not None and plain not in chosen:
        chosen[most - 1 :] = [plain]
    return chosen


def measured_again(trials: Sequence[Trial], finals: Sequence[Final]) -> list[Trial]:
    """The trials that still count: where there are finals, the finalists with their last times, and own.

    Others keep their place in the record, but a time that nobody confirmed does not rank above one that stands.
    """
    if not finals:
        return list(trials)
    by_id = {final.trial_id: final for final in finals}
    return [_updated(t, by_id.get(t.id)) for t in trials if t.id in by_id or t.origin == OWN]


def _updated(trial: Trial, final: Final | None) -> Trial:
    if final is None or trial.measured is None:
        return trial
    if final.stage:
        return replace(trial, outcome=Failed(final.stage, final.message))
    error = max(final.max_rel_error, trial.measured.max_rel_error)
    return replace(trial, outcome=Measured.of(trial.measured.compiled, final.shapes, error))
