"""What Helion's own autotuner is asked to search, and what it found: plain data, no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.acf import Acf

from .json_fields import finite, integer, items, mapping, number, optional, sha256, text, texts


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """One search of Helion's autotuner: which kernel, on which of its shapes, from which seed, how thorough.

    `file`, `kernel`, `reference` and `args` are load_workload's, `shape` counts the workload's shapes from 0.
    `effort` is one of Helion's levels. `acfs` have paths, as in the store; no ACF is always a choice as well, and
    the one that Helion starts from. `budget_s` is Helion's own limit, at which it gives the best so far; None for
    none, as in plain Helion.
    """

    file: str
    kernel: str | None = None
    reference: str | None = None
    args: tuple[str, ...] = ()
    shape: int = 0
    seed: int = 0
    effort: str = "quick"
    acfs: tuple[Acf, ...] = ()
    budget_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The request in JSON's types."""
        return {
            "file": self.file,
            "kernel": self.kernel,
            "reference": self.reference,
            "args": list(self.args),
            "shape": self.shape,
            "seed": self.seed,
            "effort": self.effort,
            "acfs": [_acf_to_json(acf) for acf in self.acfs if acf.path is not None],
            "budget_s": self.budget_s,
        }

    @classmethod
    def from_json(cls, fields: Any) -> PeerRequest:
        """The request that `to_json` gave; ValueError with the field that is missing or of another type."""
        return cls(
            file=text(fields, "file"),
            kernel=optional(text, fields, "kernel"),
            reference=optional(text, fields, "reference"),
            args=texts(fields, "args"),
            shape=integer(fields, "shape"),
            seed=integer(fields, "seed"),
            effort=text(fields, "effort"),
            acfs=tuple(_acf_from_json(acf) for acf in items(fields, "acfs")),
            budget_s=optional(number, fields, "budget_s"),
        )


@dataclass(frozen=True, slots=True)
class PeerFailures:
    """How many configs Helion's autotuner rejected: by their compiler, by its workers, by its accuracy check."""

    compile: int = 0
    worker: int = 0
    accuracy: int = 0


@dataclass(frozen=True, slots=True)
class PeerResult:
    """The winner of one search of Helion's autotuner.

    `config` is normalised as candidates are, without its ACF; `acf_sha256` is "" for none. `seconds` is the wall
    time of `kernel.autotune` alone, without imports and inputs. `best_ms` is Helion's own last figure for the
    best config, None where it gave none: no measurement of ours. `trace` holds (seconds since the search began,
    best so far in milliseconds) at each improvement among first measurements, without Helion's repeats at the end.
    """

    config: dict[str, Any]
    acf_sha256: str
    effort: str
    seed: int
    helion: str
    seconds: float
    configs_tried: int
    failures: PeerFailures = PeerFailures()
    best_ms: float | None = None
    trace: tuple[tuple[float, float], ...] = ()
    log_tail: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The result in JSON's types."""
        return {
            **asdict(self),
            "trace": [list(point) for point in self.trace],
            "log_tail": list(self.log_tail),
        }

    @classmethod
    def from_json(cls, fields: Any) -> PeerResult:
        """The result that `to_json` gave; ValueError with the field that is missing or of another type."""
        failed = mapping(fields, "failures")
        return cls(
            config=mapping(fields, "config"),
            acf_sha256=sha256(fields, "acf_sha256") if text(fields, "acf_sha256") else "",
            effort=text(fields, "effort"),
            seed=integer(fields, "seed"),
            helion=text(fields, "helion"),
            seconds=number(fields, "seconds"),
            configs_tried=integer(fields, "configs_tried"),
            failures=PeerFailures(*(integer(failed, kind) for kind in ("compile", "worker", "accuracy"))),
            best_ms=optional(number, fields, "best_ms"),
            trace=tuple(_point(point) for point in items(fields, "trace")),
            log_tail=texts(fields, "log_tail"),
        )


def _point(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("trace: an entry is no pair of numbers")
    return finite(value[0], "trace"), finite(value[1], "trace")


def _acf_to_json(acf: Acf) -> dict[str, str]:
    return {"name": acf.name, "sha256": acf.sha256, "path": str(acf.path)}


def _acf_from_json(fields: Any) -> Acf:
    return Acf(text(fields, "name"), sha256(fields, "sha256"), Path(text(fields, "path")))
