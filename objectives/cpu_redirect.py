"""Run code written for CUDA on the CPU: every tensor it asks for on "cuda" is made on "cpu".

Only for building inputs and running references on a machine without a GPU. Nothing is compiled here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

_CPU = torch.device("cpu")


class CpuRedirect(TorchFunctionMode):  # type: ignore[misc]
    """While active, "cuda" means "cpu" in torch calls: device=, .to(), .cuda(), torch.device(...) contexts.

    Tensors made without a device land on the CPU too, whatever torch.set_default_device said before.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], _CPU, *args[2:])
        if kwargs.get("device") is None and func in _device_constructors():
            kwargs["device"] = _CPU
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if type(kwargs.get("device")) is int:
            kwargs["device"] = _CPU
        return func(*map(_on_cpu, args), **{name: _on_cpu(value) for name, value in kwargs.items()})


@contextlib.contextmanager
def cuda_means_cpu() -> Iterator[None]:
    """A CpuRedirect that also covers torch.Generator(device="cuda"), which no torch function mode sees."""
    real: Any = torch.Generator

    class CpuGenerator(real):  # type: ignore[misc]
        """A torch.Generator on the CPU, whatever device was asked for."""

        def __new__(cls, device: Any = None) -> Any:
            return real(device=_CPU)

    torch.Generator = CpuGenerator
    try:
        with CpuRedirect():
            yield
    finally:
        torch.Generator = real


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return _CPU if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return _CPU
    return value
