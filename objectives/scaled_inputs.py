"""Real arguments for a check on the CPU, as large as the scaled shapes say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from helitune.acfs.errors import MachineError
from helitune.search.dtypes import tensor_bytes
from helitune.search.workload import ScalarArg, Shape, TensorArg

from .discovery import LoadedWorkload
from .inputs import describe, make_arguments
from .inputs_function import map_tensors
from .scaling import scaled_dim, scaled_shapes, scaled_strides

# a function that makes bf16 tensors often makes float32 ones on the way
_PEAK_OVER_INPUTS = 3


class ScaledInputs:
    """Arguments of one shape of a workload, scaled down by a factor.

    Values that `--args` describes are drawn at the scaled size. What the kernel file makes is made at its
    full size, once: every draw then looks at another part of it, and only where the parts do not suffice it
    is made again.
    """

    def __init__(self, workload: LoadedWorkload, index: int, base_seed: int) -> None:
        self._workload = workload
        self._index = index
        self._base_seed = base_seed
        self._made: tuple[int, list[Any]] | None = None

    @property
    def shape(self) -> Shape:
        """The shape as declared."""
        return self._workload.shapes[self._index]

    def scaled_shape(self, factor: int) -> Shape:
        """The shape that `arguments` of this factor have."""
        return scaled_shapes(self.shape, factor)

    def arguments(self, factor: int, draw: int) -> list[Any]:
        """The arguments of draw number `draw`, each with other values; MachineError if they do not fit."""
        seed = self._base_seed + draw
        if self._workload.record.inputs == "args":
            _check_memory(self.scaled_shape(factor))
            values = make_arguments(self.scaled_shape(factor), device="cpu", seed=seed)
            return list(self._workload.kernel.normalize_args(*values))
        part_exists = draw < factor
        full = self._full_size(self._base_seed if part_exists else seed)
        return narrowed(full, factor, draw if part_exists else 0)

    def _full_size(self, seed: int) -> list[Any]:
        if self._made is None or self._made[0] != seed:
            _check_memory(self.shape)
            self._made = None
            self._made = seed, self._workload.make_inputs(self._index, device="cpu", seed=seed)
        return self._made[1]


def narrowed(arguments: list[Any], factor: int, part: int) -> list[Any]:
    """Part number `part` (from 0, below `factor`) of the arguments, each scaled dimension narrowed to it.

    Layouts are kept. Integers that may index a scaled dimension are reduced modulo its new size; integer
    scalars that equal one become it.
    """
    if factor == 1:
        return arguments
    dims = sorted(
        {dim for tensor in _tensors(arguments) for dim in tensor.shape if scaled_dim(dim, factor) != dim}
    )

    def narrow(tensor: torch.Tensor) -> torch.Tensor:
        sizes = [scaled_dim(dim, factor) for dim in tensor.shape]
        window = tensor
        for axis, size in enumerate(sizes):
            if size != tensor.shape[axis]:
                window = window.narrow(axis, part * size, size)
        strides = scaled_strides(tensor.shape, tensor.stride(), sizes)
        return _reduced(_laid_out(window, strides), dims, factor)

    shape = scaled_shapes(describe(arguments), factor)
    scalars = {i: arg.value for i, arg in enumerate(shape) if isinstance(arg, ScalarArg)}
    # all at once: a tensor passed twice stays one
    small = map_tensors(arguments, narrow)
    return [scalars[i] if type(value) is int else value for i, value in enumerate(small)]


def _laid_out(window: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy of the window with these strides; an expanded dimension (stride 0) stays one."""
    stored = window
    for axis, stride in enumerate(strides):
        if stride == 0:
            stored = stored.narrow(axis, 0, min(1, stored.shape[axis]))
    copy = torch.empty_strided(stored.shape, strides, dtype=window.dtype, device=window.device)
    try:
        return copy.copy_(stored).as_strided(window.shape, strides)
    except RuntimeError:
        # windows that overlap cannot be written one by one
        return window.clone(memory_format=torch.contiguous_format)


def _reduced(tensor: torch.Tensor, dims: list[int], factor: int) -> torch.Tensor:
    integer = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)
    if not integer or tensor.numel() == 0 or tensor.dtype.itemsize < 2:
        return tensor
    largest = int(tensor.max())
    bound = next((dim for dim in dims if dim > largest), None)
    # negative values (an index to ignore) keep their meaning
    return tensor if bound is None else torch.where(tensor < 0, tensor, tensor % scaled_dim(bound, factor))


def _tensors(arguments: list[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    map_tensors(arguments, note)
    return found


def _check_memory(shape: Shape) -> None:
    needed = _PEAK_OVER_INPUTS * sum(tensor_bytes(arg) for arg in shape if isinstance(arg, TensorArg))
    available = _available_bytes()
    if needed > available:
        raise MachineError(
            f"the inputs need about {needed / 2**30:.1f} GiB on the CPU; {available / 2**30:.1f} are free",
            next_step="give smaller shapes with --args for the check",
        )


def _available_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
