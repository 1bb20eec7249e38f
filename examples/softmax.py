"""Softmax over the last dimension of a matrix; the maximum, the sum and the division are taken in float32."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[4], num_warps=8), static_shapes=True)
def softmax(x: torch.Tensor) -> torch.Tensor:
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        weights = torch.exp(row - torch.amax(row, dim=1, keepdim=True))
        out[tile_m, :] = (weights / torch.sum(weights, dim=1, keepdim=True)).to(x.dtype)
    return out


def softmax_reference(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(4096, 2560, device="cuda", dtype=torch.float16),)
