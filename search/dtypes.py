"""The element types a tensor argument may have, by short name, and the bytes a tensor argument addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .workload import TensorArg

Kind = Literal["float", "int", "uint", "bool", "opaque"]


@dataclass(frozen=True, slots=True)
class DType:
    """Size of one element in bits, and what kind of number it is.

    An "opaque" element can be passed on when the kernel file makes it, but has no value kinds of its own.
    """

    bits: int
    kind: Kind

    def integer_range(self) -> tuple[int, int]:
        """The smallest and the largest integer, both included; only for "int", "uint" and "bool"."""
        if self.kind == "bool":
            return 0, 1
        if self.kind == "uint":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


DTYPES: dict[str, DType] = {
    "f16": DType(16, "float"),
    "bf16": DType(16, "float"),
    "f32": DType(32, "float"),
    "f64": DType(64, "float"),
    "f8e4m3": DType(8, "float"),
    "f8e5m2": DType(8, "float"),
    "i8": DType(8, "int"),
    "i16": DType(16, "int"),
    "i32": DType(32, "int"),
    "i64": DType(64, "int"),
    "u8": DType(8, "uint"),
    "u16": DType(16, "uint"),
    "u32": DType(32, "uint"),
    "u64": DType(64, "uint"),
    "bool": DType(8, "bool"),
    "c64": DType(64, "opaque"),
    "c128": DType(128, "opaque"),
    "f8e8m0": DType(8, "opaque"),
    "f4e2m1x2": DType(8, "opaque"),
}

LONG_NAMES: dict[str, tuple[str, ...]] = {
    "f16": ("float16", "half", "fp16"),
    "bf16": ("bfloat16",),
    "f32": ("float32", "float", "fp32"),
    "f64": ("float64", "double", "fp64"),
    "f8e4m3": ("float8_e4m3fn", "float8_e4m3", "fp8_e4m3", "fp8e4m3", "fp8", "f8"),
    "f8e5m2": ("float8_e5m2", "fp8_e5m2", "fp8e5m2"),
    "i8": ("int8",),
    "i16": ("int16", "short"),
    "i32": ("int32", "int"),
    "i64": ("int64", "long"),
    "u8": ("uint8", "byte"),
    "u16": ("uint16",),
    "u32": ("uint32",),
    "u64": ("uint64",),
    "c64": ("complex64",),
    "c128": ("complex128",),
    "f8e8m0": ("float8_e8m0fnu",),
    "f4e2m1x2": ("float4_e2m1fn_x2",),
}
_SHORT_NAMES = {long: short for short, names in LONG_NAMES.items() for long in names} | {n: n for n in DTYPES}


def short_dtype(name: str) -> str | None:
    """The short name ("f16") of a dtype in any spelling ("torch.float16", "half"), or None if unknown."""
    return _SHORT_NAMES.get(name.lower().removeprefix("torch."))


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a row-major tensor, as torch.empty gives them."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def storage_elements(arg: TensorArg) -> int:
    """Elements from the first to the last one addressed, holes included."""
    if 0 in arg.shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.strides, strict=True))


def tensor_bytes(arg: TensorArg) -> int:
    """Bytes of the distinct elements that the tensor addresses; what is read when each is read once.

    An expanded dimension (stride 0) counts once. Exact unless a dimension overlaps one that has holes, where
    the storage it spans is an upper bound.
    """
    return distinct_elements(arg) * DTYPES[arg.dtype].bits // 8


def distinct_elements(arg: TensorArg) -> int:
    """How many different elements the indices address; where it is only a bound: see `tensor_bytes`."""
    count = span = 1
    by_stride = sorted(zip(arg.strides, arg.shape, strict=True))
    if 0 in arg.shape:
        return 0
    for stride, size in by_stride:
        if stride == 0 or size == 1:
            continue
        inside, span = span, span + (size - 1) * stride
        count = count * size if stride >= inside else min(count * size, span)
    return count
