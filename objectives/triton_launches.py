"""What a Helion config launches: the Triton sources, options and grids, captured without a GPU."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host_work import HostWork


@dataclass(frozen=True, slots=True)
class Launch:
    """One Triton kernel launch of the generated host function.

    `source` is Triton's ASTSource, `options` its parsed option record, `grid` the launched blocks per axis,
    `scalars` the integer arguments by parameter name (constexpr or not), for deriving trip counts.
    """

    name: str
    source: Any
    target: Any
    options: Any
    grid: tuple[int, ...]
    scalars: dict[str, int]


class _Captured(Exception):
    """Ends a Triton compile once its inputs are known."""


def capture_launches(
    host_function: Any, arguments: list[Any], fake_mode: Any, work: HostWork | None = None
) -> tuple[list[Launch], Any]:
    """All launches of one call of the generated host function, and what it returned.

    The host function runs on FakeTensors with a launcher of ours in place of Helion's default; nothing is
    launched. `work` notes what else it does. Errors of the generated host code propagate.
    """
    launches: list[Launch] = []

    def launcher(kernel: Any, grid: Any, *args: Any, **options: Any) -> None:
        launches.append(_capture(kernel, grid, args, options))
        if work is not None:
            work.note_launch(kernel, args)

    with fake_mode, work or contextlib.nullcontext():
        returned = host_function(*arguments, _launcher=launcher)
    return launches, returned


def _capture(kernel: Any, grid: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Launch:
    compile_args, compile_options = _compile_only(args, options)
    found: dict[str, Any] = {}

    def stop_at_compile(source: Any, target: Any = None, options: Any = None, **_: Any) -> None:
        found.update(source=source, target=target, options=options)
        raise _Captured

    kernel.device_caches[0]  # creates the binder, which sets kernel.compile
    kernel.compile = stop_at_compile
    try:
        kernel.run(*map(_described, compile_args), grid=grid, warmup=True, **compile_options)
    except _Captured:
        pass
    names = [parameter.name for parameter in kernel.params]
    scalars = {
        name: value
        for name, value in zip(names, compile_args, strict=False)
        if isinstance(value, int) and not isinstance(value, bool)
    }
    scalars |= {k: v for k, v in compile_options.items() if k in names and type(v) is int}
    blocks = tuple(int(size) for size in (grid if isinstance(grid, tuple | list) else (grid,)))
    return Launch(
        name=kernel.fn.__name__,
        source=found["source"],
        target=found["target"],
        options=found["options"],
        grid=blocks,
        scalars=scalars,
    )


def _compile_only(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments Triton compiles with: Helion's launcher-only options dropped, as Helion itself does."""
    try:
        from helion.runtime.triton.launcher import compile_only_launch_args
    except ImportError:  # helion 1.5.0 has no such function and no appended arguments
        return args, {name: value for name, value in options.items() if not name.startswith("_")}
    compile_args, compile_options = compile_only_launch_args(*args, **options)
    return compile_args, compile_options


def _described(argument: Any) -> Any:
    """A stand-in with what Triton specialises on: dtype, 16-byte alignment, descriptor layout."""
    import torch
    from triton.runtime.jit import MockTensor
    from triton.tools.tensor_descriptor import TensorDescriptor

    if isinstance(argument, torch.Tensor):
        return MockTensor(argument.dtype, list(argument.shape))
    if isinstance(argument, TensorDescriptor):
        described = object.__new__(TensorDescriptor)
        vars(described).update(vars(argument))
        described.base = MockTensor(argument.base.dtype, list(argument.base.shape))
        return described
    return argument


def outputs_of(returned: Any) -> list[Any]:
    """The tensors in what the host function returned, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
