"""What `tune` was asked to do, as run.json keeps it so that a run can be resumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.objectives.json_fields import (
    flag,
    integer,
    integers,
    mapping,
    number,
    optional,
    text,
    texts,
)

from .evolution_request import EvolutionRequest


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Every setting that decides what a run proposes and how it judges.

    `packs` and `file` are absolute paths. `target` and `objective` may be "auto": this machine's GPU and its time,
    else sm_90 and the model; a `compile_timeout_s` of 0 is "auto" too. `device` is "auto", "none" or a CUDA index.
    `timing` is "graph" or "eager", `cache` "cold" or "warm". `bytes_moved` and `flops` override what the workload
    says, one number a shape or none. `lock_clocks` is None, "auto" or a number of MHz. `effort` is that of
    Helion's own autotuner. `budget` counts candidates that reach the compiler, baselines aside; `time_s` bounds
    the whole run over all its sessions, None for no bound. `warm_start` holds the paths of runs and packs whose
    ACFs are tried first; `evolution` is there where ACFs are bred.
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
    device: str = "none"
    timing: str = "graph"
    cache: str = "cold"
    bytes_moved: tuple[int, ...] = ()
    flops: tuple[int, ...] = ()
    lock_clocks: str | None = None
    effort: str = "quick"
    prescreen: bool = False
    warm_start: tuple[str, ...] = ()
    evolution: EvolutionRequest | None = None

    def gpu_setup(self, cache_root: Path) -> dict[str, Any]:
        """The keyword arguments of gpu.host.GpuHost for this request."""
        return {
            "file": self.file,
            "kernel": self.kernel,
            "reference": self.reference,
            "args": self.args,
            "seed": self.seed,
            "cache_root": str(cache_root),
            "graph": self.timing == "graph",
            "cold": self.cache == "cold",
        }

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
        **_of_a_gpu(stored),
    )


def _of_a_gpu(stored: Any) -> dict[str, Any]:
    """The settings that the first version had not: those of its requests are the defaults."""
    readers: dict[str, Any] = {
        "device": text,
        "timing": text,
        "cache": text,
        "bytes_moved": integers,
        "flops": integers,
        "lock_clocks": lambda record, key: optional(text, record, key),
        "effort": text,
        "prescreen": flag,
        "warm_start": texts,
        "evolution": _evolution,
    }
    return {name: read(stored, name) for name, read in readers.items() if name in stored}


def _evolution(stored: Any, key: str) -> EvolutionRequest | None:
    found = optional(mapping, stored, key)
    try:
        return EvolutionRequest.from_json(found) if found is not None else None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
