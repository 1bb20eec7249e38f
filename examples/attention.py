"""Flash attention, forward, without a mask: softmax(q kᵀ / √d) v for tensors [batch, heads, sequence, d].

The softmax is online: a running maximum and sum in float32, so that the scores are never stored.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch

LOG2_E = 1.4426950408889634


@helion.kernel(
    config=helion.Config(block_sizes=[128, 64], num_warps=8, num_stages=2),
    static_shapes=True,
)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    length = q.size(2)
    keys = k.size(2)
    d = hl.specialize(q.size(3))
    queries = q.reshape(-1, length, d)
    k_heads = k.reshape(-1, keys, d)
    v_heads = v.reshape(-1, keys, d)
    out = torch.empty_like(queries)
    # exp2 is what the hardware has: the scale carries the change of base
    scale = d**-0.5 * LOG2_E
    for tile_h, tile_q in hl.tile([queries.size(0), length], block_size=[1, None]):
        head = tile_h.begin
        q_tile = queries[head, tile_q, :]
        maximum = hl.full([tile_q], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_q], dtype=torch.float32)
        acc = hl.zeros([tile_q, d], dtype=torch.float32)
        for tile_k in hl.tile(keys):
            scores = hl.dot(q_tile, k_heads[head, tile_k, :].transpose(0, 1), out_dtype=torch.float32) * scale
            new_maximum = torch.maximum(maximum, torch.amax(scores, dim=1))
            weights = torch.exp2(scores - new_maximum[:, None])
            shrink = torch.exp2(maximum - new_maximum)
            total = total * shrink + torch.sum(weights, dim=1)
            acc = hl.dot(weights.to(v.dtype), v_heads[head, tile_k, :], acc=acc * shrink[:, None])
            maximum = new_maximum
        out[head, tile_q, :] = (acc / total[:, None]).to(q.dtype)
    return out.view(q.size())


def attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = (2, 16, 4096, 128)
    q = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    v = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    return q, k, v
