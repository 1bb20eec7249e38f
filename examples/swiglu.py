"""SwiGLU's gate: silu(gate) * up, where gate and up are the two halves of one projection's output."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1, 2048], num_warps=4), static_shapes=True)
def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    tokens, both = gate_up.size()
    width = both // 2
    halves = gate_up.view(tokens, 2, width)
    out = torch.empty([tokens, width], dtype=gate_up.dtype, device=gate_up.device)
    for tile_t, tile_w in hl.tile([tokens, width]):
        gate = halves[tile_t, 0, tile_w].to(torch.float32)
        up = halves[tile_t, 1, tile_w].to(torch.float32)
        out[tile_t, tile_w] = (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)
    return out


def swiglu_reference(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=1)
    return torch.nn.functional.silu(gate) * up


def inputs() -> tuple[torch.Tensor]:
    # 14336 is the feed-forward width of Llama 3 8B
    return (torch.randn(4096, 2 * 14336, device="cuda", dtype=torch.bfloat16),)
