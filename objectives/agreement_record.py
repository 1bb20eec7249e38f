"""What a comparison of a kernel's outputs with the reference's came to: plain data, no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Reason = Literal["ok", "count", "shape", "dtype", "nan", "value"]
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class OutputAgreement:
    """One output against the reference.

    Errors are against the exact value, over the elements that are finite in both. `max_rel_error` is relative
    to the larger of the exact element and the output's root mean square: near zero a plain relative error
    says nothing. `tolerance` is the absolute bound at `worst_index`, the element that used most of its bound.
    """

    name: str
    reason: Reason = "ok"
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    tolerance: float = 0.0
    worst_index: tuple[int, ...] = ()
    detail: str = ""

    @property
    def agrees(self) -> bool:
        """Whether this output passes."""
        return self.reason == "ok"

    def line(self) -> str:
        """One line: which output, what is wrong with it, and where; for one that passes, its errors."""
        if self.agrees:
            return (
                f"{self.name}: max abs error {self.max_abs_error:.3g}, max rel error {self.max_rel_error:.3g}"
            )
        return self.detail if self.reason == "count" else f"{self.name}: {self.detail}"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; numbers that JSON lacks as text."""
        return {
            "name": self.name,
            "reason": self.reason,
            "max_abs_error": _encoded(self.max_abs_error),
            "max_rel_error": _encoded(self.max_rel_error),
            "tolerance": _encoded(self.tolerance),
            "worst_index": list(self.worst_index),
            "detail": self.detail,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> OutputAgreement:
        """The record that `to_json` wrote; ValueError or KeyError for anything else."""
        if record["reason"] not in REASONS:
            raise ValueError(f"unknown reason {record['reason']!r}")
        return cls(
            name=str(record["name"]),
            reason=record["reason"],
            max_abs_error=float(record["max_abs_error"]),
            max_rel_error=float(record["max_rel_error"]),
            tolerance=float(record["tolerance"]),
            worst_index=tuple(int(i) for i in record["worst_index"]),
            detail=str(record["detail"]),
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """All outputs of one call against the reference's."""

    outputs: tuple[OutputAgreement, ...]

    @property
    def agrees(self) -> bool:
        """Whether every output passes."""
        return all(output.agrees for output in self.outputs)

    @property
    def worst(self) -> OutputAgreement | None:
        """The first output that fails, else the one with the largest relative error; None without outputs."""
        failed = next((output for output in self.outputs if not output.agrees), None)
        return failed or max(self.outputs, key=lambda output: output.max_rel_error, default=None)

    @property
    def max_abs_error(self) -> float:
        """The largest absolute error of any output."""
        return max((output.max_abs_error for output in self.outputs), default=0.0)

    @property
    def max_rel_error(self) -> float:
        """The largest relative error of any output; see `OutputAgreement` for relative to what."""
        return max((output.max_rel_error for output in self.outputs), default=0.0)


def _encoded(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)
