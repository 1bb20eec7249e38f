"""Sets of inputs that launches go round, so that none finds its inputs in the L2 cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helitune.objectives.agreement import flat_outputs

COLD_FACTOR = 3.0
"""Inputs together are at least this many times the L2: by the time a set comes round again it was evicted."""

MOST_SETS = 128
MEMORY_SHARE = 0.4


class Rotation:
    """Argument lists for one shape; one list where inputs shall stay warm.

    `make(draw)` makes the arguments of one draw, `mutated` says which of them the kernel changes.
    """

    def __init__(self, make: Callable[[int], list[Any]], mutated: frozenset[int], *, cold: bool) -> None:
        first = make(0)
        self.set_bytes = _bytes(first)
        count = _sets(self.set_bytes) if cold else 1
        self.sets = [first, *(_copied(first) for _ in range(count - 1))]
        self.cold = cold and count > 1 and count * self.set_bytes >= 2 * _l2_bytes()
        self._kept = [
            (tensor, tensor.clone()) for one in self.sets for i in mutated for tensor in _tensors(one[i])
        ]

    @property
    def mutated_bytes(self) -> int:
        """Bytes of one set's arguments that the kernel changes."""
        kept_bytes: int = sum(kept.numel() * kept.element_size() for _, kept in self._kept)
        return kept_bytes // len(self.sets)

    def restore(self) -> None:
        """Put back what launches have changed, so that no block starts from the last one's results."""
        for tensor, kept in self._kept:
            tensor.copy_(kept)


def _sets(set_bytes: int) -> int:
    """How many sets make the inputs cold, as far as memory allows."""
    free, _ = torch.cuda.mem_get_info()
    affordable = int(free * MEMORY_SHARE // max(set_bytes, 1))
    wanted = int(COLD_FACTOR * _l2_bytes() // max(set_bytes, 1)) + 1
    return max(1, min(max(wanted, 2), affordable, MOST_SETS))


def _l2_bytes() -> int:
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size)


def _copied(arguments: list[Any]) -> list[Any]:
    """The same values in other memory: times that depend on values stay comparable from set to set."""
    from helitune.objectives.inputs_function import map_tensors
    from helitune.objectives.outputs import copied

    copies: list[Any] = map_tensors(arguments, copied)
    return copies


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for _, leaf in flat_outputs([value]) if isinstance(leaf, torch.Tensor)]


def _bytes(arguments: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(arguments))
