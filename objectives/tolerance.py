"""How far an output may be from the exact value before it counts as wrong.

e is the exact value (the reference on inputs upcast to float64), r what PyTorch gives in the workload's own
dtype, c the candidate, eps the spacing of the output's dtype at 1, rms the root mean square over the output.
A candidate passes if both hold:

    each element   |c - e| <= 2 eps |e| + 6 rms'(r - e) + (eps + 128 eps32) rms'(e) + one subnormal
    the whole      rms(c - e) <= 3 rms(r - e) + ((0.75 + 2/sqrt(n)) eps + 16 eps32) rms(e) + one subnormal

Why these numbers, for f16 and bf16: rounding once to the output's dtype costs at most eps/2 per element and
about 0.21 eps as an rms; PyTorch's own r pays the same. A kernel that also rounds an intermediate
(attention's weights to bf16 before the second product) adds about 0.3 eps rms, and 5 standard deviations of
that for the worst of a million elements is 1.5 eps of the output's rms. Hence the element bound, about 4.3 eps
at an element of typical size: 3.3 % in bf16, 0.4 % in f16. The rms of errors averages: 1.4 eps over the whole
output, so that a shift of everything by 2 eps is seen although each element would pass.
eps32 = 2^-23 pays for summation in another order: with 4096 terms one after the other, rms 10 and worst
84 eps32 of the output's rms (blocked sums: 2 and 11). Half dtypes do not notice it. f64 has eps64 there.

The bounds grow with rms(r - e) because what PyTorch itself cannot compute in that dtype cannot be asked of a
kernel; they do not hide zeros: an output of zeros has rms(c - e) = rms(e), which passes only where the
reference itself is wrong by more than a third, whatever the output's magnitude. `one subnormal` is the
dtype's smallest step: 6e-8 in f16. rms' is that of the element's row (the last dimension) where that is
larger: a row of attention that looks at few keys has larger values and larger errors than the others.

fp8: one step from r, since a reference hard-codes the cast and r may equal e; the rms bound has 0.25 eps, so
about one element in eight may be a step off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

TF32_EPS = 2.0**-10
"""The spacing of TensorFloat-32 at 1: what a float32 product has on tensor cores."""

FP8_DTYPES = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
)

_ELEMENT_EPS = 2.0
_ELEMENT_REFERENCE = 6.0
_ELEMENT_RMS_EPS = 1.0
_ELEMENT_SUM_EPS = 128.0
_NORM_REFERENCE = 3.0
_NORM_EPS = 0.75
_NORM_FP8_EPS = 0.25
_NORM_FEW_EPS = 2.0
_NORM_SUM_EPS = 16.0
# without an exact value c and r are both off, each by its own rounding
_TWO_ROUNDINGS = 2.0


@dataclass(frozen=True)
class Bounds:
    """What an output may be off: `element`, absolute bounds in float64, and `rms` over everything."""

    element: Any
    rms: float


def bounds(
    exact: torch.Tensor,
    reference: torch.Tensor,
    in_range: torch.Tensor,
    dtype: torch.dtype,
    *,
    exact_known: bool,
    tf32: bool,
) -> Bounds:
    """The bounds for an output of `dtype`, from its exact and reference values in float64.

    `in_range` marks the elements whose exact value is finite in `dtype`. `tf32` says that float32 products
    ran in TF32.
    """
    limits = torch.finfo(dtype)
    eps = max(limits.eps, TF32_EPS) if tf32 and dtype is torch.float32 else limits.eps
    eps *= 1.0 if exact_known else _TWO_ROUNDINGS
    sum_eps = torch.finfo(torch.float64 if dtype is torch.float64 else torch.float32).eps
    subnormal = limits.smallest_normal * limits.eps
    comparable = in_range & torch.isfinite(reference)
    reference_rms = rms(reference - exact, comparable)
    size = rms(exact, in_range)
    count = max(int(in_range.sum()), 1)
    norm_eps = (_NORM_FP8_EPS if dtype in FP8_DTYPES else _NORM_EPS) + _NORM_FEW_EPS / count**0.5
    floor = _ELEMENT_REFERENCE * _row_rms(reference - exact, comparable).clamp(min=reference_rms) + subnormal
    floor += (_ELEMENT_RMS_EPS * eps + _ELEMENT_SUM_EPS * sum_eps) * _row_rms(exact, in_range).clamp(min=size)
    # for fp8 this is what is reported; fp8_steps decides
    element = eps * exact.abs() if dtype in FP8_DTYPES else _ELEMENT_EPS * eps * exact.abs() + floor
    return Bounds(
        element=element,
        rms=_NORM_REFERENCE * reference_rms + (norm_eps * eps + _NORM_SUM_EPS * sum_eps) * size + subnormal,
    )


def rms(values: torch.Tensor, usable: torch.Tensor) -> float:
    """The root mean square of the usable elements; 0 where there are none."""
    selected = torch.where(usable, values, 0.0)
    count = int(usable.sum())
    # scaled by the largest, so that squares neither overflow nor vanish
    largest = float(selected.abs().max()) if count else 0.0
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(float((selected / largest).square().sum()) / count)


def _row_rms(values: torch.Tensor, usable: torch.Tensor) -> torch.Tensor:
    """The root mean square over the last dimension, kept as a dimension of 1."""
    if values.ndim == 0:
        return torch.where(usable, values.abs(), 0.0)
    selected = torch.where(usable, values, 0.0)
    count = usable.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.linalg.vector_norm(selected, dim=-1, keepdim=True) / count.sqrt()


def fp8_steps(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """How many representable values lie from `left` to `right`, two tensors of the same fp8 dtype."""
    return (_ordinals(left) - _ordinals(right)).abs()


def _ordinals(values: torch.Tensor) -> torch.Tensor:
    bits = values.contiguous().view(torch.uint8).to(torch.int16)
    # sign and magnitude: both zeros are 0
    return torch.where(bits >= 128, 128 - bits, bits)
