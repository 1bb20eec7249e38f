"""The rounds of a check: which values the arguments take, how the kernel runs, and what counts as a failure.

Values outside the ordinary find what ordinary ones hide: a softmax that forgets its maximum is right until
exp overflows, a missing eps matters only for small rows. Where the reference itself leaves the finite numbers
such a round only advises: the values may be outside what the kernel is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from helitune.search.workload import Shape, TensorArg

from .inputs_function import map_tensors

LARGE = 64.0
SMALL = 1e-3
# what is multiplied must leave room for sums of some elements
_HEADROOM = 4.0

Change = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Round:
    """One run of kernel and reference.

    `draw` numbers the values, `change` alters the float arguments, `split` runs every tile in halves,
    `strict` means that any disagreement fails; else only a NaN or infinity where the reference has a number.
    """

    name: str
    draw: int = 0
    change: Change | None = None
    split: bool = False
    strict: bool = True

    @property
    def ordinary(self) -> bool:
        """Whether the values are the declared ones and the kernel runs as Helion's interpreter runs it."""
        return self.change is None and not self.split


def rounds(seeds: int, *, alterable: bool) -> list[Round]:
    """The rounds of one shape: ordinary values, tiles in halves, then special values if any may change."""
    ordinary = [Round(f"values {draw}", draw) for draw in range(seeds)]
    split = [Round("tiles in halves", split=True)]
    if not alterable:
        return ordinary + split
    special = [
        Round("zeros", change=torch.zeros_like),
        Round("large values", change=lambda tensor: _scaled(tensor, LARGE)),
        Round("small values", change=lambda tensor: _scaled(tensor, SMALL)),
        Round("NaN and infinity", change=_planted, strict=False),
    ]
    return ordinary + split + special


def is_alterable(shape: Shape, arguments: Sequence[Any]) -> bool:
    """Whether special values may be put into any argument."""
    return any(_alterable_at(shape, i) and _has_floats(value) for i, value in enumerate(arguments))


def altered(shape: Shape, arguments: Sequence[Any], change: Change) -> list[Any]:
    """The arguments with `change` made to float tensors, except those whose values the workload limits."""

    def change_floats(tensor: torch.Tensor) -> torch.Tensor:
        return change(tensor) if tensor.is_floating_point() and tensor.numel() else tensor

    changed = map_tensors(list(arguments), change_floats)
    return [changed[i] if _alterable_at(shape, i) else value for i, value in enumerate(arguments)]


def _alterable_at(shape: Shape, index: int) -> bool:
    arg = shape[index] if index < len(shape) else None
    return not isinstance(arg, TensorArg) or arg.values in ("normal", "given")


def _has_floats(value: Any) -> bool:
    found: list[bool] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor.is_floating_point() and tensor.numel() > 0)
        return tensor

    map_tensors(value, note)
    return any(found)


def _scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor times `factor`, or as it is where that would overflow."""
    product = tensor.double() * factor
    fits = bool((product.abs() <= torch.finfo(tensor.dtype).max / _HEADROOM).all())
    return product.to(tensor.dtype) if fits else tensor


def _planted(tensor: torch.Tensor) -> torch.Tensor:
    planted = tensor.clone()
    planted[(-1,) * tensor.ndim] = float("inf")
    planted[(0,) * tensor.ndim] = float("nan")
    return planted
