"""A kernel with so little work that starting and ending it takes most of its time."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[256], num_warps=4), static_shapes=True)  # type: ignore[untyped-decorator]
def shifted(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + 1.0
    return out


def shifted_reference(x: torch.Tensor) -> torch.Tensor:
    return x + 1.0


def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(4096, device="cuda", dtype=torch.float32),)
