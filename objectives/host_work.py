"""What a generated host function does besides launching: two configs with the same kernels may still differ in it."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class HostWork(TorchDispatchMode):  # type: ignore[misc]
    """Notes, while active, every tensor operation with the shapes and values that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._noted.append(f"{function}{tree_map(_plain, args)}{tree_map(_plain, kwargs or {})}")
        return function(*args, **(kwargs or {}))

    def note_launch(self, kernel: Any, args: tuple[Any, ...]) -> None:
        """Note a launch with the numbers it is given at run time: constants are part of its code."""
        given = [
            _plain(arg)
            for parameter, arg in zip(kernel.params, args, strict=False)
            if not parameter.is_constexpr
        ]
        self._noted.append(f"launch {given}")

    def sha256(self) -> str:
        """A name for all that was noted, the same in every process."""
        return hashlib.sha256("\n".join(self._noted).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Text without addresses or values: what a tensor looks like, and everything else as it is."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}{tuple(value.stride())}"
    return value if value is None or isinstance(value, bool | int | float | str) else type(value).__name__
