"""What became of a candidate: compiled with artifacts and a score, or failed at a named stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .artifact import Artifact

STAGES = (
    "invalid_config",
    "compile",
    "compile_timeout",
    "launch",
    "illegal_access",
    "hang",
    "wrong_output",
    "flaky_output",
    "out_of_memory",
    "worker_died",
    "duplicate",
)
"""Where a candidate can fail, in the order of the pipeline."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A candidate compiled on every shape of the workload.

    `score` is minimised and `tie_breaker` orders equal scores; `values` is the objective in its own unit, one a
    shape; `artifacts` holds the launches of each shape.
    """

    score: float
    tie_breaker: float
    values: tuple[float, ...]
    artifacts: tuple[tuple[Artifact, ...], ...]

    @property
    def code(self) -> tuple[str, ...]:
        """Code hashes of all launches: equal for candidates that run the same machine code on the same grids."""
        return tuple(
            f"{artifact.code_sha256}:{'x'.join(map(str, artifact.grid))}"
            for shape in self.artifacts
            for artifact in shape
        )

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "score": self.score,
            "tie_breaker": self.tie_breaker,
            "values": list(self.values),
            "artifacts": [[artifact.to_json() for artifact in shape] for shape in self.artifacts],
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Compiled:
        """The record that `to_json` gave."""
        return cls(
            score=fields["score"],
            tie_breaker=fields["tie_breaker"],
            values=tuple(fields["values"]),
            artifacts=tuple(
                tuple(Artifact.from_json(artifact) for artifact in shape) for shape in fields["artifacts"]
            ),
        )


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that did not come through: at which of STAGES, and why, in one line."""

    stage: str
    message: str


Outcome = Compiled | Failed
