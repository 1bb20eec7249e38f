"""What Helion's interpreter needs of torch on the CPU and does not find there; and tiles split in two.

The interpreter computes every product with `torch.mm(..., out_dtype=)`, which only CUDA has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_SMALLEST_SPLIT = 2


def install() -> Any:
    """The torch.library.Library that holds what was missing; it must stay alive as long as it is needed."""
    library = torch.library.Library("aten", "IMPL")
    for name, implementation in _PRODUCTS.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU"):
            library.impl(name, implementation, "CPU")
    return library


@contextlib.contextmanager
def split_tiles() -> Iterator[None]:
    """While active, a tile of unspecified size is half of its range, where it usually is all of it.

    So loops that carry something from tile to tile (an online softmax) run more than once.
    """
    import helion.language as hl

    tile: Any = hl.tile
    whole = tile._ref_fn
    tile._ref_fn = _splitting(whole)
    try:
        yield
    finally:
        tile._ref_fn = whole


def _splitting(whole: Callable[..., Any]) -> Callable[..., Any]:
    def tiles(begin_or_end: Any, end_or_none: Any = None, block_size: Any = None) -> Any:
        ends = begin_or_end if end_or_none is None else end_or_none
        several = isinstance(ends, list | tuple)
        ends = list(ends) if several else [ends]
        begins = [0] * len(ends)
        if end_or_none is not None:
            begins = list(begin_or_end) if several else [begin_or_end]
        blocks = list(block_size) if isinstance(block_size, list | tuple) else [block_size] * len(ends)
        halves = [
            _half(int(end) - int(begin)) if block is None else block
            for begin, end, block in zip(begins, ends, blocks, strict=True)
        ]
        return whole(begin_or_end, end_or_none, halves if several else halves[0])

    return tiles


def _half(extent: int) -> int | None:
    # an odd range would leave a ragged tile, which the interpreter pads in ways that real kernels do not
    return extent // 2 if extent >= _SMALLEST_SPLIT and extent % 2 == 0 else None


def _mm(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.mm(left.to(dtype), right.to(dtype))


def _bmm(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.bmm(left.to(dtype), right.to(dtype))


def _addmm(
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    dtype: torch.dtype,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> torch.Tensor:
    return torch.addmm(bias.to(dtype), left.to(dtype), right.to(dtype), beta=beta, alpha=alpha)


def _baddbmm(
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    dtype: torch.dtype,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> torch.Tensor:
    return torch.baddbmm(bias.to(dtype), left.to(dtype), right.to(dtype), beta=beta, alpha=alpha)


_PRODUCTS: dict[str, Callable[..., torch.Tensor]] = {
    "mm.dtype": _mm,
    "bmm.dtype": _bmm,
    "addmm.dtype": _addmm,
    "baddbmm.dtype": _baddbmm,
}
