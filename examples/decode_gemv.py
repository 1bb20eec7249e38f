"""One token through a linear layer: x [1, k] times weight [n, k] transposed, accumulated in float32.

Bound by reading the weight once, as every linear layer is when decoding with batch 1.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel()
def decode_gemv(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    n, k = weight.size()
    out = torch.empty([1, n], dtype=x.dtype, device=x.device)
    for tile_n in hl.tile(n):
        acc = hl.zeros([tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            products = weight[tile_n, tile_k].to(torch.float32) * x[0, tile_k].to(torch.float32)[None, :]
            acc = acc + torch.sum(products, dim=1)
        out[0, tile_n] = acc.to(x.dtype)
    return out


def decode_gemv_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, weight)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    n, k = 14336, 4096
    x = torch.randn(1, k, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(n, k, device="cuda", dtype=torch.bfloat16) / k**0.5
    return x, weight
