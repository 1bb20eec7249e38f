"""One line of trials.jsonl: a candidate, where it came from, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helitune.acfs.errors import InputError
from helitune.objectives.json_fields import integer, mapping, number, optional, sha256, text
from helitune.objectives.outcomes import Compiled, Failed, Measured, Outcome

TRIAL_FORMAT = 2
"""1: first version; its first runs have no `bounds`. 2: outcomes that were measured."""


OWN = "baseline own"
"""The origin of the kernel's own config."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluated candidate.

    `number` counts proposals from 1 in the strategy's order, whatever order they finished in. `origin` is
    "baseline NAME" or the strategy. `acf_sha256` is "" without an ACF. `at_s` is the run's age in seconds
    when the trial ended, over all its sessions; `elapsed_s` what it took.
    """

    number: int
    id: str
    origin: str
    config: dict[str, Any]
    acf_sha256: str
    acf_name: str
    outcome: Outcome
    elapsed_s: float
    at_s: float
    generation: int = 0

    @property
    def compiled(self) -> Compiled | None:
        """What a candidate that came through compiled to, else None."""
        if isinstance(self.outcome, Measured):
            return self.outcome.compiled
        return self.outcome if isinstance(self.outcome, Compiled) else None

    @property
    def measured(self) -> Measured | None:
        """The times of a candidate that was measured, else None."""
        return self.outcome if isinstance(self.outcome, Measured) else None

    @property
    def score(self) -> float | None:
        """What the search minimised, None for a candidate that failed."""
        return None if isinstance(self.outcome, Failed) else self.outcome.score

    @property
    def rank(self) -> tuple[float, bool, bool, float, int]:
        """Sorts trials that came through best first: score, then own before others, then no ACF, tie breaker, number.

        At an equal score there is no evidence for a change, least of all for one that brings an ACF and the
        ptxas it needs.
        """
        if isinstance(self.outcome, Failed):
            return (float("inf"), True, True, float("inf"), self.number)
        changed = self.origin != OWN
        return (self.outcome.score, changed, bool(self.acf_sha256), self.outcome.tie_breaker, self.number)

    def to_json(self) -> dict[str, Any]:
        """This trial in JSON's types."""
        if isinstance(self.outcome, Failed):
            outcome = {"outcome": "failed", "stage": self.outcome.stage, "message": self.outcome.message}
        else:
            kind = "measured" if isinstance(self.outcome, Measured) else "compiled"
            outcome = {"outcome": kind, **self.outcome.to_json()}
        return {
            "format": TRIAL_FORMAT,
            "number": self.number,
            "id": self.id,
            "origin": self.origin,
            "generation": self.generation,
            "config": self.config,
            "acf": {"sha256": self.acf_sha256, "name": self.acf_name} if self.acf_sha256 else None,
            "elapsed_s": round(self.elapsed_s, 4),
            "at_s": round(self.at_s, 4),
            **outcome,
        }

    @classmethod
    def from_json(cls, fields: Any) -> Trial:
        """The trial that `to_json` of this or an older version gave.

        Raises ValueError with what is wrong for anything else, InputError for a trial of a newer format.
        """
        version = integer(fields, "format")
        if version > TRIAL_FORMAT:
            what = f"the trial has format {version}, this helitune reads up to {TRIAL_FORMAT}"
            raise InputError(what, next_step="upgrade helitune")
        acf = optional(mapping, fields, "acf")
        return cls(
            number=integer(fields, "number"),
            id=text(fields, "id"),
            origin=text(fields, "origin"),
            config=mapping(fields, "config"),
            acf_sha256=sha256(acf, "sha256") if acf is not None else "",
            acf_name=text(acf, "name") if acf is not None else "",
            outcome=_outcome(fields),
            elapsed_s=number(fields, "elapsed_s"),
            at_s=number(fields, "at_s"),
            generation=integer(fields, "generation") if "generation" in fields else 0,
        )


def _outcome(fields: dict[str, Any]) -> Outcome:
    kind = text(fields, "outcome")
    if kind == "compiled":
        return Compiled.from_json(fields)
    if kind == "measured":
        return Measured.from_json(fields)
    if kind == "failed":
        return Failed(stage=text(fields, "stage"), message=text(fields, "message"))
    raise ValueError(f"outcome: {kind!r} is none of 'compiled', 'measured' and 'failed'")
