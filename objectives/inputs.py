"""Real and fake tensors for the arguments of one call, and the description of such tensors as plain data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from helitune.acfs.errors import InputError
from helitune.search.args import format_shape
from helitune.search.dtypes import DTYPES, LONG_NAMES, contiguous_strides, distinct_elements, storage_elements
from helitune.search.workload import Argument, ScalarArg, Shape, TensorArg

TORCH_DTYPES: dict[str, torch.dtype] = {
    short: getattr(torch, "bool" if short == "bool" else LONG_NAMES[short][0]) for short in DTYPES
}
# torch.randint takes no larger bound
_LARGEST = 2**63 - 1
_SHORT_NAMES = {dtype: short for short, dtype in TORCH_DTYPES.items()}


def make_arguments(shape: Shape, *, device: str, seed: int) -> list[Any]:
    """The arguments of one call: tensors on `device` filled as `shape` says, scalars as they are.

    The same seed gives the same values on the same kind of device. InputError for values "given": only the
    kernel file can make those.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    return [_tensor(arg, generator) if isinstance(arg, TensorArg) else arg.value for arg in shape]


def fake_arguments(shape: Shape, mode: Any) -> list[Any]:
    """The arguments of one call with FakeTensors of `mode` on "cuda": sizes, strides, dtypes, no values."""
    with mode:
        return [
            torch.empty_strided(arg.shape, arg.strides, dtype=TORCH_DTYPES[arg.dtype], device="cuda")
            if isinstance(arg, TensorArg)
            else arg.value
            for arg in shape
        ]


def describe(arguments: Sequence[Any]) -> Shape:
    """What the arguments look like, one entry each: tensors with values "given", scalars as they are.

    Anything else (a list of tensors, a dtype, a function) becomes a ScalarArg with text that names it.
    """
    return tuple(map(_described, arguments))


def _described(value: Any) -> Argument:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and value.dtype in _SHORT_NAMES:
            return TensorArg(_SHORT_NAMES[value.dtype], tuple(value.shape), tuple(value.stride()), "given")
        return ScalarArg(f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]")
    if value is None or type(value) in (bool, int, float, str):
        return ScalarArg(value)
    return ScalarArg(_text(value))


def _text(value: Any) -> str:
    """Text without addresses, so that it is the same in every process."""
    if isinstance(value, torch.Tensor):
        return format_shape((_described(value),)).replace("~given", "")
    if type(value) in (list, tuple):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    if type(value) is dict:
        return f"dict({', '.join(f'{key}={_text(item)}' for key, item in value.items())})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _tensor(arg: TensorArg, generator: torch.Generator) -> torch.Tensor:
    """A tensor whose distinct elements hold the values; indices that share an element see the same one."""
    dtype = TORCH_DTYPES[arg.dtype]
    stored = tuple(1 if stride == 0 else size for size, stride in zip(arg.shape, arg.strides, strict=True))
    compact = TensorArg(arg.dtype, stored, arg.strides, arg.values)
    if arg.strides == contiguous_strides(arg.shape):
        return _values(arg, arg.shape, generator)
    if distinct_elements(compact) != _product(stored):
        # sliding windows: fill the storage, there is no order of distinct elements to keep
        storage = _values(arg, (storage_elements(compact),), generator)
        return storage.as_strided(arg.shape, arg.strides)
    tensor = torch.empty_strided(stored, arg.strides, dtype=dtype, device=generator.device)
    tensor.copy_(_values(arg, stored, generator))
    return tensor.as_strided(arg.shape, arg.strides)


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _values(arg: TensorArg, size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """A contiguous tensor of `size` on the generator's device, filled as `arg.values` says."""
    dtype, device = TORCH_DTYPES[arg.dtype], generator.device
    if arg.values == "given":
        raise InputError(
            f"the values of a {arg.dtype} tensor are given by the kernel file, and cannot be drawn",
            next_step="call its inputs() function, or say what fills the tensor: f16[4096]=0..1",
        )
    if arg.values in ("zeros", "ones") or arg.values.startswith("="):
        named = {"zeros": 0, "ones": 1}
        constant = named[arg.values] if arg.values in named else _number(arg.values[1:])
        return torch.full(size, constant, dtype=dtype, device=device)
    if arg.values == "perm":
        return torch.randperm(_product(size), generator=generator, device=device).to(dtype).reshape(size)
    if DTYPES[arg.dtype].kind == "float":
        return _floats(arg.values, size, dtype, generator)
    low, high = _integer_limits(arg)
    drawn = torch.int64 if arg.dtype in ("u16", "u32", "u64") else dtype
    return torch.randint(low, high, size, dtype=drawn, generator=generator, device=device).to(dtype)


def _floats(values: str, size: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if values == "normal":
        # f8 has no generator of its own
        drawn = dtype if dtype.itemsize > 1 else torch.float32
        return torch.randn(size, dtype=drawn, generator=generator, device=generator.device).to(dtype)
    low, high = ("0", values[1:]) if values.startswith("<") else values.split("..", 1)
    # the width of a range may exceed what a short float holds
    drawn = dtype if dtype.itemsize > 2 else torch.float32
    tensor = torch.empty(size, dtype=drawn, device=generator.device)
    return tensor.uniform_(_number(low), _number(high), generator=generator).to(dtype)


def _integer_limits(arg: TensorArg) -> tuple[int, int]:
    """LO and HI of [LO, HI); for "normal" what search/args.py documents."""
    if arg.values.startswith("<"):
        return 0, min(int(arg.values[1:]), _LARGEST)
    if ".." in arg.values:
        low, high = arg.values.split("..", 1)
        return int(low), min(int(high), _LARGEST)
    if DTYPES[arg.dtype].bits == 8:
        first, last = DTYPES[arg.dtype].integer_range()
        return first, last + 1
    return 0, 2


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
