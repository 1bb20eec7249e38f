"""The bounds: what rounds differently passes, and the smallest errors that are seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helitune.objectives.agreement import compare
from helitune.objectives.outputs import expected_outputs
from helitune.objectives.tolerance import fp8_steps, rms

HALF = (torch.float16, torch.bfloat16)
FLOATS = (*HALF, torch.float32)
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def draw(*size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def agrees(candidate: torch.Tensor, reference: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> bool:
    expected = expected_outputs(reference, inputs)
    assert expected.exact is not None
    return compare(candidate, expected.reference.returned, expected.exact.returned).agrees


def summed_in_blocks(a: torch.Tensor, b: torch.Tensor, block: int) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(0, a.shape[1], block):
        total += a[:, k : k + block].float() @ b[k : k + block].float()
    return total.to(a.dtype)


@each_float
@pytest.mark.parametrize("k", [16, 512, 4096])
@pytest.mark.parametrize("block", [1, 16, 64])
def test_a_product_summed_in_another_order_passes(dtype: torch.dtype, k: int, block: int) -> None:
    a, b = draw(96, k, dtype=dtype), draw(k, 96, dtype=dtype, seed=1)
    assert agrees(summed_in_blocks(a, b, block), torch.matmul, a, b)


@each_float
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_softmax_in_float32_by_other_operations_passes(dtype: torch.dtype, size: int) -> None:
    x = draw(64, size, dtype=dtype)
    shifted = torch.exp2((x.float() - x.float().amax(1, keepdim=True)) * 1.4426950408889634)
    assert agrees((shifted / shifted.sum(1, keepdim=True)).to(dtype), lambda t: torch.softmax(t, 1), x)


@each_float
@pytest.mark.parametrize("scale", [1.0, 64.0, 1e-3])
def test_a_layer_norm_with_another_formula_for_the_variance_passes(dtype: torch.dtype, scale: float) -> None:
    x = (draw(64, 1024, dtype=torch.float32) * scale).to(dtype)
    row = x.float()
    mean = row.mean(1, keepdim=True)
    variance = (row * row).mean(1, keepdim=True) - mean * mean
    candidate = ((row - mean) / torch.sqrt(variance + 1e-5)).to(dtype)
    assert agrees(candidate, lambda t: torch.nn.functional.layer_norm(t, (1024,)), x)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("keys", [16, 64, 1024])
def test_attention_that_rounds_its_weights_passes(dtype: torch.dtype, keys: int) -> None:
    q, k, v = (draw(4, n, 64, dtype=dtype, seed=i) for i, n in enumerate((128, keys, keys)))
    weights = torch.softmax(q.float() @ k.float().transpose(1, 2) / 8, -1).to(dtype)
    candidate = (weights.float() @ v.float()).to(dtype)
    assert agrees(candidate, torch.nn.functional.scaled_dot_product_attention, q, k, v)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_a_gelu_rounded_after_every_operation_passes(dtype: torch.dtype) -> None:
    x = draw(64, 512, dtype=dtype)
    candidate = 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))
    assert agrees(candidate, torch.nn.functional.gelu, x)


@each_float
@pytest.mark.parametrize("magnitude", [1.0, 1e-2, 1e-4])
def test_zeros_never_pass(dtype: torch.dtype, magnitude: float) -> None:
    x = (draw(64, 256, dtype=torch.float32) * magnitude).to(dtype)
    assert agrees(x.float().sin().to(dtype), torch.sin, x)
    assert not agrees(torch.zeros_like(x), torch.sin, x)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
def test_zeros_do_not_pass_for_outputs_around_1e_6(dtype: torch.dtype) -> None:
    x = (draw(64, 256, dtype=torch.float32) * 1e-6).to(dtype)
    assert not agrees(torch.zeros_like(x), torch.sin, x)


@each_float
def test_one_element_off_by_5_percent_fails(dtype: torch.dtype) -> None:
    a, b = draw(64, 256, dtype=dtype), draw(256, 64, dtype=dtype, seed=1)
    candidate = torch.matmul(a, b)
    typical = int((candidate.double().abs() - rms(candidate.double(), candidate == candidate)).abs().argmin())
    candidate.view(-1)[typical] *= 1.05
    assert not agrees(candidate, torch.matmul, a, b)


@each_float
def test_a_row_of_zeros_fails(dtype: torch.dtype) -> None:
    a, b = draw(64, 256, dtype=dtype), draw(256, 64, dtype=dtype, seed=1)
    candidate = torch.matmul(a, b)
    candidate[17] = 0
    assert not agrees(candidate, torch.matmul, a, b)


@each_float
def test_everything_shifted_by_one_index_fails(dtype: torch.dtype) -> None:
    x = draw(64, 256, dtype=dtype)
    assert not agrees(torch.softmax(x, 1).roll(1, dims=1), lambda t: torch.softmax(t, 1), x)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_an_offset_is_seen_in_the_whole_before_it_is_seen_in_an_element(dtype: torch.dtype) -> None:
    a, b = draw(64, 256, dtype=dtype), draw(256, 64, dtype=dtype, seed=1)
    exact = a.double() @ b.double()
    step = torch.finfo(dtype).eps * rms(exact, exact == exact)
    assert agrees((exact + 0.3 * step).to(dtype), torch.matmul, a, b)
    found = compare((exact + 2 * step).to(dtype), a @ b, exact).outputs[0]
    assert found.reason == "value"
    assert "whole output" in found.detail


def test_an_offset_of_1e_4_fails_in_float32() -> None:
    a, b = draw(64, 256, dtype=torch.float32), draw(256, 64, dtype=torch.float32, seed=1)
    assert not agrees(a @ b * 1.0001, torch.matmul, a, b)


def test_what_pytorch_gets_wrong_itself_is_not_asked_of_a_kernel() -> None:
    x = draw(8, 4096, dtype=torch.bfloat16)
    rounded_twice = (x + 256) - 256
    # another kernel that cancels in bf16, the other way round
    candidate = (x - 256) + 256
    assert agrees(candidate, lambda t: (t + 256) - 256, x)
    assert not compare(candidate, x, x.double()).agrees
    assert not torch.equal(candidate, rounded_twice)


def test_tf32_products_pass_only_where_they_are_announced() -> None:
    a, b = draw(128, 512, dtype=torch.float32), draw(512, 128, dtype=torch.float32, seed=1)
    short = [((t.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32) for t in (a, b)]
    candidate, exact = short[0] @ short[1], a.double() @ b.double()
    assert compare(candidate, a @ b, exact, tf32=True).agrees
    assert not compare(candidate, a @ b, exact).agrees
    assert not compare(candidate * 1.02, a @ b, exact, tf32=True).agrees


@pytest.mark.parametrize("dtype", (torch.float8_e4m3fn, torch.float8_e5m2), ids=str)
def test_fp8_may_be_one_step_off_in_few_elements(dtype: torch.dtype) -> None:
    exact = draw(64, 256, dtype=torch.float32).to(dtype)
    one_step = exact.view(torch.uint8).clone()
    one_step[0, :16] += 1
    two_steps = exact.view(torch.uint8).clone()
    two_steps[0, 5] += 2
    everywhere = exact.view(torch.uint8) + 1
    assert compare(one_step.view(dtype), exact, exact.double()).agrees
    assert not compare(two_steps.view(dtype), exact, exact.double()).agrees
    assert not compare(everywhere.view(dtype), exact, exact.double()).agrees
    assert not compare(torch.zeros_like(exact), exact, exact.double()).agrees


def test_fp8_steps_count_across_zero() -> None:
    values = torch.tensor([0.0, -0.0, 2.0**-9, -(2.0**-9), 1.0]).to(torch.float8_e4m3fn)
    zero = torch.zeros(5).to(torch.float8_e4m3fn)
    assert fp8_steps(values, zero).tolist() == [0, 0, 1, 1, 56]


def test_rms_neither_overflows_nor_vanishes() -> None:
    for size in (1e300, 1e-300, 1.0):
        values = torch.full((10,), size, dtype=torch.float64)
        assert rms(values, values > 0) == pytest.approx(size)
    assert rms(torch.tensor([3.0, float("inf")]).double(), torch.tensor([True, False])) == 3.0
    assert rms(torch.zeros(0).double(), torch.zeros(0, dtype=torch.bool)) == 0.0
