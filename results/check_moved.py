"""What moved since a pin was made: the environment, the baseline, or the pin itself.

Only what the pin recorded can be compared. What it did not record is unknown, and said to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .pin import Pin
from .pin_environment import pinned_versions


class Weight(IntEnum):
    """What a change of the environment means for a pin."""

    NOTED = 0
    """It is used all the same."""

    UNUSED = 1
    """It still compiles, but load_pins does not use it there."""

    UNFIT = 2
    """It cannot be compiled or measured there as it was pinned."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that the pin recorded and that is another now; `name` as "triton"."""

    name: str
    then: str
    now: str
    weight: Weight

    def __str__(self) -> str:
        return f"{self.name} {self.then} → {self.now}"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: whether it moved, None where that is not known, and in what."""

    moved: bool | None
    why: str = ""


UNKNOWN = Side(None)


@dataclass(frozen=True, slots=True)
class Moved:
    """What is known to have moved since the pin was made."""

    environment: tuple[Change, ...]
    baseline: Side
    pin: Side

    def words(self) -> str:
        """For people: "environment (triton 3.6.0 → 3.9.0), pin (registers 40 → 48)", or that nothing moved."""
        parts = [f"environment ({', '.join(map(str, self.environment))})"] if self.environment else []
        for name, side in (("baseline", self.baseline), ("pin", self.pin)):
            if side.moved:
                parts.append(f"{name} ({side.why})")
        unknown = [n for n, s in (("baseline", self.baseline), ("pin", self.pin)) if s.moved is None]
        if unknown:
            parts.append(f"{' and '.join(unknown)} unknown")
        return ", ".join(parts) or "nothing"

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "environment": [str(change) for change in self.environment],
            "baseline": {"moved": self.baseline.moved, "why": self.baseline.why},
            "pin": {"moved": self.pin.moved, "why": self.pin.why},
        }


NOTHING_KNOWN = Moved((), UNKNOWN, UNKNOWN)


def environment_changes(pin: Pin, now: Mapping[str, Any]) -> tuple[Change, ...]:
    """How the environment `now` (a fingerprint) differs from the pin's, what weighs most first.

    The GPU is compared where `now` has one: its architecture always, its name and driver where the pin has them.
    """
    found = [*_packages(pin, now), *_ptxas(pin, now), *_gpu(pin, now)]
    return tuple(sorted(found, key=lambda change: -change.weight))


def heaviest(changes: tuple[Change, ...]) -> Weight:
    """The weight of the changes together."""
    return max((change.weight for change in changes), default=Weight.NOTED)


def _packages(pin: Pin, now: Mapping[str, Any]) -> list[Change]:
    found = {name: now["packages"][name].partition("+")[0] for name in pinned_versions(pin)}
    return [
        Change(name, then, found[name], Weight.UNUSED)
        for name, then in pinned_versions(pin).items()
        if found[name] != then
    ]


def _ptxas(pin: Pin, now: Mapping[str, Any]) -> list[Change]:
    """An ACF is for one build of ptxas; a config alone is valid with any."""
    then, found = pin.fingerprint["ptxas"], now["ptxas"]
    pinned = pin.acf.ptxas if pin.acf else then["version"]
    weight = Weight.UNFIT if pin.acf else Weight.NOTED
    if found["version"] != pinned:
        return [Change("ptxas", pinned, found["version"], weight)]
    if then.get("sha256") not in (None, found["sha256"]):
        return [Change("ptxas", pinned, "another file of that version", weight)]
    return []


def _gpu(pin: Pin, now: Mapping[str, Any]) -> list[Change]:
    if "gpu" not in now:
        return []
    if pin.gpu != now["arch"]:
        return [Change("GPU", pin.gpu, now["arch"], Weight.UNFIT)]
    then, found = measured_on(pin), now["gpu"]
    if then.get("name", found["name"]) != found["name"]:
        return [Change("GPU", then["name"], found["name"], Weight.UNFIT)]
    if then.get("driver", found["driver"]) != found["driver"]:
        return [Change("driver", then["driver"], found["driver"], Weight.NOTED)]
    return []


def measured_on(pin: Pin) -> dict[str, str]:
    """`name` and `driver` of the GPU that a pin was measured on, empty where it only was compiled."""
    gpu = pin.fingerprint.get("gpu")
    return (
        {name: text for name, text in gpu.items() if isinstance(text, str)} if isinstance(gpu, dict) else {}
    )
