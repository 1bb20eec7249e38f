"""What `helitune check` says of one pin: a result with its exit code, and everything that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, UserError
from helitune.search.args import format_shape

from .check_moved import NOTHING_KNOWN, Moved
from .check_times import Times
from .drift import Drift
from .pin import Pin


class Result(StrEnum):
    """How a pin came out."""

    FINE = "fine"
    NO_GAIN = "no gain"
    AMBIGUOUS = "ambiguous"
    REGRESSION = "regression"
    WRONG_OUTPUT = "wrong output"
    FAILED = "failed"
    DRIFT = "drift"
    NOT_UPDATED = "not updated"
    INPUT = "unreadable"
    ENVIRONMENT = "environment"


EXIT_CODES = {
    Result.FINE: 0,
    Result.NO_GAIN: 0,
    Result.AMBIGUOUS: 0,
    Result.REGRESSION: 1,
    Result.WRONG_OUTPUT: 1,
    Result.FAILED: 1,
    Result.DRIFT: 1,
    Result.NOT_UPDATED: 1,
    Result.INPUT: 2,
    Result.ENVIRONMENT: 3,
}
"""Every result has one: 0 fine or ambiguous, 1 a negative verdict, 2 a pin that cannot be read, 3 environment."""

_SEVEREST_FIRST = (1, 2, 3, 0)


@dataclass(frozen=True, slots=True)
class Checked:
    """One pin, checked.

    `path` is the pin's file, `pin` None where that could not be read. `message` says in one line how it came out,
    `next_step` what to do about it. `drift` is what recompiling changed, `times` what was measured; None where
    the check did not come that far. `updated` says that the pin was rewritten.
    """

    path: Path
    pin: Pin | None
    result: Result
    message: str
    next_step: str = ""
    moved: Moved = NOTHING_KNOWN
    drift: Drift | None = None
    times: Times | None = None
    updated: bool = False
    elapsed_s: float = 0.0

    @classmethod
    def of_error(cls, path: Path, pin: Pin | None, error: UserError) -> Checked:
        """What an error says of a pin: that it or its kernel file is wrong, else that this machine cannot check it."""
        result = Result.INPUT if isinstance(error, InputError) else Result.ENVIRONMENT
        what = f"{error.what} ({error.where})" if error.where else error.what
        return cls(path, pin, result, " ".join(what.split()), error.next_step)

    @property
    def exit_code(self) -> int:
        """What a check of this pin alone exits with."""
        return EXIT_CODES[self.result]

    @property
    def shapes(self) -> tuple[str, ...]:
        """The pin's shapes in the notation of --args."""
        return (
            tuple(format_shape(shape).replace("~given", "") for shape in self.pin.shapes) if self.pin else ()
        )

    @property
    def name(self) -> str:
        """The pin in a few words: "softmax f16[4096,2560] (sm_90)"; its path where it could not be read."""
        return self.named("; ".join(self.shapes))

    def named(self, shape: str) -> str:
        """The pin on one of its shapes."""
        return f"{self.pin.kernel} {shape} ({self.pin.gpu})" if self.pin else str(self.path)

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        pin = self.pin
        return {
            "pin": str(self.path),
            "kernel": pin.kernel if pin else None,
            "gpu": pin.gpu if pin else None,
            "shapes": list(self.shapes),
            "identity": pin.identity() if pin else None,
            "acf": pin.acf.name if pin and pin.acf else None,
            "evidence": pin.evidence if pin else None,
            "result": self.result.value,
            "exit_code": self.exit_code,
            "message": self.message,
            "next_step": self.next_step,
            "moved": self.moved.to_json(),
            "drift": self.drift.to_json() if self.drift else None,
            "measured": self.times.to_json() if self.times else None,
            "updated": self.updated,
            "elapsed_s": round(self.elapsed_s, 3),
        }


def exit_code(checked: Sequence[Checked]) -> int:
    """The exit code of a whole check: a negative verdict before a broken pin, that before the environment."""
    codes = {one.exit_code for one in checked}
    return next((code for code in _SEVEREST_FIRST if code in codes), 0)
