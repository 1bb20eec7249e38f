"""How precise a tensor's numbers can be, by what they were made from.

References compute in float32 what kernels may multiply as they are: bf16 numbers converted to float32 are still
bf16 numbers, and their product can go at bf16's rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary


class NumberOrigin(TorchDispatchMode):  # type: ignore[misc]
    """While active, notes for the output of each operation the widest float dtype of what it was made from.

    Numbers made from no float tensor (a mask, a range, unpacked integers) widen nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._origins = WeakTensorKeyDictionary()

    def widest(self, values: Iterable[Any]) -> torch.dtype | None:
        """The widest origin of the tensors among `values`; the first one's own dtype where none has any."""
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        origin = self._widest(tensors)
        return origin if origin or not tensors else tensors[0].dtype

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        origin = self._widest(v for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor))
        outputs = func(*args, **kwargs)
        for output in tree_leaves(outputs):
            if isinstance(output, torch.Tensor):
                self._origins[output] = _narrower(origin, output.dtype)
        return outputs

    def _widest(self, tensors: Iterable[torch.Tensor]) -> torch.dtype | None:
        origins = [self._origin(tensor) for tensor in tensors]
        return max((o for o in origins if o is not None), key=_bits, default=None)

    def _origin(self, tensor: torch.Tensor) -> torch.dtype | None:
        if tensor in self._origins:
            found: torch.dtype | None = self._origins[tensor]
            return found
        return tensor.dtype if tensor.is_floating_point() else None


def _narrower(origin: torch.dtype | None, dtype: torch.dtype) -> torch.dtype | None:
    """What numbers of that origin are when stored as `dtype`."""
    if origin is None or not dtype.is_floating_point:
        return None
    return origin if _bits(origin) < _bits(dtype) else dtype


def _bits(dtype: torch.dtype) -> int:
    return int(dtype.itemsize) * 8
