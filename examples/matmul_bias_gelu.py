"""GELU (tanh form) of a matrix product plus a bias per column, accumulated in float32."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(
    config=helion.Config(block_sizes=[128, 128, 64], l2_groupings=[8], num_warps=8, num_stages=3),
    static_shapes=True,
)
def matmul_bias_gelu(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _k, n = w.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_k, tile_n])
        acc = acc + bias[tile_n].to(torch.float32)[None, :]
        out[tile_m, tile_n] = torch.nn.functional.gelu(acc, approximate="tanh").to(x.dtype)
    return out


def matmul_bias_gelu_reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(torch.addmm(bias, x, w), approximate="tanh")


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    m, k, n = 2048, 4096, 4096
    x = torch.randn(m, k, device="cuda", dtype=torch.float16)
    # scaled so that the product has unit variance, where GELU is neither zero nor the identity
    w = torch.randn(k, n, device="cuda", dtype=torch.float16) / k**0.5
    bias = torch.randn(n, device="cuda", dtype=torch.float16)
    return x, w, bias
