"""What one compiled kernel launch is, as a run's records keep it: plain numbers and hashes, no code."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .json_fields import finite, integer, integers, items, number, text

_TUPLES = ("grid", "underived")
_PAIRS = ("histogram", "weights")


@dataclass(frozen=True, slots=True)
class Artifact:
    """One kernel launch of a candidate, compiled for one target.

    `registers`, `stack_bytes` and the spill bytes are per thread; `shared_bytes` per block, static and
    dynamic as launched; `instructions` counts the code. `histogram` pairs source lines with their machine
    instructions, `weights` with how often one of these runs in a block, in the mean
    (objectives/line_weights.py); `imbalance` is the heaviest block's work over the mean; `underived` the
    lines of loops of unknown length, taken as one iteration. `compile_s` is the time that ptxas took, in
    seconds.
    """

    ptx_sha256: str
    code_sha256: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    instructions: int
    num_warps: int
    grid: tuple[int, ...]
    histogram: tuple[tuple[int, int], ...]
    weights: tuple[tuple[int, float], ...]
    imbalance: float
    underived: tuple[int, ...]
    compile_s: float

    @property
    def spill_bytes(self) -> int:
        """Bytes a thread stores and loads because it ran out of registers."""
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def blocks(self) -> int:
        """Blocks launched."""
        return math.prod(self.grid)

    @property
    def executed(self) -> float:
        """Instructions that one warp executes, in the mean over blocks."""
        weights = dict(self.weights)
        return sum(count * weights.get(line, 1.0) for line, count in self.histogram)

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        fields = asdict(self)
        fields.update({name: list(fields[name]) for name in _TUPLES})
        fields.update({name: [list(pair) for pair in fields[name]] for name in _PAIRS})
        return fields

    @classmethod
    def from_json(cls, fields: Any) -> Artifact:
        """The record that `to_json` gave, fields that this version does not know passed over.

        Raises ValueError with the field that is missing or of another type.
        """
        return cls(
            ptx_sha256=text(fields, "ptx_sha256"),
            code_sha256=text(fields, "code_sha256"),
            registers=integer(fields, "registers"),
            stack_bytes=integer(fields, "stack_bytes"),
            spill_store_bytes=integer(fields, "spill_store_bytes"),
            spill_load_bytes=integer(fields, "spill_load_bytes"),
            shared_bytes=integer(fields, "shared_bytes"),
            instructions=integer(fields, "instructions"),
            num_warps=integer(fields, "num_warps"),
            grid=integers(fields, "grid"),
            histogram=tuple((line, int(count)) for line, count in _pairs(fields, "histogram")),
            weights=_pairs(fields, "weights"),
            imbalance=number(fields, "imbalance"),
            underived=integers(fields, "underived"),
            compile_s=number(fields, "compile_s"),
        )


def _pairs(fields: Any, key: str) -> tuple[tuple[int, float], ...]:
    """[source line, number] of each pair of the list."""
    pairs = items(fields, key)
    if not all(type(pair) is list and len(pair) == 2 and type(pair[0]) is int for pair in pairs):
        raise ValueError(f"{key}: not a list of [line, number]")
    return tuple((line, finite(value, key)) for line, value in pairs)
