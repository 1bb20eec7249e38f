"""Call a kernel or a reference on copies of its arguments, and get everything that it wrote.

An argument that is changed in place is an output like the returned ones, and is compared under its own name.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .agreement import compare_named, flat_outputs
from .agreement_record import Agreement
from .inputs_function import map_tensors

UPCASTS = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Outputs:
    """What one call returned, and its arguments as the call left them."""

    returned: Any
    arguments: list[Any]
    mutated: frozenset[int]


@dataclass(frozen=True)
class Expected:
    """What the reference gives in the workload's own dtype, and on upcast inputs (None where it cannot)."""

    reference: Outputs
    exact: Outputs | None


def call_on_copies(function: Callable[..., Any], arguments: Sequence[Any]) -> Outputs:
    """The outputs of one call; `arguments` stay as they are."""
    arguments = map_tensors(list(arguments), torch.Tensor.detach)
    copies = map_tensors(arguments, copied)
    with torch.no_grad():
        returned = function(*copies)
    changed = (i for i, (old, new) in enumerate(zip(arguments, copies, strict=True)) if not _same(old, new))
    return Outputs(returned, copies, frozenset(changed))


def expected_outputs(reference: Callable[..., Any], arguments: Sequence[Any]) -> Expected:
    """The reference's outputs, plain and exact; whatever the plain call raises passes through.

    Exact means float64 inputs, float32 where the reference cannot take those (a fixed dtype inside), or None.
    """
    plain = call_on_copies(reference, arguments)
    for dtype in UPCASTS:
        upcast = map_tensors(list(arguments), functools.partial(_upcast, dtype=dtype))
        # what goes wrong here is that the reference does not take this dtype: anything, in user code
        with contextlib.suppress(Exception):
            exact = call_on_copies(reference, upcast)
            if _fits(exact, plain):
                return Expected(plain, exact)
    return Expected(plain, None)


def compare_outputs(
    outputs: Outputs, expected: Expected, names: Sequence[str], *, tf32: bool = False
) -> Agreement:
    """The agreement of what was returned and of every argument that the kernel or the reference changed.

    `names` are the kernel's parameters. A kernel that returns nothing and fills arguments which the reference
    leaves alone is judged by what the reference returns, in order.
    """
    plain, exact = expected.reference, expected.exact
    filled = sorted(outputs.mutated - plain.mutated)
    fills = not flat_outputs(outputs.returned) and 0 < len(filled) == len(flat_outputs(plain.returned))
    mutated = sorted(plain.mutated if fills else plain.mutated | outputs.mutated)
    found = [] if fills else flat_outputs(outputs.returned)
    wanted = [] if fills else flat_outputs(plain.returned)
    known = flat_outputs((exact or plain).returned)
    if fills:
        labels = [_argument_name(names, i) for i in filled]
        found = [(label, outputs.arguments[i]) for label, i in zip(labels, filled, strict=True)]
        wanted = [(label, v) for label, (_, v) in zip(labels, flat_outputs(plain.returned), strict=True)]
    for i in mutated:
        found += _argument(names, i, outputs)
        wanted += _argument(names, i, plain)
        known += _argument(names, i, exact or plain)
    return compare_named(found, wanted, [value if exact else None for _, value in known], tf32=tf32)


def _argument(names: Sequence[str], index: int, outputs: Outputs) -> list[tuple[str, Any]]:
    name = _argument_name(names, index)
    leaves = flat_outputs(outputs.arguments[index])
    return [(leaf.replace("output", name, 1), value) for leaf, value in leaves]


def _argument_name(names: Sequence[str], index: int) -> str:
    return f"argument {names[index] if index < len(names) else index} (mutated)"


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of `tensor` with its strides, where they can be written."""
    if tensor.layout is not torch.strided or 0 in tensor.stride():
        return tensor.clone()
    try:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        ).copy_(tensor)
    except RuntimeError:
        # windows that overlap cannot be written: a dense copy holds the same values
        return tensor.clone(memory_format=torch.contiguous_format)


def _upcast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    wider = tensor.is_floating_point() and tensor.dtype.itemsize < dtype.itemsize
    return tensor.to(dtype) if wider else tensor


def _fits(exact: Outputs, plain: Outputs) -> bool:
    """Whether both calls gave the same outputs in the same shapes."""
    pairs = list(zip(_shapes(exact), _shapes(plain), strict=False))
    return len(_shapes(exact)) == len(_shapes(plain)) and all(left == right for left, right in pairs)


def _shapes(outputs: Outputs) -> list[tuple[str, Any]]:
    leaves = flat_outputs([outputs.returned, outputs.arguments])
    return [(name, tuple(getattr(value, "shape", ()))) for name, value in leaves]


def _same(old: Any, new: Any) -> bool:
    pairs = zip(flat_outputs(old), flat_outputs(new), strict=True)
    return all(_same_bits(left, right) for (_, left), (_, right) in pairs if isinstance(left, torch.Tensor))


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape:
        return False
    bits = [tensor.reshape(-1).contiguous().view(torch.uint8) for tensor in (left, right)]
    return bool(torch.equal(*bits))
