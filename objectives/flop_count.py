"""Floating-point operations of one call, by the dtype of the numbers that are multiplied. Plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helitune.search.dtypes import DTYPES, tensor_bytes
from helitune.search.workload import Shape, TensorArg

from .json_fields import integer


@dataclass(frozen=True, slots=True)
class FlopCount:
    """FLOPs of one call; a multiply-add is two. `by_dtype` is keyed by the short names of search/dtypes.py.

    Only matrix products, convolutions and attention count: what goes at a GEMM's rate. A softmax has none.
    """

    by_dtype: Mapping[str, int]

    @property
    def total(self) -> int:
        """FLOPs of all dtypes together."""
        return sum(self.by_dtype.values())

    def to_json(self) -> dict[str, Any]:
        """The count in JSON's types, {"bf16": 137438953472}."""
        return dict(self.by_dtype)

    @classmethod
    def from_json(cls, record: Any) -> FlopCount:
        """The count that `to_json` gave; ValueError with what is wrong for anything else."""
        if not isinstance(record, dict):
            raise ValueError("FLOPs by dtype are an object")
        by_dtype = {str(dtype): integer(record, dtype) for dtype in record}
        for dtype, count in by_dtype.items():
            if dtype not in DTYPES or count < 0:
                raise ValueError(f"{dtype!r}: {count} are no FLOPs of a dtype")
        return cls(by_dtype)


def stated_flops(total: int, derived: FlopCount | None, shape: Shape) -> FlopCount:
    """A number of FLOPs that somebody stated, as FLOPs of the dtype that the kernel most likely multiplies.

    That is the dtype of most of the derived FLOPs; where none were derived, that of the largest float tensor
    of the call, and f32 where the call has none.
    """
    if derived is not None and derived.total:
        dtype = max(derived.by_dtype, key=lambda name: derived.by_dtype[name])
    else:
        floats = [arg for arg in shape if isinstance(arg, TensorArg) and DTYPES[arg.dtype].kind == "float"]
        dtype = max(floats, key=tensor_bytes).dtype if floats else "f32"
    return FlopCount({dtype: total})
