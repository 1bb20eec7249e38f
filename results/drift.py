"""A pin and the kernel's own config compiled anew, and where that gives other code than the pin recorded.

No GPU is needed: Helion, Triton and ptxas as they are installed, for the pin's target, with an empty cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError
from helitune.objectives.artifact import Artifact
from helitune.objectives.outcomes import Compiled, Failed
from helitune.search.args import format_shape
from helitune.search.candidate import Candidate
from helitune.search.workload import Shape

from .pin import Pin
from .request import TuneRequest
from .session import Session, Tools

FIELDS = (
    "code_sha256",
    "ptx_sha256",
    "grid",
    "num_warps",
    "registers",
    "spill_bytes",
    "shared_bytes",
)
"""What a pin records of each launch."""

PTX = "ptx_sha256"

Launches = list[list[dict[str, Any]]]
"""For each shape, for each launch: its FIELDS, as a pin keeps them."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of one launch that is another than was recorded; `name` is of FIELDS, or "launches"."""

    shape: int
    launch: int
    name: str
    then: Any
    now: Any

    def __str__(self) -> str:
        label = _LABELS.get(self.name, self.name.replace("_", " "))
        return label if self.name.endswith("sha256") else f"{label} {_shown(self.then)} → {_shown(self.now)}"


_LABELS = {"code_sha256": "code", PTX: "PTX", "spill_bytes": "spilled bytes", "shared_bytes": "shared bytes"}


@dataclass(frozen=True, slots=True)
class Drift:
    """What recompiling changed of the pin, and of the own config: None where the pin did not record that.

    `now` holds the pin's launches as they are compiled now, None where they were not; `failed` says why a pin no
    longer compiles.
    """

    pin: tuple[FieldChange, ...]
    own: tuple[FieldChange, ...] | None
    now: Launches | None = None
    failed: Failed | None = None

    @property
    def code_moved(self) -> bool:
        """Whether the pin's machine code is another, or gone; PTX alone may change without that."""
        return self.failed is not None or any(change.name != PTX for change in self.pin)

    @property
    def ptx_moved(self) -> bool:
        """Whether Helion and Triton make other PTX of the pin."""
        return any(change.name == PTX for change in self.pin)

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "pin": [_to_json(change) for change in self.pin],
            "own": None if self.own is None else [_to_json(change) for change in self.own],
            "now": self.now,
            "failed": {"stage": self.failed.stage, "message": self.failed.message} if self.failed else None,
        }


@dataclass(frozen=True, slots=True)
class Recompiled:
    """What the pin's candidates compile to now: own config, pin, and its config without the ACF (None without one).

    `ptx` is the sha256 of the PTX of each launch of each shape of the pin's config, which no ACF changes; None
    where the config does not compile.
    """

    own_candidate: Candidate
    pin_candidate: Candidate
    own: Compiled | Failed
    pin: Compiled | Failed | None
    without_acf: Compiled | Failed | None
    ptx: tuple[tuple[str, ...], ...] | None


def recompile(request: TuneRequest, tools: Tools, pin: Pin, acf: Acf, *, fits: bool = True) -> Recompiled:
    """The pin's candidates, compiled from nothing. Where the ACF does not fit this ptxas the pin itself is left out.

    Raises InputError where the kernel file gives other shapes than the pin's, and as Session does.
    """
    with tempfile.TemporaryDirectory(prefix="helitune-drift-", ignore_cleanup_errors=True) as folder:
        log, compiled = Path(folder) / "workers.log", Path(folder) / "compiled"
        with Session(request, tools, log, compiled=compiled) as session:
            _require_shapes(pin, session.description.record.shapes, request.file)
            own, pinned = session.baselines[0].candidate, Candidate.of(pin.config, acf)
            wanted = {"own": own, **({"pin": pinned} if fits else {})}
            if acf.sha256:
                wanted["without_acf"] = Candidate.of(pin.config)
            with ThreadPoolExecutor(len(wanted), thread_name_prefix="compile") as threads:
                made = dict(zip(wanted, threads.map(session.compiled.evaluate, wanted.values()), strict=True))
            return Recompiled(
                own, pinned, made["own"], made.get("pin"), made.get("without_acf"), _ptx(session, pinned)
            )


def drift_of(pin: Pin, made: Recompiled) -> Drift:
    """How what was made now differs from what the pin recorded."""
    recorded = recorded_own(pin)
    own = (
        changes(recorded, launches_of(made.own))
        if recorded is not None and isinstance(made.own, Compiled)
        else None
    )
    if isinstance(made.pin, Failed):
        return Drift((), own, failed=made.pin)
    if made.pin is None:
        return Drift(_ptx_changes(pin.artifacts, made.ptx), own)
    now = launches_of(made.pin)
    return Drift(changes(pin.artifacts, now), own, now)


def recorded_own(pin: Pin) -> Launches | None:
    """The launches of the kernel's own config as the pin recorded them, None where it did not."""
    own = pin.objective.get("own")
    found = own.get("artifacts") if isinstance(own, dict) else None
    return found if isinstance(found, list) else None


def launches_of(compiled: Compiled) -> Launches:
    """The launches of a compiled candidate as a pin keeps them."""
    return [[_launch(artifact) for artifact in shape] for shape in compiled.artifacts]


def changes(then: Launches, now: Launches) -> tuple[FieldChange, ...]:
    """Every field that differs between two records of the same shapes; a field that `then` lacks is none."""
    found: list[FieldChange] = []
    for shape, (old, new) in enumerate(zip(then, now, strict=False)):
        if len(old) != len(new):
            found.append(FieldChange(shape, 0, "launches", len(old), len(new)))
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            found += [
                FieldChange(shape, number, name, one[name], other[name])
                for name in FIELDS
                if name in one and one[name] != other[name]
            ]
    return tuple(found)


def told(found: Sequence[FieldChange]) -> str:
    """The changes for people, each said once: "code, PTX, registers 40 → 48"."""
    return ", ".join(dict.fromkeys(map(str, found)))


def _ptx(session: Session, candidate: Candidate) -> tuple[tuple[str, ...], ...] | None:
    try:
        lowered = session.compiled.launches(candidate)
    except ValueError:
        return None
    return tuple(tuple(launch.ptx_sha256 for launch in shape) for shape in lowered)


def _ptx_changes(then: Launches, ptx: tuple[tuple[str, ...], ...] | None) -> tuple[FieldChange, ...]:
    now = [[{PTX: text} for text in shape] for shape in ptx or ()]
    recorded = [[{PTX: launch[PTX]} for launch in shape] for shape in then]
    return tuple(
        FieldChange(shape, number, PTX, one[PTX], other[PTX])
        for shape, (old, new) in enumerate(zip(recorded, now, strict=False))
        for number, (one, other) in enumerate(zip(old, new, strict=False))
        if one != other
    )


def _launch(artifact: Artifact) -> dict[str, Any]:
    return {
        name: list(value) if name == "grid" else value
        for name in FIELDS
        for value in [getattr(artifact, name)]
    }


def _require_shapes(pin: Pin, found: tuple[Shape, ...], file: str) -> None:
    if found != pin.shapes:
        shown = "; ".join(format_shape(shape).replace("~given", "") for shape in found)
        raise InputError(
            f"the kernel file's {pin.inputs} gives other shapes than the pin's: {shown}",
            where=file,
            next_step="name the file that was pinned with --kernel-file, or pin again",
        )


def _to_json(change: FieldChange) -> dict[str, Any]:
    return {name: getattr(change, name) for name in FieldChange.__dataclass_fields__}


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
