"""Fresh memory filled with a pattern, so that what a kernel does not write cannot pass for a result.

The allocator hands out the memory of the last run, where the right answer may still lie.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ALLOCATES = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
_GROWS = frozenset({"resize_", "resize_as_"})
PATTERNS = (0xFF, 0x7A)
"""All ones is NaN in every float dtype that has arithmetic, -1 in integers, and True; the other is an ordinary
large number, and False. A right result that looks like one of them does not look like the other."""


class Poisoned(TorchDispatchMode):  # type: ignore[misc]
    """While active, every tensor that is allocated without values holds `pattern` in each of its bytes.

    A bool, of which no byte but 0 and 1 is one, holds the pattern's last bit. A tensor that grows keeps its values.
    """

    def __init__(self, pattern: int) -> None:
        super().__init__()
        self._pattern = pattern

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = function.overloadpacket.__name__
        held_bytes = _storage_bytes(args[0]) if name in _GROWS else 0
        result = function(*args, **(kwargs or {}))
        if name in _ALLOCATES or name in _GROWS:
            _fill(result, self._pattern, held_bytes)
        return result


def _storage_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the memory behind the tensor; 0 for one that has none of its own, as sparse ones."""
    return int(tensor.untyped_storage().nbytes()) if tensor.layout is torch.strided else 0


def _fill(tensor: torch.Tensor, pattern: int, held_bytes: int) -> None:
    """Fill the memory behind the tensor but for the first `held_bytes`."""
    if _storage_bytes(tensor) > held_bytes:
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        raw[held_bytes:].fill_(pattern & 1 if tensor.dtype is torch.bool else pattern)
