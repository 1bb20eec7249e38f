"""What is written is read back and compiled by plain Helion before it counts as a pin."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from helitune.acfs.errors import InputError, MachineError, NegativeVerdict
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.compile_environment import compile_environment
from helitune.objectives.targets import spelled
from helitune.objectives.worker_pool import CallFailed, WorkerDied, WorkerPool, WorkerTimeout

from .pin import Pin, read_pin
from .pin_choice import CHANGED_NOTE, NO_OP_NOTE, acf_content
from .pin_forms import Place, StagedPin
from .pin_python_form import python_text
from .request import TuneRequest
from .run_directory import RunDirectory
from .run_record import device_of

COMPILE_TIMEOUT_S = 600.0
"""For one form on one shape: all of Triton and ptxas, nothing taken from a cache."""


class PinVerifier:
    """A compile process with the run's kernel and empty caches; a context manager that ends it.

    `target` is what to compile for, as targets.read_target reads it. Raises InputError where the kernel file is no
    longer the one that was tuned.
    """

    def __init__(self, request: TuneRequest, pin: Pin, ptxas: Ptxas, target: str) -> None:
        require_source(Path(request.file), pin.source_sha256)
        self._notes = pin.notes
        self._scratch = tempfile.TemporaryDirectory(prefix="helitune-pin-")
        scratch = Path(self._scratch.name)
        environment = compile_environment(ptxas, os.environ, scratch) | {
            # the Python form is imported where it lies
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        setup = request.worker_setup(scratch / "compiled")
        log = scratch / "workers.log"
        self._pool = WorkerPool(setup, target=target, size=1, log=log, environment=environment)

    def changes_code(self, pin: Pin) -> bool:
        """Whether the pin's code differs from what its config gives without an ACF."""
        try:
            plain = tuple(self._code(pin.config, shape) for shape in range(len(pin.shapes)))
        except NegativeVerdict:
            return True  # without the ACF it does not even compile
        return plain != pin.code

    def save_helion_form(self, config: Mapping[str, Any], path: Path) -> None:
        """Let Helion write `config` to `path`; MachineError where it cannot."""
        try:
            self._pool.call("save_helion_form", dict(config), str(path), timeout_s=COMPILE_TIMEOUT_S)
        except (CallFailed, WorkerDied, WorkerTimeout) as error:
            raise MachineError(
                f"cannot write the Helion form: {error}",
                where=str(path.parent),
                next_step="give -o a folder that you can write to",
            ) from error

    def verify(self, staged: StagedPin) -> None:
        """None where all three forms hold the pin and compile to its code; NegativeVerdict for drift."""
        if read_pin(staged.json) != staged.pin:
            raise NegativeVerdict("the pin reads back as another one", where=str(staged.json))
        if _without_nulls(json.loads(staged.helion.read_bytes())) != _without_nulls(staged.helion_config()):
            raise NegativeVerdict("the Helion form reads back as another config", where=str(staged.helion))
        for shape, expected in enumerate(staged.pin.code):
            for form in (staged.helion, staged.python):
                if self._code(str(form), shape) != expected:
                    raise self._drift("it compiles to other code than in the run")

    def _code(self, form: dict[str, Any] | str, shape: int) -> tuple[str, ...]:
        try:
            code: tuple[str, ...] = self._pool.call(
                "compile_plainly", form, shape, timeout_s=COMPILE_TIMEOUT_S
            )
        except CallFailed as error:
            raise self._drift(f"it does not compile: {error.kind}: {error}") from error
        except (WorkerDied, WorkerTimeout) as error:
            raise self._drift(f"it does not compile: {error}") from error
        return code

    def _drift(self, what: str) -> NegativeVerdict:
        changed = [note for note in self._notes if note.startswith(CHANGED_NOTE)]
        return NegativeVerdict(
            "; ".join([f"drift: {what}", *changed]),
            where="plain Helion, empty caches",
            next_step="nothing was written; tune again in this environment",
        )

    def __enter__(self) -> PinVerifier:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.close()
        self._scratch.cleanup()


def write_verified(pin: Pin, run: RunDirectory, root: Path, ptxas: Ptxas) -> tuple[Pin, Place]:
    """The pin as it now lies below `root`, and where; an ACF that changes nothing is left out.

    An older pin in that place is replaced after the new one was verified. Raises UserError, and leaves no file
    behind, where anything is wrong.
    """
    fields = run.run()
    request = TuneRequest.from_json(fields["request"])
    device = device_of(fields, str(run.path / "run.json"))
    target = spelled(device.target()) if device is not None else pin.gpu
    acf = acf_content(run, pin.acf) if pin.acf else None
    Place.of(pin, root)
    with PinVerifier(request, pin, ptxas, target) as verifier:
        if pin.acf is not None and not verifier.changes_code(pin):
            pin = replace(pin, acf=None, notes=(*pin.notes, NO_OP_NOTE))
        staged = StagedPin(Place.of(pin, root), pin)
        try:
            staged.write(acf, python_text(pin, Path(request.file)), verifier.save_helion_form)
            verifier.verify(staged)
            staged.commit()
        except BaseException:
            staged.discard()
            raise
    return pin, staged.place


def require_source(file: Path, source_sha256: str) -> None:
    """None where the kernel file still has that content; else InputError."""
    try:
        found = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            f"the run's kernel file cannot be read: {error.strerror}",
            where=str(file),
            next_step="put it back, or tune it where it is now",
        ) from error
    if found != source_sha256:
        raise InputError(
            "the kernel file has changed since the run",
            where=str(file),
            next_step="tune it again, or restore the file that was tuned",
        )


def _without_nulls(config: Any) -> Any:
    """A config without the settings that are null, which Helion leaves out when it saves one."""
    if not isinstance(config, dict):
        return config
    return {key: value for key, value in config.items() if value is not None}
