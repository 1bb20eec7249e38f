"""What a check measured of a pin: its verdicts against two baselines, side by side on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helitune.objectives.outcomes import Failed

from .pin import Pin
from .verdict import Status, Verdict


@dataclass(frozen=True, slots=True)
class ShapeTimes:
    """One shape: the verdict against the kernel's own config, and that against the pin's config without its ACF.

    The latter is None for a pin without an ACF. Times are medians in milliseconds a launch, None where there are
    none.
    """

    over_own: Verdict
    over_no_acf: Verdict | None
    pin_ms: float | None
    own_ms: float | None
    no_acf_ms: float | None

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "over_own": self.over_own.to_record(),
            "over_no_acf": self.over_no_acf.to_record() if self.over_no_acf else None,
            "pin_ms": self.pin_ms,
            "own_ms": self.own_ms,
            "no_acf_ms": self.no_acf_ms,
        }


@dataclass(frozen=True, slots=True)
class Times:
    """A pin beside its baselines.

    `whole` is the verdict over all shapes, `shapes` has one entry a shape. `failed` says what the pin failed at
    before it was timed. `evidence` is what a pin that is written from this says of its evidence.
    """

    whole: Verdict
    shapes: tuple[ShapeTimes, ...]
    evidence: Mapping[str, Any]
    failed: Failed | None = None

    @property
    def slower_than(self) -> str:
        """Which baseline the pin is slower than on some shape; empty for none."""
        if any(shape.over_own.status is Status.SLOWER for shape in self.shapes):
            return "the kernel's own config"
        beside = [shape.over_no_acf for shape in self.shapes]
        if any(verdict is not None and verdict.status is Status.SLOWER for verdict in beside):
            return "its own config without the ACF"
        return ""

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "whole": self.whole.to_record(),
            "shapes": [shape.to_json() for shape in self.shapes],
            "failed": {"stage": self.failed.stage, "message": self.failed.message} if self.failed else None,
            "validated": self.evidence.get("validated"),
        }


def since_pinned(pin: Pin, times: Times) -> str:
    """How the times compare with those that the pin recorded, in one sentence; empty where it recorded none.

    It decides nothing: those are times of another day, and perhaps of another machine.
    """
    objective = pin.objective
    if objective.get("name") != "time" or objective.get("unit") != "us" or times.failed is not None:
        return ""
    sides = []
    for label, name in (("pin", "pin_ms"), ("own config", "own_ms")):
        then = (objective.get(label.split()[0]) or {}).get("values") or []
        now = [getattr(shape, name) for shape in times.shapes]
        if len(then) != len(now) or None in now:
            return ""
        shown = ", ".join(f"{old:.4g} → {1e3 * new:.4g}" for old, new in zip(then, now, strict=True))
        sides.append(f"{label} {shown} us")
    return f"times since it was pinned, which decide nothing: {'; '.join(sides)}"
