"""Rotary position embedding of queries [sequence, heads, d], rotating the two halves of d against each other.

cos and sin are tables [sequence, d / 2] in float32.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel()
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    length, heads, d = x.size()
    half = d // 2
    halves = x.view(length, heads, 2, half)
    out = torch.empty_like(halves)
    for tile_s, tile_h in hl.tile([length, heads]):
        first = halves[tile_s, tile_h, 0, :].to(torch.float32)
        second = halves[tile_s, tile_h, 1, :].to(torch.float32)
        c = cos[tile_s, :][:, None, :]
        s = sin[tile_s, :][:, None, :]
        out[tile_s, tile_h, 0, :] = (first * c - second * s).to(x.dtype)
        out[tile_s, tile_h, 1, :] = (second * c + first * s).to(x.dtype)
    return out.view(length, heads, d)


def rope_reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=2)
    c, s = cos[:, None, :], sin[:, None, :]
    rotated = torch.cat([first * c - second * s, second * c + first * s], dim=2)
    return rotated.to(x.dtype)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    length, heads, d = 8192, 32, 128
    x = torch.randn(length, heads, d, device="cuda", dtype=torch.bfloat16)
    positions = torch.arange(length, device="cuda", dtype=torch.float32)
    frequencies = 500000.0 ** (-torch.arange(0, d, 2, device="cuda", dtype=torch.float32) / d)
    angles = torch.outer(positions, frequencies)
    return x, angles.cos(), angles.sin()
