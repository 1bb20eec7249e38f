"""What `tune` was asked to do, as run.json keeps it so that a run can be resumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.objectives.json_fields import flag, integer, number, optional, text, texts


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

    def worker_setup(self, cache_root: Path) -> dict[str, Any]:
        """The keyword arguments of KernelHost for this request, with PTX cached under `cache_root`."""
        return {
            "file": self.file,
            "kernel": self.kernel,
            "reference": self.reference,
            "args": self.args,
            "cache_root": str(cache_root),
            "memory_bytes": self.memory_bytes,
        }

    def to_json(self) -> dict[str, Any]:
        """This request in JSON's types."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Any, where: str = "run.json") -> TuneRequest:
        """The request that `to_json` gave; InputError with the setting that is missing or of another type.

        `where` is the file that the request was read from.
        """
        try:
            return _read(stored)
        except ValueError as error:
            raise InputError(
                f"the run's request cannot be read: {error}",
                where=where,
                next_step="restore the file, or start a new run",
            ) from error


def _read(stored: Any) -> TuneRequest:
    return TuneRequest(
        file=text(stored, "file"),
        kernel=optional(text, stored, "kernel"),
        reference=optional(text, stored, "reference"),
        args=texts(stored, "args"),
        target=text(stored, "target"),
        packs=texts(stored, "packs"),
        force=flag(stored, "force"),
        settings=texts(stored, "settings"),
        strategy=text(stored, "strategy"),
        objective=text(stored, "objective"),
        budget=integer(stored, "budget"),
        time_s=optional(number, stored, "time_s"),
        seed=integer(stored, "seed"),
        jobs=integer(stored, "jobs"),
        compile_timeout_s=number(stored, "compile_timeout_s"),
        memory_bytes=integer(stored, "memory_bytes"),
        ptxas=optional(text, stored, "ptxas"),
    )
