"""Scaled-down shapes keep relations, layouts and index ranges; narrowed tensors keep their values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helitune.acfs.errors import MachineError
from helitune.objectives import scaled_inputs
from helitune.objectives.scaled_inputs import ScaledInputs, narrowed
from helitune.objectives.scaling import elements, factors, scaled_shapes, scaled_strides
from helitune.search.args import format_shape, parse_args
from helitune.search.workload import ScalarArg, Shape, TensorArg


def scaled(text: str, factor: int) -> str:
    return format_shape(scaled_shapes(parse_args(text), factor))


@pytest.mark.parametrize(
    ("text", "factor", "smaller"),
    [
        ("f16[4096,2560]", 4, "f16[1024,640]"),
        ("f16[4096,2560]", 1, "f16[4096,2560]"),
        # 2·i stays twice i, b·s stays the product with b kept
        ("f16[512,28672] f16[14336]", 8, "f16[64,3584] f16[1792]"),
        ("f16[8,1024] f16[8192]", 8, "f16[8,128] f16[1024]"),
        # small dimensions and those the factor does not divide stay
        ("f16[128,1000]", 16, "f16[128,1000]"),
        # scalars and constants that name a dimension go with it; others, and bools, do not
        ("f16[4096,64] 4096 4095 64 1e-5 True", 16, "f16[256,64] 256 4095 64 1e-05 True"),
        ("f16[4096] i32[1]=4096 f32[1]=4096", 16, "f16[256] i32[1]=256 f32[1]=4096"),
        # limits of integer values, whether they equal a dimension or not
        ("f32[32000,64] i64[4096]<32000", 8, "f32[4000,64] i64[512]<4000"),
        ("f32[32064,64] i64[4096]=0..32000 i64[4096]<8", 8, "f32[4008,64] i64[512]=0..4000 i64[512]<8"),
        ("f32[4096]=0..1000 i32[4096]~perm", 8, "f32[512]=0..1000 i32[512]~perm"),
        ("i32[4096]=600..800", 8, "i32[512]=600..800"),
        # column-major, padded and expanded layouts
        ("f16[4096,256]{1,4096}", 4, "f16[1024,64]{1,1024}"),
        ("f16[4096,256]{512,1}", 4, "f16[1024,64]{128,1}"),
        ("f16[4096,256]{0,1}", 4, "f16[1024,64]{0,1}"),
    ],
)
def test_scaled_shapes(text: str, factor: int, smaller: str) -> None:
    assert scaled(text, factor) == smaller


def test_factors_go_from_the_one_below_the_limit_down_to_one() -> None:
    shape = parse_args("f16[4096,4096] f16[4096]")
    assert factors(shape) == [8, 4, 2, 1]
    assert elements(scaled_shapes(shape, 8)) < 2**20 < elements(scaled_shapes(shape, 4))
    assert factors(shape, limit_elements=2**30) == [1]


def test_no_dimension_is_scaled_below_64() -> None:
    shape = parse_args("f16[65536,256]")
    assert factors(shape, limit_elements=1) == [4, 2, 1]
    assert factors(parse_args("f16[128,128,128]"), limit_elements=1) == [1]
    assert factors(parse_args("1e-5 3"), limit_elements=1) == [1]


def test_a_prime_dimension_does_not_stop_the_others() -> None:
    assert scaled("f32[8192,50257]", 128) == "f32[64,50257]"
    assert factors(parse_args("f32[8192,50257]"))[0] == 128


DIMS = st.sampled_from([1, 3, 64, 128, 130, 256, 1000, 4096])


@given(st.lists(DIMS, min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8]), st.permutations(range(4)))
def test_a_dense_layout_stays_dense_in_the_same_order(dims: list[int], factor: int, order: list[int]) -> None:
    ranks = [i for i in order if i < len(dims)]
    strides = (
        torch.empty([dims[i] for i in ranks], device="meta")
        .permute(*map(ranks.index, range(len(dims))))
        .stride()
    )
    (small,) = scaled_shapes((TensorArg("f16", tuple(dims), tuple(strides)),), factor)
    assert isinstance(small, TensorArg)
    addressed = 1 + sum((size - 1) * stride for size, stride in zip(small.shape, small.strides, strict=True))
    assert addressed == torch.Size(small.shape).numel()
    # ties are dimensions of size 1, whose stride says nothing
    real = [i for i in range(len(dims)) if dims[i] > 1]
    assert sorted(real, key=lambda i: -strides[i]) == sorted(real, key=lambda i: -small.strides[i])


@given(st.lists(DIMS, min_size=1, max_size=3), st.sampled_from([2, 4, 8]))
def test_a_scaled_shape_is_never_larger(dims: list[int], factor: int) -> None:
    shape: Shape = parse_args(f"f16[{','.join(map(str, dims))}] {dims[0]}")
    small = scaled_shapes(shape, factor)
    assert elements(small) <= elements(shape)
    assert isinstance(small[0], TensorArg) and isinstance(small[1], ScalarArg)
    assert small[1].value == small[0].shape[0]


def test_padding_shrinks_in_proportion() -> None:
    assert scaled_strides([4096, 256], [512, 1], [1024, 64]) == (128, 1)
    assert scaled_strides([2, 4096], [8192, 1], [2, 512]) == (1024, 1)


def test_narrowed_parts_hold_the_full_tensors_values() -> None:
    x = torch.arange(512 * 1024, dtype=torch.float32).reshape(512, 1024)
    bias = torch.arange(1024, dtype=torch.float32)
    first, second = narrowed([x, bias, 512, 1e-5], 4, 0), narrowed([x, bias, 512, 1e-5], 4, 1)
    assert torch.equal(first[0], x[:128, :256])
    assert torch.equal(second[0], x[128:256, 256:512])
    assert torch.equal(second[1], bias[256:512])
    assert second[2:] == [128, 1e-5]
    assert second[0].is_contiguous()


def test_narrowed_tensors_keep_their_layout() -> None:
    column_major = torch.randn(1024, 512).t()
    expanded = torch.arange(512.0).expand(1024, 512)
    padded = torch.randn(512, 1024)[:, :512]
    small = narrowed([column_major, expanded, padded], 4, 0)
    assert [tuple(tensor.stride()) for tensor in small] == [(1, 128), (0, 1), (256, 1)]
    assert torch.equal(small[0], column_major[:128, :256])
    assert torch.equal(small[1], expanded[:256, :128])


def test_indices_stay_inside_the_dimension_they_index() -> None:
    table, indices = torch.randn(32000, 64), torch.randint(0, 32000, (256,))
    flags, ignored = torch.ones(256, dtype=torch.int32), torch.tensor([-100, 31999] * 128)
    bytes_ = torch.arange(256).to(torch.uint8)
    small = narrowed([table, indices, flags, ignored, bytes_], 2, 0)
    assert torch.equal(small[1], indices[:128] % 16000)
    assert torch.equal(small[2], flags[:128])
    assert small[3].tolist() == [-100, 15999] * 64
    assert torch.equal(small[4], bytes_[:128])


def test_a_tensor_passed_twice_stays_one_and_lists_are_narrowed() -> None:
    x = torch.randn(512, 64)
    small = narrowed([x, [x, torch.randn(256)], "text"], 2, 0)
    assert small[1][0] is small[0]
    assert small[1][1].shape == (128,)
    assert small[2] == "text"


class _Made:
    """What ScaledInputs reads of a workload whose inputs a function makes."""

    def __init__(self, *size: int) -> None:
        self.made: list[int] = []
        self.shapes = (parse_args(f"f32[{','.join(map(str, size))}]~given"),)
        self.record = type("Record", (), {"inputs": "inputs"})()

    def make_inputs(self, index: int, *, device: str, seed: int) -> list[torch.Tensor]:
        self.made.append(seed)
        size = self.shapes[index][0].shape
        return [torch.randn(size, generator=torch.Generator(device).manual_seed(seed))]


def test_full_size_inputs_are_made_once_while_their_parts_suffice() -> None:
    made = _Made(512, 512)
    inputs = ScaledInputs(made, 0, 5)  # type: ignore[arg-type]
    draws = [inputs.arguments(4, draw)[0] for draw in range(3)]
    assert made.made == [5]
    assert not any(torch.equal(draws[i], draws[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    whole = [inputs.arguments(1, draw)[0] for draw in range(2)]
    assert made.made == [5, 6]
    assert not torch.equal(*whole)


def test_inputs_beyond_the_memory_are_refused_before_they_are_made() -> None:
    made = _Made(2**21, 2**21)
    with pytest.raises(MachineError) as error:
        ScaledInputs(made, 0, 0).arguments(4, 0)  # type: ignore[arg-type]
    assert not made.made
    assert "--args" in error.value.line()


def test_the_free_memory_of_this_machine_is_known() -> None:
    lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
    total = next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemTotal:")), 2**60)
    assert 2**20 < scaled_inputs._available_bytes() <= total


def test_overlapping_windows_keep_their_values() -> None:
    windows = torch.arange(1024.0).unfold(0, 512, 1)
    (small,) = narrowed([windows], 2, 0)
    assert torch.equal(small, windows[:, :256])
