"""Cross entropy of each row of logits: log-sum-exp over the vocabulary minus the logit of the row's label.

One pass over the logits, with a running maximum and sum in float32; the losses are float32.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1, 4096], num_warps=8), static_shapes=True)
def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    n, vocabulary = logits.size()
    losses = torch.empty([n], dtype=torch.float32, device=logits.device)
    flat = logits.view(-1)
    for tile_n in hl.tile(n):
        maximum = hl.full([tile_n], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_n], dtype=torch.float32)
        for tile_v in hl.tile(vocabulary):
            scores = logits[tile_n, tile_v].to(torch.float32)
            new_maximum = torch.maximum(maximum, torch.amax(scores, dim=1))
            shrink = torch.exp(maximum - new_maximum)
            total = total * shrink + torch.sum(torch.exp(scores - new_maximum[:, None]), dim=1)
            maximum = new_maximum
        position = tile_n.index.to(torch.int64) * vocabulary + labels[tile_n]
        target = hl.load(flat, [position]).to(torch.float32)
        losses[tile_n] = maximum + torch.log(total) - target
    return losses


def cross_entropy_reference(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(precise, labels, reduction="none")


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    # 128256 is the vocabulary of Llama 3
    logits = torch.randn(2048, 128256, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(0, 128256, (2048,), device="cuda", dtype=torch.int64)
    return logits, labels
