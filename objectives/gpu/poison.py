"""Fresh memory filled with a pattern, so that what a kernel does not write cannot pass for a result.

The allocator hands out the memory of the last run, where the right answer may still lie.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ALLOCATES = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_"}
)
PATTERNS = (0xFF, 0x7B)
"""All ones is NaN in every float dtype and -1 in integers; the other is an ordinary large number. A right
result that looks like one of them does not look like the other."""


class Poisoned(TorchDispatchMode):  # type: ignore[misc]
    """While active, every tensor that is allocated without values holds `pattern` in each of its bytes."""

    def __init__(self, pattern: int) -> None:
        super().__init__()
        self._pattern = pattern

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ in _ALLOCATES and isinstance(result, torch.Tensor):
            _fill(result, self._pattern)
        return result


def _fill(tensor: torch.Tensor, pattern: int) -> None:
    storage = tensor.untyped_storage()
    if storage.nbytes():
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        raw.fill_(pattern)
