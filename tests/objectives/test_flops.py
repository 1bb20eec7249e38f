"""FLOPs of references: counted without computing, under the dtype of the numbers that are multiplied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from helitune.objectives.discovery import LoadedWorkload, load_workload
from helitune.objectives.flop_count import FlopCount, stated_flops
from helitune.objectives.flops import attention_flops, derived_flops, workload_flops
from helitune.search.args import parse_args

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "fixtures" / "kernels"
MULTIPLYING = {
    "attention": {"bf16": 4 * 2 * 16 * 4096 * 4096 * 128},
    "decode_gemv": {"bf16": 2 * 14336 * 4096},
    "matmul_bias_gelu": {"f16": 2 * 2048 * 4096 * 4096},
}
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))

MODEL = """
import helion
import helion.language as hl
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.project = nn.Conv1d(16, 4, 3)

    def forward(self, x):
        return self.project(self.norm(self.attention(x, x, x, need_weights=False)[0]))

@helion.kernel()
def block(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * 1.0
    return out

def get_init_inputs():
    return [64]
"""


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def counted(reference: Callable[..., Any], *arguments: Any) -> dict[str, int] | None:
    count = derived_flops(reference, arguments)
    return None if count is None else dict(count.by_dtype)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    workload = load_workload(ROOT / "examples" / f"{name}.py", None, None, [])
    assert workload_flops(workload, 0) == FlopCount(MULTIPLYING.get(name, {}))


M, N, K = 8, 4, 16


@pytest.mark.parametrize(
    ("reference", "shapes"),
    [
        (lambda a, b: a @ b, [(M, K), (K, N)]),
        (lambda a, b: torch.einsum("mk,kn->mn", a, b), [(M, K), (K, N)]),
        (lambda a, b: linear(a[None], b.t()), [(M, K), (K, N)]),
        (lambda a, b, c: torch.addmm(c, a, b), [(M, K), (K, N), (N,)]),
        (lambda a, b, c: torch.addbmm(c, a[None], b[None]), [(M, K), (K, N), (M, N)]),
        (lambda a, b: [a @ b[:, i] for i in range(N)], [(M, K), (K, N)]),
        (lambda a, b: [a[i].dot(b[:, j]) for i in range(M) for j in range(N)], [(M, K), (K, N)]),
        (lambda a, b: [torch.addmv(a[:, 0], a, b[:, i]) for i in range(N)], [(M, K), (K, N)]),
        (lambda a, b: torch.inference_mode()(torch.matmul)(a, b), [(M, K), (K, N)]),
        (lambda a, b: torch.nn.functional.conv1d(a.t()[None], b.t()[:, :, None]), [(M, K), (K, N)]),
        (lambda a: a @ torch.ones(K, N, device="cuda").to(a.dtype), [(M, K)]),
    ],
)
def test_every_way_to_multiply_counts_alike(
    reference: Callable[..., Any], shapes: list[tuple[int, ...]]
) -> None:
    assert counted(reference, *(meta(*shape) for shape in shapes)) == {"bf16": 2 * M * N * K}


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.float16, "f16"), (torch.float32, "f32"), (torch.float64, "f64")]
)
def test_products_count_under_their_operands_dtype(dtype: torch.dtype, name: str) -> None:
    assert counted(torch.mm, meta(M, K, dtype=dtype), meta(K, N, dtype=dtype)) == {name: 2 * M * N * K}


def test_fp8_and_int8_products() -> None:
    a, b = meta(16, 32, dtype=torch.float8_e4m3fn), meta(16, 32, dtype=torch.float8_e4m3fn)
    scale = meta(1, dtype=torch.float32)
    scaled = counted(lambda a, b, s: torch._scaled_mm(a, b.t(), s, s, out_dtype=torch.bfloat16), a, b, scale)
    assert scaled == {"f8e4m3": 2 * 16 * 16 * 32}
    a, b = meta(32, 64, dtype=torch.int8), meta(64, 32, dtype=torch.int8)
    assert counted(torch._int_mm, a, b) == {"i8": 2 * 32 * 32 * 64}


def test_numbers_that_the_reference_widens_stay_what_they_are() -> None:
    a, b = meta(M, K), meta(K, N)
    bias = meta(N, dtype=torch.float32)
    assert counted(lambda a, b: a.float() @ b.double().float(), a, b) == {"bf16": 1024}
    assert counted(lambda a, b, c: torch.addmm(c, a.float(), b.float()), a, b, bias) == {"bf16": 1024}
    # what widens them is a number that is wider itself
    assert counted(lambda a, b, c: a.float() @ (b.float() * c), a, b, bias) == {"f32": 1024}


def test_unpacked_weights_are_as_wide_as_their_scales() -> None:
    packed, scale = meta(K, N, dtype=torch.int32), meta(1, N)

    def reference(a: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return a.float() @ ((w & 15).float() * s)

    assert counted(reference, meta(M, K), packed, scale) == {"bf16": 1024}


def test_a_mask_made_of_nothing_widens_nothing() -> None:
    def reference(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        mask = torch.full((M, M), float("-inf"), device=q.device).triu(1)
        return torch.softmax(q.float() @ k.float().t() + mask, -1) @ k.float()

    assert counted(reference, meta(M, K), meta(M, K)) == {"bf16": 2 * 2 * M * M * K}


def test_attention() -> None:
    q, k, v = meta(2, 4, 64, 32), meta(2, 2, 96, 32), meta(2, 2, 96, 16)
    plain = counted(lambda q, k, v: scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k, v)
    assert plain == {"bf16": 2 * 2 * 4 * 64 * 96 * (32 + 16)}
    causal = counted(lambda q: scaled_dot_product_attention(q, q, q, is_causal=True), q)
    assert causal == {"bf16": 4 * 2 * 4 * sum(range(1, 65)) * 32}


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (7, 3), (1, 4), (4, 1)])
def test_causal_attention_counts_the_pairs_that_the_mask_leaves(queries: int, keys: int) -> None:
    left = int(torch.ones(queries, keys).tril().sum())
    assert attention_flops((2, queries, 8), (2, keys, 8), (2, keys, 4), True) == 2 * 2 * left * (8 + 4)


def reads_a_value(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def picks_by_value(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


def ends_the_process(x: torch.Tensor) -> torch.Tensor:
    raise SystemExit(3)


def recurs(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.LSTM(K, K, dtype=x.dtype)(x)[0]


@pytest.mark.parametrize("reference", [reads_a_value, picks_by_value, ends_the_process, recurs])
def test_what_cannot_run_without_values_or_is_not_known_has_no_count(
    reference: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    assert counted(reference, meta(M, K)) is None


def test_a_foreign_operation_may_multiply_anything() -> None:
    with torch.library._scoped_library("helitune_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")
        torch.library.register_fake("helitune_test::twice", torch.empty_like, lib=library)
        assert counted(lambda x: torch.ops.helitune_test.twice(x), meta(M)) is None


def test_a_worker_at_its_memory_limit_is_not_asked_again() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        raise MemoryError

    with pytest.raises(MemoryError):
        counted(reference, meta(M))


def test_nothing_is_computed_and_nothing_is_changed() -> None:
    def in_place(x: torch.Tensor, huge: torch.Tensor) -> torch.Tensor:
        return x.add_(1) @ huge

    x = torch.ones(1, 1 << 20, dtype=torch.bfloat16)
    assert counted(in_place, x, meta(1 << 20, 1 << 20)) == {"bf16": 2 << 40}
    assert bool((x == 1).all())


def test_prints_of_a_reference_stay_off_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    assert counted(lambda x: print("called") or x, meta(M)) == {}
    assert capfd.readouterr().out == ""


def test_a_model_counts_with_its_weights_and_stays_usable(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    workload = load_workload(tmp_path / "model.py", None, None, ["f16[2,16,64]"])
    projections, attention = 4 * 2 * 2 * 16 * 64 * 64, 4 * 2 * 16 * 16 * 64
    convolution = 2 * 2 * 4 * 62 * 16 * 3
    assert workload_flops(workload, 0) == FlopCount({"f16": projections + attention + convolution})
    assert workload.reference is not None
    output = workload.reference(*workload.make_inputs(0, device="cpu"))
    assert output.shape == (2, 4, 62) and bool(torch.isfinite(output).all())


def with_flops(file: str, flops: tuple[int, ...]) -> LoadedWorkload:
    loaded = load_workload(KERNELS / file, None, None, [])
    values = {name: getattr(loaded, name) for name in loaded.__dataclass_fields__}
    return LoadedWorkload(**{**values, "declared_flops": flops})


def test_what_a_workload_declares_counts_instead() -> None:
    assert workload_flops(with_flops("plain.py", (7, 9)), 1) == FlopCount({"f32": 9})


def test_without_a_reference_there_is_no_count() -> None:
    assert workload_flops(load_workload(KERNELS / "plain.py", None, "self", []), 0) is None


def test_stated_flops_are_of_the_dtype_that_is_multiplied_most() -> None:
    shape = parse_args("bf16[4,4] f32[64,64] i64[99,99] 2.0")
    assert stated_flops(10, FlopCount({"f16": 9, "f32": 2}), shape) == FlopCount({"f16": 10})
    assert stated_flops(10, FlopCount({}), shape) == FlopCount({"f32": 10})
    assert stated_flops(10, None, parse_args("bf16[64,64] f32[4] i64[99,99]")) == FlopCount({"bf16": 10})
    assert stated_flops(10, None, parse_args("i64[4]<4")) == FlopCount({"f32": 10})


def test_a_count_in_json() -> None:
    count = FlopCount({"bf16": 3, "f32": 4})
    assert FlopCount.from_json(count.to_json()) == count and count.total == 7


@pytest.mark.parametrize("record", [None, [], 3, {"f16": 1.5}, {"f16": -1}, {"f17": 1}, {"f16": True}])
def test_what_is_no_count_is_refused(record: Any) -> None:
    with pytest.raises(ValueError):
        FlopCount.from_json(record)
