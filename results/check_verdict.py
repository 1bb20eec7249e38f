"""What a check says of times, and of recompiled code: the result, why, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from .check_times import Times, since_pinned
from .checked import Result
from .drift import Drift, told
from .pin import Pin
from .verdict import Status
from .verdict_words import WORDS

_WRONG = ("wrong_output", "flaky_output")


@dataclass(frozen=True, slots=True)
class Said:
    """A result with its reason in one line, and the next step where there is one."""

    result: Result
    message: str
    next_step: str = ""


def said_of_times(pin: Pin, times: Times) -> Said:
    """What the times of now say; those that the pin recorded decide nothing."""
    if times.failed is not None:
        result = Result.WRONG_OUTPUT if times.failed.stage in _WRONG else Result.FAILED
        next_step = "do not deploy it: pin another trial, or keep the kernel's own config"
        return Said(result, f"{times.failed.stage}: {times.failed.message}", next_step)
    if times.slower_than:
        parts = (f"slower than {times.slower_than}", since_pinned(pin, times))
        next_step = "remove the pin, or tune again in this environment"
        return Said(Result.REGRESSION, "; ".join(filter(None, parts)), next_step)
    status = times.whole.status
    if status is Status.FASTER:
        return Said(Result.FINE, "faster than the kernel's own config")
    if status in (Status.SAME, Status.NO_OP):
        message = "as fast as the kernel's own config, within the floor"
        return Said(Result.NO_GAIN, message, "the pin may go, or tune again in this environment")
    needed = times.whole.runs_needed
    runs = (
        f"check again with --runs {needed}"
        if needed is not None and needed > times.whole.numbers.runs
        else ""
    )
    return Said(Result.AMBIGUOUS, f"{status}: {WORDS[times.whole.reason]}", runs)


def said_of_drift(pin: Pin, drift: Drift, elsewhere: str) -> Said:
    """What the recompiled code says. `elsewhere` names the architecture of a GPU that is here but not the pin's."""
    if drift.code_moved:
        return Said(
            Result.DRIFT,
            f"it compiles to other code than was pinned: {told(drift.pin)}",
            "measure it on its GPU (helitune check), then --update it or pin anew",
        )
    message = "it compiles to the pinned code"
    if drift.ptx_moved:
        message += ", from other PTX"
    if elsewhere:
        message += f"; not measured: it is for {pin.gpu}, and this GPU is {elsewhere}"
    return Said(Result.FINE, message)


NOTHING_TO_MEASURE = Said(
    Result.NO_GAIN,
    "its code is that of the kernel's own config: there is nothing to measure",
    "the pin may go, or tune again in this environment",
)
