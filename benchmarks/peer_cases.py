"""The kernels and shapes of peer.py: those where a config has something to decide, each with the reason why."""

from __future__ import annotations

from dataclasses import dataclass, field

from helitune.search.args import parse_args
from helitune.search.dtypes import tensor_bytes
from helitune.search.workload import TensorArg


@dataclass(frozen=True)
class Case:
    """A kernel on one shape. `outputs` is what it writes, as --args spells tensors; `flops` those of its products."""

    name: str
    example: str
    args: str
    outputs: str
    flops: dict[str, int] = field(default_factory=dict)


def _gemm(m: int, n: int, k: int) -> dict[str, int]:
    return {"f16": 2 * m * n * k}


def _attention(batch: int, heads: int, length: int, d: int) -> dict[str, int]:
    return {"bf16": 4 * batch * heads * length * length * d}


CASES = (
    # the shape of the example: its own config is Helion's heuristic for another GPU, far from the best here
    Case("softmax", "softmax", "f16[4096,2560]", "f16[4096,2560]"),
    # odd sizes, as a vision transformer of 577 tokens has them: no row is aligned, so loads cannot be wide
    Case("softmax_577", "softmax", "f16[147712,577]", "f16[147712,577]"),
    # no power of two: a row of 5120 in a tile of 8192 leaves three lanes in eight idle, unless it is looped over
    Case("rms_norm_5120", "rms_norm", "bf16[4096,5120] bf16[5120] 1e-5", "bf16[4096,5120]"),
    # short rows: one row a block is too little work for a block
    Case("layer_norm_1280", "layer_norm", "bf16[16384,1280] bf16[1280] bf16[1280] 1e-5", "bf16[16384,1280]"),
    # mutates an argument, and so goes Helion's other way of benchmarking
    Case(
        "add_residual_inplace",
        "add_residual_inplace",
        "bf16[8192,4096] bf16[8192,4096] bf16[4096] 1e-5",
        "bf16[8192,4096] bf16[8192,4096]",
    ),
    # two outputs, one of them fp8, where stores of single bytes must be joined
    Case("quantize_fp8", "quantize_fp8", "bf16[8192,4096]", "f8e4m3[8192,4096] f32[8192]"),
    # decode with batch 1: no config of its own, all depends on how the weight is streamed
    Case("decode_gemv", "decode_gemv", "bf16[1,4096] bf16[14336,4096]", "bf16[1,14336]"),
    # decode, the key projection of a model of 70B: so few rows that tiles of usual size leave most SMs idle
    Case("decode_gemv_1024", "decode_gemv", "bf16[1,8192] bf16[1024,8192]", "bf16[1,1024]"),
    # GEMM with an epilogue: the config decides between half and all of the tensor cores' rate
    Case(
        "matmul_bias_gelu",
        "matmul_bias_gelu",
        "f16[2048,4096] f16[4096,4096] f16[4096]",
        "f16[2048,4096]",
        _gemm(2048, 4096, 4096),
    ),
    # decode with batch 16: the tiles of the own config are eight times as high as the matrix
    Case(
        "matmul_decode_16",
        "matmul_bias_gelu",
        "f16[16,4096] f16[4096,14336] f16[14336]",
        "f16[16,14336]",
        _gemm(16, 14336, 4096),
    ),
    # attention as in prefill: pipelining and warps decide, and ACFs reach the softmax between the products
    Case(
        "attention",
        "attention",
        "bf16[2,16,4096,128] bf16[2,16,4096,128] bf16[2,16,4096,128]",
        "bf16[2,16,4096,128]",
        _attention(2, 16, 4096, 128),
    ),
    # small heads: other tiles are best than with 128, which the own config is for
    Case(
        "attention_64",
        "attention",
        "bf16[8,32,1024,64] bf16[8,32,1024,64] bf16[8,32,1024,64]",
        "bf16[8,32,1024,64]",
        _attention(8, 32, 1024, 64),
    ),
    # odd sizes: 3000 tokens, and the width of Llama 2, which no tile of a power of two divides
    Case("swiglu_llama2", "swiglu", "bf16[3000,22016]", "bf16[3000,11008]"),
    # no config of its own, four streams with broadcast tables
    Case("rope", "rope", "bf16[8192,32,128] f32[8192,64] f32[8192,64]", "bf16[8192,32,128]"),
    # a long loop with two running values, and a gather at its end
    Case("cross_entropy", "cross_entropy", "bf16[2048,128256] i64[2048]<128256", "f32[2048]"),
)


def bytes_moved(case: Case) -> int:
    """Bytes of the inputs and outputs, each once."""
    moved = (*parse_args(case.args), *parse_args(case.outputs))
    return sum(tensor_bytes(arg) for arg in moved if isinstance(arg, TensorArg))
