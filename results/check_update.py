"""A pin that passed its check, written again as it is now: code, environment, and what it rests on.

With a GPU the evidence is the verdict of the check, which is a validation like any other. Without one only a pin of
evidence `compiled` can be written, after the kernel's source has been checked against its reference again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from helitune.acfs.acf import Acf
from helitune.acfs.errors import MachineError, NegativeVerdict
from helitune.objectives.check_child import run_check
from helitune.objectives.check_result import CheckRequest
from helitune.objectives.compiled_objectives import OBJECTIVES
from helitune.objectives.outcomes import Compiled, Failed
from helitune.objectives.targets import spelled

from .check_request import CheckSetting
from .check_source import sha256_of
from .check_times import Times
from .drift import Recompiled, launches_of
from .pin import Pin
from .pin_choice import COMPILED
from .pin_forms import Place, StagedPin
from .pin_python_form import python_text
from .pin_verify import PinVerifier
from .request import TuneRequest

UPDATED_NOTE = "updated by helitune check --update"

CHECK_TIMEOUT_S = 600.0


def require_updatable(pin: Pin, how: CheckSetting) -> None:
    """None where the pin can be validated again on this machine; else MachineError."""
    if how.device is None and pin.evidence != COMPILED:
        raise MachineError(
            f"the pin's evidence is measured ({pin.evidence}): it cannot be validated again without a GPU",
            where="--update",
            next_step="update it on a machine with its GPU, or leave --update out",
        )


def updated(
    path: Path,
    pin: Pin,
    made: Recompiled,
    request: TuneRequest,
    acf: Acf,
    how: CheckSetting,
    now: Mapping[str, Any],
    times: Times | None,
) -> Pin | None:
    """The pin as it lies at `path` from now on, None where all of it still holds and nothing was written.

    Raises NegativeVerdict where it is not worth it, or does not verify.
    """
    fresh = replace(
        pin,
        source_sha256=sha256_of(Path(request.file)),
        gpu=how.target(pin).arch,
        artifacts=launches_of(_compiled(made.pin)),
        fingerprint=dict(now),
        notes=_notes(pin),
    )
    if times is None:
        fresh = replace(fresh, objective=_scores(pin, made), check=_source_check(request))
    else:
        fresh = replace(
            fresh,
            evidence=times.whole.status.value,
            verdict=dict(times.evidence),
            objective=_times(made, times),
        )
    if replace(fresh, notes=pin.notes, check=pin.check) == pin:
        return None
    _write(path, fresh, request, acf, how)
    return fresh


def _compiled(made: Compiled | Failed | None) -> Compiled:
    assert isinstance(made, Compiled), "only what compiles is written"
    return made


def _scores(pin: Pin, made: Recompiled) -> dict[str, Any]:
    """The pin's objective with what the model says now; NegativeVerdict where that is nothing above own."""
    name, mine = pin.objective["name"], _compiled(made.pin)
    own = made.own if isinstance(made.own, Compiled) else None
    if own is not None and mine.score >= own.score and pin.run.get("chosen") != "--trial":
        raise NegativeVerdict(
            "it does not rank above the kernel's own config any more",
            where=name,
            next_step="remove the pin, or tune again",
        )
    return {
        "name": name,
        "unit": OBJECTIVES[name].unit,
        "lower_is_better": OBJECTIVES[name].lower_is_better,
        "pin": {"score": mine.score, "values": list(mine.values)},
        "own": own and {"score": own.score, "values": list(own.values), "artifacts": launches_of(own)},
    }


def _times(made: Recompiled, times: Times) -> dict[str, Any]:
    """The objective of a measured pin: the times of its validation, in microseconds."""
    speedup = times.whole.numbers.speedup
    return {
        "name": "time",
        "unit": "us",
        "lower_is_better": True,
        "pin": {
            "score": None if speedup is None else 1 / speedup,
            "values": [1e3 * (shape.pin_ms or 0.0) for shape in times.shapes],
        },
        "own": {
            "score": 1.0,
            "values": [1e3 * (shape.own_ms or 0.0) for shape in times.shapes],
            "artifacts": launches_of(_compiled(made.own)),
        },
    }


def _source_check(request: TuneRequest) -> dict[str, Any]:
    """The verdict on the kernel's source, formed anew; NegativeVerdict where it disagrees with its reference."""
    asked = CheckRequest(
        file=request.file, kernel=request.kernel, reference=request.reference, args=request.args
    )
    result = run_check(asked, CHECK_TIMEOUT_S)
    if not result.agrees:
        raise NegativeVerdict(
            result.message, where=request.file, next_step="correct the kernel or its reference"
        )
    return result.to_json()


def _notes(pin: Pin) -> tuple[str, ...]:
    kept = [note for note in pin.notes if not note.startswith(UPDATED_NOTE)]
    return (*kept, f"{UPDATED_NOTE}, {time.strftime('%Y-%m-%d')}")


def _write(path: Path, pin: Pin, request: TuneRequest, acf: Acf, how: CheckSetting) -> None:
    """Write all forms of the pin, read them back, compile them, and only then replace what was there."""
    staged = StagedPin(Place(path.absolute().parent, path.stem), pin)
    content = acf.path.read_bytes() if acf.path is not None else None
    target = spelled(how.target(pin))
    with PinVerifier(request, pin, how.ptxas, target) as verifier:
        try:
            staged.write(content, python_text(pin, Path(request.file)), verifier.save_helion_form)
            verifier.verify(staged)
            staged.commit()
        except BaseException:
            staged.discard()
            raise
