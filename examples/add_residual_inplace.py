"""x added to the residual stream in place, and the root-mean-square norm of the sum.

Mutates `residual` and returns the normed sum, as between two blocks of a decoder.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8), static_shapes=True)
def add_residual_inplace(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        added = (x[tile_m, :].to(torch.float32) + residual[tile_m, :].to(torch.float32)).to(x.dtype)
        # the norm is of the sum as stored, rounding included
        row = added.to(torch.float32)
        mean_square = torch.mean(row * row, dim=1, keepdim=True)
        normed = row * torch.rsqrt(mean_square + eps)
        out[tile_m, :] = (normed * weight[:].to(torch.float32)[None, :]).to(x.dtype)
        # stored last: a reduction loop reads residual again after the mean, and needs the old one
        residual[tile_m, :] = added
    return out


def add_residual_inplace_reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    residual.add_(x)
    return torch.nn.functional.rms_norm(residual, (x.shape[1],), weight, eps)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    residual = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    return x, residual, weight, 1e-5
