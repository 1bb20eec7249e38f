"""One call of a Helion kernel in the process that makes it: its arguments, its GPU, and the ptxas Triton would run.

For processes that have torch and Helion anyway. Both are imported when a function runs, so that reading a pin
needs neither.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from helitune.search.dtypes import LONG_NAMES
from helitune.search.workload import Argument, ScalarArg, Shape

ALIGNMENT_BYTES = 16
"""Triton compiles other code for a pointer that is no multiple of this; what we verify is compiled for aligned ones."""

ArgumentsKey = tuple[Hashable, ...]
"""What a pin guards of a call: dtype, sizes, strides and alignment of each tensor, the text of anything else."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU of a call: its architecture ("sm_90") and the name that CUDA gives it."""

    arch: str
    name: str


def pinned_key(shape: Shape) -> ArgumentsKey:
    """The key of the calls that a workload's shape stands for."""
    import torch

    return tuple(_pinned(argument, torch) for argument in shape)


def call_key(args: Sequence[Any]) -> tuple[int | None, ArgumentsKey]:
    """The CUDA device of a call (None where no argument lies on one), and the key of its arguments."""
    import torch

    device = None
    described: list[Hashable] = []
    for arg in args:
        if not isinstance(arg, torch.Tensor):
            described.append(_text(arg))
            continue
        described.append((arg.dtype, arg.shape, arg.stride(), _is_aligned(arg, torch)))
        if device is None and arg.device.type == "cuda":
            device = torch.cuda.current_device() if arg.device.index is None else arg.device.index
    return device, tuple(described)


def gpu(device: int) -> Gpu:
    """The GPU with this number, as CUDA counts."""
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return Gpu(f"sm_{major}{minor}", torch.cuda.get_device_name(device))


def triton_ptxas(arch: str) -> Path:
    """The ptxas that Triton runs for an architecture; RuntimeError where it finds none.

    Triton itself is asked: which variable it reads depends on its version and on the architecture, and where
    that names nothing that runs it takes its own.
    """
    from triton.backends.nvidia.compiler import get_ptxas

    return Path(get_ptxas(int(arch.removeprefix("sm_"))).path)


def installed_version(package: str) -> str:
    """The version of an installed package, without its build tag; "none" where it is not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return "none"


def variant(kernel: Any, config: Mapping[str, Any]) -> Any:
    """The Helion kernel with `config` in place of its own, and with its own settings."""
    import helion

    key = getattr(kernel, "_key_fn", None)
    return helion.kernel(kernel.fn, config=helion.Config(**config), settings=kernel.settings, key=key)


def source_file(kernel: Any) -> Path:
    """The file that the kernel's function stands in."""
    return Path(kernel.fn.__code__.co_filename)


def _pinned(argument: Argument, torch: Any) -> Hashable:
    if isinstance(argument, ScalarArg):
        return str(argument.value)
    name = LONG_NAMES.get(argument.dtype, (argument.dtype,))[0]
    return getattr(torch, name, name), argument.shape, argument.strides, True


def _is_aligned(tensor: Any, torch: Any) -> bool:
    kind = type(tensor)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return not tensor.data_ptr() % ALIGNMENT_BYTES
    # a FakeTensor has no memory, and warns when asked where that is
    return not tensor.storage_offset() * tensor.element_size() % ALIGNMENT_BYTES


def _text(argument: Any) -> str:
    """As a workload records it: a dtype or a function by its name, a number or a text as it reads."""
    if hasattr(argument, "__qualname__"):
        return f"{argument.__module__}.{argument.__qualname__}"
    if isinstance(argument, list | tuple | dict):
        return type(argument).__name__
    return str(argument)
