"""One line of trials.jsonl: a candidate, where it came from, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helitune.objectives.outcomes import Compiled, Failed, Outcome

TRIAL_FORMAT = 1
"""1: first version."""


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
        """The outcome of a candidate that came through, else None."""
        return self.outcome if isinstance(self.outcome, Compiled) else None

    @property
    def rank(self) -> tuple[float, float, bool, int]:
        """Sorts compiled trials best first: score, tie breaker, then no ACF, then first proposed."""
        if not isinstance(self.outcome, Compiled):
            return (float("inf"), float("inf"), True, self.number)
        return (self.outcome.score, self.outcome.tie_breaker, self.acf_sha256 != "", self.number)

    def to_json(self) -> dict[str, Any]:
        """This trial in JSON's types."""
        if isinstance(self.outcome, Compiled):
            outcome = {"outcome": "compiled", **self.outcome.to_json()}
        else:
            outcome = {"outcome": "failed", "stage": self.outcome.stage, "message": self.outcome.message}
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
    def from_json(cls, fields: dict[str, Any]) -> Trial:
        """The trial that `to_json` gave; raises KeyError or ValueError for what is none."""
        outcome: Outcome
        if fields["outcome"] == "compiled":
            outcome = Compiled.from_json(fields)
        else:
            outcome = Failed(stage=fields["stage"], message=fields["message"])
        acf = fields["acf"] or {"sha256": "", "name": ""}
        return cls(
            number=fields["number"],
            id=fields["id"],
            origin=fields["origin"],
            config=fields["config"],
            acf_sha256=acf["sha256"],
            acf_name=acf["name"],
            outcome=outcome,
            elapsed_s=fields["elapsed_s"],
            at_s=fields["at_s"],
            generation=fields.get("generation", 0),
        )
