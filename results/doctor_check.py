"""One line of `helitune doctor`: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """`fix` is what to do where the status is not ok; "" where there is nothing to do.

    warn: a tune runs, but something is missing, or is not as it seems. fail: a tune on this machine does not run.
    """

    name: str
    status: Status
    what: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """This record in JSON's types."""
        return asdict(self)


def worst(checks: list[Check]) -> Status:
    """The worst status among the checks."""
    found = {check.status for check in checks}
    order: tuple[Status, ...] = ("fail", "warn")
    return next((status for status in order if status in found), "ok")
