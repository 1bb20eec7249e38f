"""Whether a kernel's outputs agree with the reference's: `compare`. The bounds are in tolerance.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .agreement_record import Agreement, OutputAgreement, Reason
from .tolerance import FP8_DTYPES, bounds, fp8_steps, rms

__all__ = ["Agreement", "OutputAgreement", "compare", "compare_named", "flat_outputs"]

Named = Sequence[tuple[str, Any]]

# output names in a message
_LISTED = 3


def compare(outputs: Any, reference: Any, exact: Any, *, tf32: bool = False) -> Agreement:
    """The agreement of a kernel's outputs, output by output.

    Each is a tensor, a number, None, or tuples, lists and dicts of those. `reference` is what PyTorch gives
    in the workload's own dtype, `exact` what it gives on inputs upcast to float64, or None where it cannot.
    Floats are judged by their error against `exact`, everything else must equal the reference. `tf32` says
    that the kernel's float32 products run in TF32. A NaN passes only where the reference has one too.
    """
    wanted = flat_outputs(reference)
    known = flat_outputs(exact) if exact is not None else [(name, None) for name, _ in wanted]
    if [name for name, _ in known] != [name for name, _ in wanted]:
        raise ValueError("exact outputs have another structure than the reference's")
    return compare_named(flat_outputs(outputs), wanted, [value for _, value in known], tf32=tf32)


def compare_named(found: Named, wanted: Named, exact: Sequence[Any], *, tf32: bool = False) -> Agreement:
    """`compare` for outputs that have their names already; `exact` is one value (or None) for each wanted."""
    if [name for name, _ in found] != [name for name, _ in wanted]:
        return Agreement((_miscounted(found, wanted),))
    triples = zip(found, wanted, exact, strict=True)
    return Agreement(
        tuple(_compare_one(name, value, plain, e, tf32) for (name, value), (_, plain), e in triples)
    )


def flat_outputs(outputs: Any) -> list[tuple[str, Any]]:
    """The leaves of what a kernel returned with their names: "output", "output 1", "output 1.scale".

    None is no output: a kernel that works in place returns it. Lists and tuples are the same.
    """
    leaves: list[tuple[str, Any]] = []

    def walk(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, list | tuple):
            for index, item in enumerate(value):
                walk(item, (*path, str(index)))
        elif isinstance(value, Mapping):
            for key in sorted(value, key=str):
                walk(value[key], (*path, str(key)))
        elif value is not None:
            leaves.append((f"output {'.'.join(path)}".strip(), value))

    walk(outputs, ())
    return leaves


@dataclass(frozen=True)
class _Judged:
    """Element by element: what is wrong, the error where it can be taken, and its bound."""

    wrong: torch.Tensor
    error: torch.Tensor
    tolerance: torch.Tensor
    size: float
    scale: torch.Tensor


def _compare_one(name: str, value: Any, reference: Any, exact: Any, tf32: bool) -> OutputAgreement:
    if not isinstance(reference, torch.Tensor) and not isinstance(value, torch.Tensor):
        return _compare_plain(name, value, reference, exact, tf32)
    if not (isinstance(reference, torch.Tensor) and isinstance(value, torch.Tensor)):
        kinds = f"a {type(value).__name__}, the reference gives a {type(reference).__name__}"
        return OutputAgreement(name, "dtype", detail=kinds)
    if value.shape != reference.shape:
        detail = f"shape {list(value.shape)}, the reference has {list(reference.shape)}"
        return OutputAgreement(name, "shape", detail=detail)
    if value.dtype != reference.dtype:
        return OutputAgreement(name, "dtype", detail=f"{value.dtype}, the reference has {reference.dtype}")
    if exact is not None and exact.shape != reference.shape:
        raise ValueError(f"exact {name} has shape {list(exact.shape)}, not {list(reference.shape)}")
    value, reference = value.detach(), reference.detach().to(value.device)
    exact = exact.detach().to(value.device) if exact is not None else None
    if value.is_complex():
        value, reference = _as_real(value), _as_real(reference)
        exact = _as_real(exact) if exact is not None else None
    if value.numel() == 0:
        return OutputAgreement(name)
    if not value.is_floating_point():
        return _compare_exactly(name, value, reference, exact)
    return _compare_floats(name, value, reference, exact, tf32)


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj())


def _compare_plain(name: str, value: Any, reference: Any, exact: Any, tf32: bool) -> OutputAgreement:
    if isinstance(value, float) and isinstance(reference, float):
        # a Python float that came out of a tensor has float32's precision at best
        single, plain = (torch.tensor(number, dtype=torch.float32) for number in (value, reference))
        precise = torch.tensor(float(exact), dtype=torch.float64) if exact is not None else None
        return _compare_floats(name, single, plain, precise, tf32)
    if type(value) is not type(reference):
        detail = f"a {type(value).__name__}, the reference gives a {type(reference).__name__}"
        return OutputAgreement(name, "dtype", detail=detail)
    if value == reference:
        return OutputAgreement(name)
    return OutputAgreement(name, "value", detail=f"{value!r}, the reference gives {reference!r}")


def _compare_exactly(
    name: str, value: torch.Tensor, reference: torch.Tensor, exact: torch.Tensor | None
) -> OutputAgreement:
    """Integers and bools: equal to the reference's, or to the exact ones (an index among rounded values)."""
    wrong = value != reference
    if exact is not None and not exact.is_floating_point():
        wrong &= value != exact
    # beyond 2^53 the difference is rounded, the verdict is not
    difference = (value.double() - reference.double()).abs()
    error = torch.where(wrong, difference, 0.0)
    scale = reference.double().abs()
    everywhere = torch.ones_like(wrong)
    judged = _Judged(wrong, error, torch.zeros_like(error), rms(scale, everywhere), scale)
    return _summary(name, judged, value, reference, "value" if bool(wrong.any()) else "ok")


def _compare_floats(
    name: str, value: torch.Tensor, reference: torch.Tensor, exact: torch.Tensor | None, tf32: bool
) -> OutputAgreement:
    c, r = value.double(), reference.double()
    e = r if exact is None else exact.double()
    dtype = value.dtype
    in_range = torch.isfinite(e) & (e.abs() <= torch.finfo(dtype).max)
    allowed = bounds(e, r, in_range, dtype, exact_known=exact is not None, tf32=tf32)
    error = (c - e).abs()
    within = error <= allowed.element
    if dtype in FP8_DTYPES:
        within = _within_a_step(value, reference, error, e)
    # an infinite exact value has an infinite bound
    within &= torch.isfinite(error)
    wrong = ~(within | _same_special(c, r, e, dtype))
    measured = in_range & torch.isfinite(c)
    judged = _Judged(wrong, torch.where(measured, error, 0.0), allowed.element, rms(e, in_range), e.abs())
    if bool(wrong.any()):
        odd = torch.isnan(c) | torch.isnan(e) | torch.isnan(r)
        return _summary(name, judged, value, e, "nan" if bool((wrong & odd).any()) else "value")
    error_rms = rms(error, measured)
    if error_rms > allowed.rms:
        return _summary(name, judged, value, e, "value", rms_of=(error_rms, allowed.rms))
    return _summary(name, judged, value, e, "ok")


def _within_a_step(
    value: torch.Tensor, reference: torch.Tensor, error: torch.Tensor, exact: torch.Tensor
) -> torch.Tensor:
    limits = torch.finfo(value.dtype)
    number = ~torch.isnan(value.float()) & ~torch.isnan(reference.float())
    rounded = error <= 0.5 * limits.eps * exact.abs() + limits.smallest_normal * limits.eps
    return (number & (fp8_steps(value, reference) <= 1)) | rounded


def _same_special(c: torch.Tensor, r: torch.Tensor, e: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where the candidate is right to be no finite number: as the reference, or beyond the dtype's range."""
    both_nan = torch.isnan(c) & (torch.isnan(r) | torch.isnan(e))
    limits = torch.finfo(dtype)
    beyond = e.abs() > limits.max * (1 - limits.eps)
    overflowed = beyond & torch.isinf(c) & (torch.sign(c) == torch.sign(e))
    as_reference = (c == r) & (beyond | torch.isinf(r))
    return both_nan | overflowed | as_reference


def _summary(
    name: str,
    judged: _Judged,
    value: torch.Tensor,
    expected: torch.Tensor,
    reason: Reason,
    rms_of: tuple[float, float] | None = None,
) -> OutputAgreement:
    share = judged.error / judged.tolerance.clamp(min=torch.finfo(torch.float64).tiny)
    # a wrong element whose error cannot be taken (NaN, infinity) is the worst of all
    share = torch.where(judged.wrong & (judged.error == 0), math.inf, share.nan_to_num(nan=0.0))
    if bool(judged.wrong.any()):
        share = torch.where(judged.wrong, share, -1.0)
    flat = int(share.argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), value.shape))
    relative = judged.error / judged.scale.clamp(min=max(judged.size, torch.finfo(torch.float64).tiny))
    detail = ""
    if rms_of is not None:
        detail = f"rms error {rms_of[0]:.3g}, {rms_of[1]:.3g} allowed over the whole output"
    elif reason != "ok":
        got, wanted = value.flatten()[flat].item(), expected.flatten()[flat].item()
        count = int(judged.wrong.sum())
        detail = (
            f"{got:.6g} instead of {wanted:.6g} at {list(index)}, {count} of {value.numel()} elements wrong"
        )
    return OutputAgreement(
        name=name,
        reason=reason,
        max_abs_error=float(judged.error.max()),
        max_rel_error=float(relative.nan_to_num(nan=0.0).max()),
        tolerance=float(judged.tolerance.flatten()[flat].nan_to_num(nan=0.0)),
        worst_index=index,
        detail=detail,
    )


def _miscounted(found: Named, wanted: Named) -> OutputAgreement:
    kernel, reference = _returned(found), _returned(wanted)
    if len(kernel) == len(reference):
        # dicts with other keys, tuples of another nesting
        sides = [_listed(kernel, reference), _listed(reference, kernel)]
    else:
        sides = [_counted(kernel), str(len(reference)) if kernel and reference else _counted(reference)]
    detail = f"the kernel returns {sides[0]}, the reference {sides[1]}"
    return OutputAgreement("outputs", "count", detail=detail)


def _returned(named: Named) -> list[str]:
    return [name for name, _ in named if not name.startswith("argument ")]


def _counted(names: list[str]) -> str:
    return f"{len(names)} output{'s' * (len(names) > 1)}" if names else "nothing"


def _listed(names: list[str], others: list[str]) -> str:
    """The first few of `names` that `others` lacks; all where it lacks none."""
    own = [name for name in names if name not in others] or names
    return ", ".join(own[:_LISTED]) + (", …" if len(own) > _LISTED else "")
