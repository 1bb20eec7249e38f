"""A kernel that keeps the tensor cores busy, at the power limit of most boards: a matrix product in float16."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(  # type: ignore[untyped-decorator]
    config=helion.Config(block_sizes=[128, 128, 64], l2_groupings=[8], num_warps=8, num_stages=3),
    static_shapes=True,
)
def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _k, n = w.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


def product_reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, w)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    m, k, n = 4096, 4096, 2048
    x = torch.randn(m, k, device="cuda", dtype=torch.float16)
    w = torch.randn(k, n, device="cuda", dtype=torch.float16) / k**0.5
    return x, w
