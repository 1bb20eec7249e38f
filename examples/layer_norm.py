"""Layer normalisation of each row with a weight and a bias per column.

Mean and variance are taken in float32, the variance from the centred row.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8), static_shapes=True)
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        centred = row - torch.mean(row, dim=1, keepdim=True)
        variance = torch.mean(centred * centred, dim=1, keepdim=True)
        normed = centred * torch.rsqrt(variance + eps)
        scaled = normed * weight[:].to(torch.float32)[None, :] + bias[:].to(torch.float32)[None, :]
        out[tile_m, :] = scaled.to(x.dtype)
    return out


def layer_norm_reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias, eps)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    x = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(8192, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(8192, device="cuda", dtype=torch.bfloat16)
    return x, weight, bias, 1e-5
