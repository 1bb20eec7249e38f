"""What became of a candidate: compiled, measured too, or failed at a named stage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .artifact import Artifact
from .json_fields import flag, items, mapping, number, numbers, texts
from .times import ShapeTimes

STAGES = (
    "invalid_config",
    "compile",
    "compile_timeout",
    "launch",
    "drift",
    "illegal_access",
    "hang",
    "wrong_output",
    "flaky_output",
    "impossible",
    "out_of_memory",
    "worker_died",
    "duplicate",
)
"""Where a candidate can fail, in the order of the pipeline."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A candidate compiled on every shape of the workload.

    `score` is minimised and `tie_breaker` orders equal scores; `values` is the objective in its own unit, one a
    shape; `artifacts` holds the launches of each shape. `bounds` says for each shape what bounds the model:
    "memory" where it charges no more than the workload's bytes cost, so that nothing can score lower; else
    "issue", or "" for other objectives. `host` names what the host function of each shape does besides launching;
    records of the first version do not have it.
    """

    score: float
    tie_breaker: float
    values: tuple[float, ...]
    artifacts: tuple[tuple[Artifact, ...], ...]
    bounds: tuple[str, ...] = ()
    host: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for candidates that do the same: the same machine code, launched by a host that does the same."""
        return (*self.code, *self.host)

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
            "bounds": list(self.bounds),
            **({"host": list(self.host)} if self.host else {}),
            "artifacts": [[artifact.to_json() for artifact in shape] for shape in self.artifacts],
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Compiled:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type.

        The first runs of format 1 have no `bounds`: what bounds their model is not known, "" for each shape.
        """
        values = numbers(fields, "values")
        bounds = texts(fields, "bounds") if "bounds" in fields else ("",) * len(values)
        artifacts = tuple(_launches(shape) for shape in items(fields, "artifacts"))
        if not artifacts or len(artifacts) != len(values) or len(bounds) not in (0, len(values)):
            raise ValueError("artifacts, values and bounds are not one for each shape")
        return cls(
            score=number(fields, "score"),
            tie_breaker=number(fields, "tie_breaker"),
            values=values,
            bounds=bounds,
            artifacts=artifacts,
            host=texts(fields, "host") if "host" in fields else (),
        )


def _launches(shape: Any) -> tuple[Artifact, ...]:
    if not isinstance(shape, list) or not shape:
        raise ValueError("artifacts: a shape without launches")
    return tuple(Artifact.from_json(launch) for launch in shape)


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that did not come through: at which of STAGES, and why, in one line."""

    stage: str
    message: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A compiled candidate that was checked and timed on a GPU, beside the kernel's own config.

    `score` is minimised: its time over the own config's, the geometric mean over shapes. `same_code` marks a
    candidate whose machine code an earlier one had: its times are that one's.
    """

    compiled: Compiled
    score: float
    shapes: tuple[ShapeTimes, ...]
    max_rel_error: float = 0.0
    same_code: bool = False

    @classmethod
    def of(cls, compiled: Compiled, shapes: tuple[ShapeTimes, ...], max_rel_error: float) -> Measured:
        """The outcome of these times."""
        logs = [math.log(shape.ratio) for shape in shapes]
        score = math.exp(math.fsum(logs) / len(logs)) if len(logs) > 1 else shapes[0].ratio
        return cls(compiled, score, shapes, max_rel_error)

    @property
    def tie_breaker(self) -> float:
        """Orders equal scores: what the compiled objective says."""
        return self.compiled.score

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "score": self.score,
            "shapes": [shape.to_json() for shape in self.shapes],
            "max_rel_error": self.max_rel_error,
            "same_code": self.same_code,
            "compiled": self.compiled.to_json(),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Measured:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        compiled = Compiled.from_json(mapping(fields, "compiled"))
        shapes = tuple(ShapeTimes.from_json(shape) for shape in items(fields, "shapes"))
        if len(shapes) != len(compiled.values):
            raise ValueError("shapes: not one entry for each shape that was compiled")
        return cls(
            compiled=compiled,
            score=number(fields, "score"),
            shapes=shapes,
            max_rel_error=number(fields, "max_rel_error"),
            same_code=flag(fields, "same_code"),
        )


Outcome = Compiled | Measured | Failed
