"""Tensors from their description and back, and inputs functions written for CUDA on a machine without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from helitune.acfs.errors import InputError
from helitune.objectives.cpu_redirect import cuda_means_cpu
from helitune.objectives.discovery import load_workload
from helitune.objectives.inputs import TORCH_DTYPES, describe, fake_arguments, make_arguments
from helitune.objectives.inputs_function import call_inputs, call_inputs_fake, map_tensors
from helitune.search.args import parse_args
from helitune.search.dtypes import DTYPES
from helitune.search.workload import ScalarArg, TensorArg

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"
HERE = Path(__file__)


def made(text: str, seed: int = 0) -> torch.Tensor:
    (tensor,) = make_arguments(parse_args(text), device="cpu", seed=seed)
    assert isinstance(tensor, torch.Tensor)
    return tensor


DRAWN = [dtype for dtype, of in DTYPES.items() if of.kind != "opaque"]


@pytest.mark.parametrize("dtype", DRAWN)
@pytest.mark.parametrize("layout", ["[6,4]", "[6,4]{1,6}", "[6,4]{8,2}", "[6,4]{0,1}", "[6,4]{1,1}", "[]"])
@pytest.mark.parametrize("values", ["", "=1", "=zeros", "=ones", "<2", "=0..2"])
def test_every_dtype_layout_and_kind_of_values(dtype: str, layout: str, values: str) -> None:
    (wanted,) = parse_args(f"{dtype}{layout}{values}")
    tensor = made(f"{dtype}{layout}{values}")
    (described,) = describe([tensor])
    assert isinstance(wanted, TensorArg)
    assert described == TensorArg(dtype, wanted.shape, wanted.strides, "given")
    if values:
        numbers = set(tensor.double().flatten().tolist())
        fixed: dict[str, set[float]] = {"=1": {1.0}, "=zeros": {0.0}, "=ones": {1.0}}
        assert numbers == fixed[values] if values in fixed else all(0 <= n <= 2 for n in numbers)


def test_default_values() -> None:
    normal = made("f32[10000]")
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05
    assert set(made("i64[100]").tolist()) == {0, 1}
    assert set(made("bool[100]").tolist()) == {False, True}
    quantised = made("i8[10000]")
    assert (quantised.min(), quantised.max()) == (-128, 127)


def test_ranges() -> None:
    tokens = made("i64[10000]<50")
    assert (tokens.min(), tokens.max()) == (0, 49)
    small = made("i32[1000]=-3..3")
    assert set(small.tolist()) == {-3, -2, -1, 0, 1, 2}
    wide = made("f16[1000]=-60000..60000").float()
    assert wide.isfinite().all()
    assert wide.abs().max() > 30000


def test_a_permutation_in_any_layout() -> None:
    for text in ("i32[24]~perm", "i32[4,6]{1,4}~perm", "i64[24]{3}~perm"):
        assert sorted(made(text).flatten().tolist()) == list(range(24))
    assert sorted(made("i32[5,24]{0,1}~perm")[3].tolist()) == list(range(24))


def test_layouts_share_elements_only_where_asked() -> None:
    assert made("f32[3,4]{0,1}").unique(dim=0).shape == (1, 4)
    window = made("f32[3,4]{1,1}")
    assert torch.equal(window[1, :3], window[0, 1:])
    assert made("f32[50,40]{1,50}").unique().numel() > 1900


def test_the_seed_decides() -> None:
    assert torch.equal(made("f16[32]", seed=3), made("f16[32]", seed=3))
    assert not torch.equal(made("f16[32]", seed=3), made("f16[32]", seed=4))
    first, second = make_arguments(parse_args("f16[32] f16[32]"), device="cpu", seed=0)
    assert not torch.equal(first, second)


def test_given_values_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="given by the kernel file"):
        make_arguments((TensorArg("f16", (4,), (1,), "given"),), device="cpu", seed=0)


def test_fake_arguments_have_everything_but_values() -> None:
    shape = parse_args("bf16[128,256]{1,128} f8e4m3[1000000,9999] bool[] f4e2m1x2[8]~given 3 None")
    arguments = fake_arguments(shape, FakeTensorMode())
    assert all(isinstance(a, FakeTensor) and a.device.type == "cuda" for a in arguments[:4])
    assert arguments[4:] == [3, None]
    for arg, tensor in zip(shape[:4], arguments, strict=False):
        assert isinstance(arg, TensorArg)
        assert (TORCH_DTYPES[arg.dtype], arg.shape, arg.strides) == (
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
        )


def test_what_is_no_tensor_is_described_the_same_in_every_process() -> None:
    class Plain:
        pass

    values = [True, 2, 0.5, None, "text", torch.float16, torch.relu, lambda x: x, Plain(), print]
    values += [[torch.zeros(2, 3), 1], {"a": torch.zeros(4)}, torch.zeros(2, 2).to_sparse()]
    values += [torch.nn.Parameter(torch.ones(2))]
    described = describe(values)
    assert described[:5] == tuple(map(ScalarArg, (True, 2, 0.5, None, "text")))
    assert described[5] == ScalarArg("torch.float16")
    assert described[10] == ScalarArg("list(f32[2,3], 1)")
    assert described[11] == ScalarArg("dict(a=f32[4])")
    assert described[12] == ScalarArg("float32[2,2]")
    assert described[13] == TensorArg("f32", (2,), (1,), "given")
    assert not any("0x" in str(arg) for arg in described)


# ---- inputs functions


def test_inputs_written_for_cuda_run_on_the_cpu() -> None:
    workload = load_workload(KERNELS / "cuda_inputs.py", None, None, [])
    arguments = workload.make_inputs(0, device="cpu")
    assert [(a.device.type, tuple(a.shape)) for a in arguments] == [("cpu", (32,))] * 5
    assert arguments[3].tolist() == [1.0] * 32
    generator = torch.Generator().manual_seed(1)
    assert torch.equal(arguments[0], torch.randn(32, generator=generator))
    fakes = workload.fake_arguments(0, FakeTensorMode())
    assert all(isinstance(a, FakeTensor) and a.device == torch.device("cuda", 0) for a in fakes)


def test_value_dependent_inputs_and_arguments_that_are_no_tensors() -> None:
    workload = load_workload(KERNELS / "value_dependent_inputs.py", None, None, [])
    data, offsets, epilogue, sizes, dtype = workload.make_inputs(0, device="cpu")
    assert data.shape == (offsets[-1].item(), 3)
    assert (epilogue, dtype) == (workload.module.double, torch.float16)
    assert sizes[0] is sizes[1] is offsets
    shape = workload.shapes[0]
    assert shape[2:] == (
        ScalarArg("value_dependent_inputs.double"),
        ScalarArg("list(i64[5], i64[5])"),
        ScalarArg("torch.float16"),
    )
    assert describe(workload.make_inputs(0, device="cpu")) == shape
    fakes = workload.fake_arguments(0, FakeTensorMode())
    assert isinstance(fakes[0], FakeTensor)
    assert tuple(fakes[0].shape) == tuple(data.shape)
    assert fakes[3][0] is fakes[3][1] is fakes[1]


def test_seeds_reach_inputs_functions() -> None:
    def inputs() -> Any:
        return (torch.randn(8, device="cuda"),)

    first, same, other = (call_inputs(inputs, device="cpu", seed=s, file=HERE)[0] for s in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_inputs_are_faked_without_memory() -> None:
    def inputs() -> Any:
        return [torch.randn(2**20, 2**20, device="cuda", dtype=torch.float16).t()]

    (fake,) = call_inputs_fake(inputs, FakeTensorMode(), seed=0, file=HERE)
    assert (fake.shape, fake.stride(), fake.device.type) == ((2**20, 2**20), (1, 2**20), "cuda")


def test_a_default_device_of_cuda_is_redirected_and_kept() -> None:
    torch.set_default_device("cuda:1")
    try:
        with cuda_means_cpu():
            assert torch.zeros(2).device.type == "cpu"
        assert torch.get_default_device() == torch.device("cuda:1")
    finally:
        torch.set_default_device(None)
    assert torch.Generator is torch._C.Generator


def test_only_cuda_is_redirected() -> None:
    with cuda_means_cpu():
        assert torch.empty(2, device="meta").device.type == "meta"
        assert torch.zeros(2).to("meta").device.type == "meta"
        assert torch.ones(2, device="cpu").to(torch.float16).tolist() == [1, 1]
        assert torch.nn.Linear(2, 2).cuda().weight.device.type == "cpu"


def test_map_tensors_keeps_containers_and_identity() -> None:
    tensor = torch.zeros(2)
    mapped = map_tensors((tensor, [tensor, {"a": tensor}], 3), lambda t: t + 1)
    assert mapped[0] is mapped[1][0] is mapped[1][1]["a"]
    assert (mapped[0].tolist(), mapped[2]) == ([1, 1], 3)


@pytest.mark.gpu
def test_inputs_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    (x,) = load_workload(KERNELS / "bench_model.py", None, None, []).make_inputs(0, device="cuda")
    assert x.device.type == "cuda"
    a, b = make_arguments(parse_args("f16[64,64]{1,64} i64[64]<9"), device="cuda", seed=0)
    assert (a.device.type, a.stride(), int(b.max()) < 9) == ("cuda", (1, 64), True)
