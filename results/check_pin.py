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

from .check_moved import UNKNOWN, Moved, Side, Weight, environment_changes, heaviest
from .check_request import CheckSetting, request_of, stored_acf, tools_of
from .check_source import KernelFiles, Source
from .check_times import Times, since_pinned
from .check_update import require_updatable, updated
from .checked import Checked, Result
from .drift import Drift, Recompiled, drift_of, recompile, told
from .fingerprint import fingerprint
from .pin import Pin, read_pin
from .request import TuneRequest
from .verdict import Status
from .verdict_words import WORDS

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
    try:
        pin = read_pin(path)
        if isinstance(how, MachineError):
            raise how
        checked = _PinCheck(path, pin, how, files.find(pin), calibrate, tell).result()
    except UserError as error:
        checked = Checked.of_error(path, pin, error)
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
        self._moved = Moved(self._environment, UNKNOWN if source.same else edited, UNKNOWN)

    def result(self) -> Checked:
        """How the pin comes out."""
        if not self._source.same and not self._how.update:
            return self._ended(
                Result.ENVIRONMENT,
                f"{EDITED}: {self._source.path}",
                next_step="tune and pin it again, or --update",
            )
        unfit = [change for change in self._environment if change.weight is Weight.UNFIT]
        if unfit and unfit[0].name != "ptxas":
            return self._unfit(str(unfit[0]))
        request = request_of(self._pin, self._source.path, self._how)
        acf = stored_acf(self._path, self._pin)
        made = recompile(
            request, tools_of(self._pin, acf, self._how, measuring=False), self._pin, acf, fits=not unfit
        )
        drift = drift_of(self._pin, made)
        self._moved = Moved(self._environment, self._baseline(drift), _pin_side(drift))
        if unfit:
            ptx = "its PTX has changed too" if drift.ptx_moved else "its PTX is as it was"
            return self._unfit(f"{unfit[0]}; {ptx}", drift)
        if isinstance(made.pin, Failed):
            return self._ended(
                Result.FAILED, f"it does not compile: {made.pin.stage}: {made.pin.message}", drift=drift
            )
        if self._how.update:
            require_updatable(self._pin, self._how)
        if self._how.device is None:
            checked = self._recompiled(drift)
        else:
            checked = self._measured(made, request, acf, drift)
        return self._updated(checked, made, request, acf) if self._how.update else checked

    def _recompiled(self, drift: Drift) -> Checked:
        """The result where nothing is measured."""
        if drift.code_moved:
            return self._ended(
                Result.DRIFT,
                f"it compiles to other code than was pinned: {told(drift.pin)}",
                drift=drift,
                next_step="measure it on its GPU (helitune check), then --update it or pin anew",
            )
        message = "recompiled to the pinned code"
        if drift.ptx_moved:
            message += ", from other PTX"
        return self._in_use(self._ended(Result.FINE, message, drift=drift))

    def _measured(self, made: Recompiled, request: TuneRequest, acf: Acf, drift: Drift) -> Checked:
        """The result where the pin runs beside its baselines."""
        if isinstance(made.own, Failed):
            return self._ended(
                Result.ENVIRONMENT,
                f"the kernel's own config does not compile here: {made.own.stage}: {made.own.message}",
                drift=drift,
                next_step="compile the kernel with plain Helion",
            )
        assert isinstance(made.pin, Compiled)
        if made.pin.code == made.own.code:
            message = "its code is that of the kernel's own config: there is nothing to measure"
            return self._in_use(self._ended(Result.NO_GAIN, message, drift=drift))
        from .check_arms import measure

        tools = tools_of(self._pin, acf, self._how, measuring=True)
        calibration = self._calibrate(request, tools)
        try:
            times = measure(self._pin, made, request, tools, calibration, self._how.thresholds, self._tell)
        except NegativeVerdict as error:  # the baseline's output is wrong
            return self._ended(Result.WRONG_OUTPUT, error.what, drift=drift, next_step=error.next_step)
        checked = replace(self._judged(times), drift=drift)
        return self._in_use(checked) if checked.exit_code == 0 else checked

    def _judged(self, times: Times) -> Checked:
        """The result that the times stand for."""
        if times.failed is not None:
            wrong = times.failed.stage in ("wrong_output", "flaky_output")
            what = f"{times.failed.stage}: {times.failed.message}"
            next_step = "do not deploy it: pin another trial, or the kernel's own config"
            return self._ended(
                Result.WRONG_OUTPUT if wrong else Result.FAILED, what, times=times, next_step=next_step
            )
        if times.slower_than:
            message = f"slower than {times.slower_than}"
            hint = since_pinned(self._pin, times)
            return self._ended(
                Result.REGRESSION,
                "; ".join(filter(None, (message, hint))),
                times=times,
                next_step="remove the pin, or tune again in this environment",
            )
        status, reason = times.whole.status, times.whole.reason
        if status is Status.FASTER:
            return self._ended(Result.FINE, "faster than the kernel's own config", times=times)
        if status in (Status.SAME, Status.NO_OP):
            message = "no faster than the kernel's own config, and no slower"
            return self._ended(Result.NO_GAIN, message, times=times)
        return self._ended(Result.AMBIGUOUS, f"{status}: {WORDS[reason]}", times=times)

    def _in_use(self, checked: Checked) -> Checked:
        """The result, unless programs do not use the pin here whatever it is worth."""
        if heaviest(self._environment) < Weight.UNUSED or self._how.update:
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
        return self._ended(
            Result.ENVIRONMENT,
            f"it cannot be checked here as it was pinned: {change}",
            drift=drift,
            next_step="check it where it was pinned, or tune and pin again here",
        )

    def _baseline(self, drift: Drift) -> Side:
        if not self._source.same:
            return Side(True, EDITED)
        if drift.own is None:
            return UNKNOWN
        code = [change for change in drift.own if change.name != "ptx_sha256"]
        return Side(bool(code), told(code))

    def _ended(
        self,
        result: Result,
        message: str,
        *,
        drift: Drift | None = None,
        times: Times | None = None,
        next_step: str = "",
    ) -> Checked:
        return Checked(
            self._path, self._pin, result, message, next_step, self._moved, drift=drift, times=times
        )


def _pin_side(drift: Drift) -> Side:
    if drift.failed is not None:
        return Side(True, f"it does not compile: {drift.failed.stage}")
    if drift.now is None:
        return UNKNOWN
    return Side(drift.code_moved, told(drift.pin) if drift.code_moved else "")
