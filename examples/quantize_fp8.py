"""Each row quantised to fp8 (e4m3) with a float32 scale of its own: x ≈ quantised * scale[:, None]."""

from __future__ import annotations

import helion
import helion.language as hl
import torch

FP8_MAX = 448.0
SMALLEST_AMAX = 1e-10


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8), static_shapes=True)
def quantize_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, _n = x.size()
    quantised = torch.empty(x.size(), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        # a row of zeros would divide by zero
        amax = torch.clamp(torch.amax(torch.abs(row), dim=1), min=SMALLEST_AMAX)
        scale = amax / FP8_MAX
        scaled = torch.clamp(row / scale[:, None], -FP8_MAX, FP8_MAX)
        quantised[tile_m, :] = scaled.to(torch.float8_e4m3fn)
        scales[tile_m] = scale
    return quantised, scales


def quantize_fp8_reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    row = x.to(torch.promote_types(x.dtype, torch.float32))
    scales = row.abs().amax(dim=1).clamp(min=SMALLEST_AMAX) / FP8_MAX
    scaled = (row / scales[:, None]).clamp(-FP8_MAX, FP8_MAX)
    return scaled.to(torch.float8_e4m3fn), scales


def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16),)
