"""Root-mean-square normalisation of each row, scaled by a weight per column; the mean is taken in float32."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8), static_shapes=True)
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        mean_square = torch.mean(row * row, dim=1, keepdim=True)
        normed = row * torch.rsqrt(mean_square + eps)
        out[tile_m, :] = (normed * weight[:].to(torch.float32)[None, :]).to(x.dtype)
    return out


def rms_norm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[1],), weight, eps)


def inputs() -> tuple[torch.Tensor, torch.Tensor, float]:
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    return x, weight, 1e-5
