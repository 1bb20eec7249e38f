"""Call the kernel file's own inputs function, for real or without values, and read what it returned."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from helitune.acfs.errors import InputError

from .cpu_redirect import cuda_means_cpu
from .user_code import call_user_code


def call_inputs(function: Callable[[], Any], *, device: str, seed: int, file: Path) -> Any:
    """What `function` returns after torch.manual_seed(seed), with its tensors on `device`.

    On "cpu", what the function asks of "cuda" is made on the CPU. On "cuda", a function that made nothing
    there (KernelBench makes its inputs on the CPU) has all its tensors moved; one that made some, none.
    """
    on_cpu = torch.device(device).type == "cpu"

    def call() -> Any:
        torch.manual_seed(seed)
        with cuda_means_cpu() if on_cpu else contextlib.nullcontext():
            returned = function()
            # a generator's body runs only now
            return list(returned) if isinstance(returned, Iterator) else returned

    returned = call_user_code(call, file, f"{_name(function)}()")
    if not on_cpu and any(tensor.device.type == "cuda" for tensor in _tensors(returned)):
        return returned
    return map_tensors(returned, lambda tensor: tensor.to(device))


def call_inputs_fake(function: Callable[[], Any], mode: Any, *, seed: int, file: Path) -> Any:
    """What `function` returns, with every tensor a FakeTensor of `mode` on "cuda"; no values, no GPU.

    A function that looks at values (`.item()`, a mask) cannot run so: it is called on the CPU instead.
    """
    try:
        with mode:
            returned = call_inputs(function, device="cpu", seed=seed, file=file)
    except InputError:
        returned = call_inputs(function, device="cpu", seed=seed, file=file)
    with mode:
        return map_tensors(returned, _fake_on_cuda)


def argument_lists(returned: Any, kernel: Any, what: str, where: str) -> list[list[Any]]:
    """The positional arguments of each call, from what an inputs function returned.

    A tuple or list is one call, a tuple or list of those is several, a dict is one call by keyword. Where
    both readings fit the kernel's signature, several calls are meant.
    """
    sequence = returned if isinstance(returned, list | tuple) else ()
    if sequence and all(isinstance(call, list | tuple | dict) for call in sequence):
        calls = [_bound(call, kernel) for call in sequence]
        if all(call is not None for call in calls):
            return [call for call in calls if call is not None]
    one_call = _bound((returned,) if isinstance(returned, torch.Tensor) else returned, kernel)
    if one_call is None:
        raise InputError(
            f"{what} returned {_outline(returned)}, which {kernel.name}{kernel.signature} does not take",
            where=where,
            next_step="return a tuple with the arguments of one call, a dict of them, or a list of those",
        )
    return [one_call]


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`value` with every tensor in its lists, tuples and dicts changed; one met twice stays one."""
    changed: dict[int, torch.Tensor] = {}

    def walk(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            if id(item) not in changed:
                changed[id(item)] = change(item)
            return changed[id(item)]
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*map(walk, item))
        if type(item) in (list, tuple):
            return type(item)(map(walk, item))
        if isinstance(item, Mapping):
            return {key: walk(entry) for key, entry in item.items()}
        return item

    return walk(value)


def _tensors(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    map_tensors(value, lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found


def _fake_on_cuda(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")


def _bound(call: Any, kernel: Any) -> list[Any] | None:
    """The call's positional arguments, defaults filled in; None where the kernel's signature refuses it."""
    try:
        if isinstance(call, Mapping):
            return list(kernel.normalize_args(**call))
        return list(kernel.normalize_args(*call)) if isinstance(call, list | tuple) else None
    except TypeError:
        return None


def _outline(returned: Any) -> str:
    if isinstance(returned, Mapping):
        return f"a dict of {', '.join(map(str, returned)) or 'nothing'}"
    if isinstance(returned, list | tuple):
        return f"a {type(returned).__name__} of {len(returned)}"
    return f"a {type(returned).__name__}"


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "inputs"))
