"""What `tune` was asked to do, as run.json keeps it so that a run can be resumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Every setting that decides what a run proposes and how it judges.

    `packs` and `file` are absolute paths. `budget` counts candidates that reach the compiler, baselines aside;
    `time_s` bounds the whole run over all its sessions, None for no bound.
    """

    file: str
    kernel: str | None
    reference: str | None
    args: tuple[str, ...]
    target: str
    packs: tuple[str, ...]
    force: bool
    settings: tuple[str, ...]
    strategy: str
    objective: str
    budget: int
    time_s: float | None
    seed: int
    jobs: int
    compile_timeout_s: float
    memory_bytes: int
    ptxas: str | None

    def to_json(self) -> dict[str, Any]:
        """This request in JSON's types."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> TuneRequest:
        """The request that `to_json` gave."""
        known: dict[str, Any] = {f.name: stored[f.name] for f in fields(cls)}
        for name, value in known.items():
            if isinstance(value, list):
                known[name] = tuple(value)
        return cls(**known)
