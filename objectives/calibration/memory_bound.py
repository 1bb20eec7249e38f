"""A kernel that waits for memory: each number is read, scaled and written."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[2], num_warps=8), static_shapes=True)  # type: ignore[untyped-decorator]
def scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = (x[tile, :].to(torch.float32) * 1.5).to(x.dtype)
    return out


def scaled_reference(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5


def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16),)
