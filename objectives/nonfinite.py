"""When a disagreement counts: special values may lead the reference itself out of the finite numbers."""

from __future__ import annotations

import torch

from .agreement import flat_outputs
from .check_rounds import Round
from .outputs import Expected, Outputs


def fails(plan: Round, outputs: Outputs, expected: Expected) -> bool:
    """Whether outputs that disagree with `expected` in the round `plan` are a failure, not a note.

    Where the reference is not finite everywhere, only a NaN or infinity where it has a number is.
    """
    if plan.ordinary or (plan.strict and all_finite(expected)):
        return True
    return adds_nonfinite(outputs, expected)


def _pairs(outputs: Outputs, other: Outputs) -> list[tuple[torch.Tensor, torch.Tensor]]:
    leaves = zip(
        flat_outputs([outputs.returned, outputs.arguments]),
        flat_outputs([other.returned, other.arguments]),
        strict=False,
    )
    tensors = [(left, right) for (_, left), (_, right) in leaves if isinstance(left, torch.Tensor)]
    return [(left, right) for left, right in tensors if isinstance(right, torch.Tensor)]


def all_finite(expected: Expected) -> bool:
    """Whether the reference, plain and exact, has numbers everywhere."""
    precise = expected.exact or expected.reference
    pairs = _pairs(expected.reference, precise)
    return all(bool((_finite(left) & _finite(right)).all()) for left, right in pairs)


def adds_nonfinite(outputs: Outputs, expected: Expected) -> bool:
    """Whether the kernel gives NaN or infinity where the reference, plain and exact, has a number."""
    precise = expected.exact or expected.reference
    triples = zip(_pairs(outputs, expected.reference), _pairs(outputs, precise), strict=False)
    return any(
        bool((~_finite(found) & _finite(plain) & _finite(exact)).any())
        for (found, plain), (_, exact) in triples
        if found.shape == plain.shape == exact.shape
    )


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    # fp8 has no isfinite of its own
    return torch.isfinite(tensor.float() if tensor.is_floating_point() else tensor)
