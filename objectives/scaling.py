"""Smaller shapes of the same kind, so that a kernel's source can be checked on a CPU in seconds.

Every dimension above 128 that the factor divides is divided by it, so that relations between dimensions (2·i,
b·s) survive; small dimensions, often tile or head sizes, stay. Plain data, no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from helitune.search.dtypes import DTYPES, contiguous_strides
from helitune.search.workload import Argument, ScalarArg, Shape, TensorArg

LARGEST_KEPT = 128
"""Dimensions up to this stay as they are."""

SMALLEST_SCALED = 64
"""No dimension is scaled below this."""

LIMIT_ELEMENTS = 2**20
"""Elements of all arguments together that a check aims at."""


def scaled_dim(dim: int, factor: int) -> int:
    """`dim` divided by `factor` where it is large and divisible, else `dim`."""
    return dim // factor if dim > LARGEST_KEPT and dim % factor == 0 else dim


def scaled_shapes(shape: Shape, factor: int) -> Shape:
    """The arguments of one call, smaller by `factor` in every large dimension.

    Integer scalars and constants that equal a scaled dimension, and limits of integer values, go with it.
    """
    if factor == 1:
        return shape
    scaled = _scaled_dims(shape, factor)
    return tuple(_scaled_argument(arg, factor, scaled) for arg in shape)


def factors(shape: Shape, limit_elements: int = LIMIT_ELEMENTS) -> list[int]:
    """Powers of two to try, from the one that brings all arguments below the limit down to 1.

    It is smaller where a dimension would fall below 64.
    """
    largest = 1
    while elements(scaled_shapes(shape, largest)) > limit_elements and _may_double(shape, largest):
        largest *= 2
    return [2**power for power in range(largest.bit_length() - 1, -1, -1)]


def elements(shape: Shape) -> int:
    """Elements of all tensor arguments together."""
    return sum(math.prod(arg.shape) for arg in shape if isinstance(arg, TensorArg))


def scaled_strides(dims: Sequence[int], strides: Sequence[int], smaller: Sequence[int]) -> tuple[int, ...]:
    """Strides for the `smaller` sizes in the same layout: order, expansion, and padding in proportion."""
    if tuple(strides) == contiguous_strides(tuple(dims)):
        return contiguous_strides(tuple(smaller))
    scaled = list(strides)
    span, scaled_span = 1, 1
    for stride, index in sorted((stride, i) for i, stride in enumerate(strides) if stride):
        # stride over span is 1 in a dense tensor, above it with padding
        scaled[index] = max(1, math.ceil(stride * scaled_span / span))
        span = max(span, stride * dims[index])
        scaled_span = max(scaled_span, scaled[index] * smaller[index])
    return tuple(scaled)


def _may_double(shape: Shape, factor: int) -> bool:
    dims = {dim for arg in shape if isinstance(arg, TensorArg) for dim in arg.shape if dim > LARGEST_KEPT}
    divisible = [dim for dim in dims if dim % (2 * factor) == 0]
    return bool(divisible) and all(dim // (2 * factor) >= SMALLEST_SCALED for dim in divisible)


def _scaled_dims(shape: Shape, factor: int) -> dict[int, int]:
    dims = {dim for arg in shape if isinstance(arg, TensorArg) for dim in arg.shape}
    return {dim: scaled_dim(dim, factor) for dim in dims if scaled_dim(dim, factor) != dim}


def _scaled_argument(arg: Argument, factor: int, scaled: dict[int, int]) -> Argument:
    if isinstance(arg, ScalarArg):
        integer = isinstance(arg.value, int) and not isinstance(arg.value, bool)
        return ScalarArg(scaled.get(arg.value, arg.value)) if integer else arg  # type: ignore[arg-type]
    smaller = tuple(scaled.get(dim, dim) for dim in arg.shape)
    strides = scaled_strides(arg.shape, arg.strides, smaller)
    return TensorArg(arg.dtype, smaller, strides, _scaled_values(arg, factor, scaled))


def _scaled_values(arg: TensorArg, factor: int, scaled: dict[int, int]) -> str:
    """Values that were indices into a scaled dimension, kept inside it; any large limit may be one."""
    if DTYPES[arg.dtype].kind not in ("int", "uint"):
        return arg.values
    if arg.values.startswith("="):
        constant = int(arg.values[1:])
        return f"={scaled.get(constant, constant)}"
    if arg.values.startswith("<"):
        return f"<{_scaled_limit(int(arg.values[1:]), factor)}"
    if ".." in arg.values:
        low, high = map(int, arg.values.split("..", 1))
        smaller = _scaled_limit(high, factor)
        return f"{low}..{smaller}" if low < smaller else arg.values
    return arg.values


def _scaled_limit(limit: int, factor: int) -> int:
    return limit // factor if limit > LARGEST_KEPT else limit
