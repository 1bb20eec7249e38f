"""The check of one pin on one page: read it, find its kernel, compare the environment, recompile, measure, judge.

With a GPU the verdict comes from times that are taken now; what was recorded only says what has moved. Without one
the recompiled code is compared with the recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from helitune.acfs.acf import Acf
from helitune.acfs.errors import MachineError, NegativeVerdict, UserError
from helitune.objectives.outcomes import Compiled, Failed

from .check_moved import NOTHING_KNOWN, UNKNOWN, Moved, Side, Weight, environment_changes, heaviest
from .check_request import CheckSetting, request_of, stored_acf, tools_of
from .check_source import KernelFiles, Source
from .check_times import Times
from .check_update import require_updatable, updated
from .check_verdict import NOTHING_TO_MEASURE, Said, said_of_drift, said_of_times
from .checked import Checked, Result
from .drift import PTX, Drift, Recompiled, drift_of, recompile, told
from .fingerprint import fingerprint
from .pin import Pin, read_pin
from .request import TuneRequest

if TYPE_CHECKING:
    from .calibration import Calibration
    from .session import Tools

Calibrate = Callable[[TuneRequest, "Tools"], "Calibration"]
"""This machine's calibration for a request's way of timing."""

Tell = Callable[[str], None]

EDITED = "the kernel file was edited since it was pinned"


def check_pin(
    path: Path, how: CheckSetting | MachineError, files: KernelFiles, calibrate: Calibrate, tell: Tell
) -> Checked:
    """How the pin in the file `path` comes out. Every UserError ends in a result; other exceptions are bugs.

    `how` may be what keeps this machine from checking anything: that is the result of every pin.
    """
    began = time.monotonic()
    pin: Pin | None = None
    one: _PinCheck | None = None
    try:
        pin = read_pin(path)
        if isinstance(how, MachineError):
            raise how
        one = _PinCheck(path, pin, how, files.find(pin), calibrate, tell)
        checked = one.result()
    except UserError as error:
        checked = replace(Checked.of_error(path, pin, error), moved=one.moved if one else NOTHING_KNOWN)
    return replace(checked, elapsed_s=time.monotonic() - began)


class _PinCheck:
    """One pin with all that its check needs; `result` gives the outcome."""

    def __init__(
        self, path: Path, pin: Pin, how: CheckSetting, source: Source, calibrate: Calibrate, tell: Tell
    ) -> None:
        self._path, self._pin, self._how, self._source = path, pin, how, source
        self._calibrate, self._tell = calibrate, tell
        self._now = fingerprint(how.ptxas, how.device.arch if how.device else pin.gpu, how.device)
        self._environment = environment_changes(pin, self._now)
        edited = Side(True, EDITED)
        self.moved = Moved(self._environment, UNKNOWN if source.same else edited, UNKNOWN)

    def result(self) -> Checked:
        """How the pin comes out."""
        if not self._source.same and not self._how.update:
            what = f"{EDITED}: {self._source.path}"
            return self._ended(Said(Result.ENVIRONMENT, what, "tune and pin it again, or --update"))
        unfit = [change for change in self._environment if change.weight is Weight.UNFIT]
        if unfit and unfit[0].name != "ptxas":
            return self._unfit(str(unfit[0]))
        request = request_of(self._pin, self._source.path, self._how)
        acf = stored_acf(self._path, self._pin)
        tools = tools_of(self._pin, acf, self._how, measuring=False)
        made = recompile(request, tools, self._pin, acf, fits=not unfit)
        drift = drift_of(self._pin, made)
        self.moved = Moved(self._environment, self._baseline(made, drift), _pin_side(drift))
        if unfit:
            ptx = "its PTX has changed too" if drift.ptx_moved else "its PTX is as it was"
            return self._unfit(f"{unfit[0]}; {ptx}", drift)
        if isinstance(made.pin, Failed):
            message = f"it does not compile: {made.pin.stage}: {made.pin.message}"
            return self._ended(Said(Result.FAILED, message, "tune and pin again in this environment"), drift)
        if self._how.update:
            require_updatable(self._pin, self._how)
            return self._updated(self._judged(made, request, acf, drift), made, request, acf)
        return self._in_use(self._judged(made, request, acf, drift))

    def _judged(self, made: Recompiled, request: TuneRequest, acf: Acf, drift: Drift) -> Checked:
        """The result of measuring the pin beside its baselines, or of recompiling it where nothing is measured."""
        if self._how.device is None:
            return self._ended(said_of_drift(self._pin, drift, self._how.elsewhere), drift)
        if isinstance(made.own, Failed):
            message = f"the kernel's own config does not compile here: {made.own.stage}: {made.own.message}"
            return self._ended(
                Said(Result.ENVIRONMENT, message, "compile the kernel with plain Helion"), drift
            )
        assert isinstance(made.pin, Compiled)
        if made.pin.identity == made.own.identity:
            return self._ended(NOTHING_TO_MEASURE, drift)
        from .check_arms import measure

        tools = tools_of(self._pin, acf, self._how, measuring=True)
        calibration = self._calibrate(request, tools)
        try:
            times = measure(self._pin, made, request, tools, calibration, self._how.thresholds, self._tell)
        except NegativeVerdict as error:  # the baseline's own output is wrong
            return self._ended(Said(Result.WRONG_OUTPUT, error.what, error.next_step), drift)
        return self._ended(said_of_times(self._pin, times), drift, times)

    def _in_use(self, checked: Checked) -> Checked:
        """The result, unless programs do not use the pin here whatever it is worth."""
        if heaviest(self._environment) < Weight.UNUSED or checked.exit_code:
            return checked
        changed = ", ".join(str(c) for c in self._environment if c.weight is Weight.UNUSED)
        return replace(
            checked,
            result=Result.ENVIRONMENT,
            message=f"{checked.message}, but it is not used here: {changed}",
            next_step="validate it here and rewrite it: helitune check --update",
        )

    def _updated(self, checked: Checked, made: Recompiled, request: TuneRequest, acf: Acf) -> Checked:
        """The pin rewritten where it passes, else why it stays as it is."""
        passed = checked.result in (Result.FINE, Result.DRIFT)
        if not passed:
            refused = checked.exit_code == 0
            return replace(
                checked,
                result=Result.NOT_UPDATED if refused else checked.result,
                message=f"{checked.message}; it was not rewritten",
            )
        try:
            pin = updated(self._path, self._pin, made, request, acf, self._how, self._now, checked.times)
        except NegativeVerdict as error:
            return replace(
                checked,
                result=Result.NOT_UPDATED,
                message=f"not rewritten: {error.what}",
                next_step=error.next_step,
            )
        if pin is None:
            return checked
        message = f"{checked.message}; rewritten"
        return replace(checked, pin=pin, result=Result.FINE, message=message, next_step="", updated=True)

    def _unfit(self, change: str, drift: Drift | None = None) -> Checked:
        what = f"it cannot be checked here as it was pinned: {change}"
        next_step = "check it where it was pinned, or tune and pin again here"
        return self._ended(Said(Result.ENVIRONMENT, what, next_step), drift)

    def _baseline(self, made: Recompiled, drift: Drift) -> Side:
        if not self._source.same:
            return Side(True, EDITED)
        if isinstance(made.own, Failed):
            return Side(True, f"it does not compile: {made.own.stage}")
        if drift.own is None:
            return UNKNOWN
        code = [change for change in drift.own if change.name != PTX]
        return Side(bool(code), told(code))

    def _ended(self, said: Said, drift: Drift | None = None, times: Times | None = None) -> Checked:
        return Checked(
            self._path,
            self._pin,
            said.result,
            said.message,
            said.next_step,
            self.moved,
            drift=drift,
            times=times,
        )


def _pin_side(drift: Drift) -> Side:
    if drift.failed is not None:
        return Side(True, f"it does not compile: {drift.failed.stage}")
    if drift.now is None:
        return UNKNOWN
    return Side(drift.code_moved, told(drift.pin) if drift.code_moved else "")
