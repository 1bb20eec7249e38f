"""What is measured as a machine's limits: on a GPU by its figures, without one by the calls that are made."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from helitune.acfs.errors import MachineError
from helitune.objectives.cpu_redirect import cuda_means_cpu
from helitune.objectives.gpu import limits
from helitune.objectives.limits_record import MachineLimits

GB, TERA = 1e9, 1e12


class StandInEvent:
    """A CUDA event for the CPU: every call between two of them took a millisecond."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        pass

    def elapsed_time(self, end: StandInEvent) -> float:
        return 1.0


@pytest.fixture
def cpu_as_gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """torch.cuda as far as it is asked, with 128 MiB free and an L2 cache of 1 MiB; small matrices."""
    monkeypatch.setattr(torch.cuda, "Event", StandInEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (128 << 20, 1 << 30))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=1 << 20))
    monkeypatch.setattr(limits, "SIZES", (16, 32))
    monkeypatch.setattr(limits, "SETTLING_MS", 1.0)
    monkeypatch.setattr(limits, "REPEATS", 3)
    return monkeypatch


def test_every_call_is_one_that_torch_takes_and_counts_its_bytes(cpu_as_gpu: pytest.MonkeyPatch) -> None:
    precision = torch.get_float32_matmul_precision()
    with cuda_means_cpu():
        measured = limits.measure_limits()
    size = 16 << 20  # an eighth of what is free
    assert measured.copy_bytes_per_s == pytest.approx(2 * size / 1e-3)
    assert measured.read_bytes_per_s == pytest.approx(size / 1e-3)
    assert measured.write_bytes_per_s == pytest.approx(size / 1e-3)
    assert measured.flops_per_s == dict.fromkeys(
        ("f16", "bf16", "f8e4m3", "tf32", "f32", "f64"), pytest.approx(2 * 16**3 / 1e-3)
    )
    assert torch.get_float32_matmul_precision() == precision


def test_a_dtype_that_cannot_be_multiplied_is_absent(cpu_as_gpu: pytest.MonkeyPatch) -> None:
    def refused(n: int) -> Callable[[], object]:
        raise RuntimeError("_scaled_mm is only supported on ...")

    cpu_as_gpu.setitem(limits._PRODUCTS, "f8e4m3", refused)
    with cuda_means_cpu():
        assert set(limits.measure_limits().flops_per_s) == {"f16", "bf16", "tf32", "f32", "f64"}


def test_larger_products_are_tried_until_one_keeps_the_gpu_busy(cpu_as_gpu: pytest.MonkeyPatch) -> None:
    times = iter([0.1, 0.2, 5.0])
    tried: list[int] = []
    cpu_as_gpu.setattr(limits, "_median_ms", lambda call: next(times))
    cpu_as_gpu.setattr(limits, "SIZES", (10, 20, 40, 80))

    def product(n: int) -> Callable[[], object]:
        tried.append(n)
        return lambda: None

    assert limits._product_rate(product) == pytest.approx(2 * 20**3 / 0.2e-3)
    assert tried == [10, 20, 40]


def test_a_full_gpu_is_an_error_with_what_to_do(cpu_as_gpu: pytest.MonkeyPatch) -> None:
    cpu_as_gpu.setattr(torch.cuda, "mem_get_info", lambda: (100 << 20, 1 << 30))
    with pytest.raises(MachineError, match="100 MiB") as raised:
        limits.measure_limits()
    assert "nvidia-smi" in raised.value.next_step


@pytest.mark.gpu
def test_the_limits_of_this_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    precision = torch.get_float32_matmul_precision()
    measured = limits.measure_limits()
    assert torch.get_float32_matmul_precision() == precision
    rates = (measured.copy_bytes_per_s, measured.read_bytes_per_s, measured.write_bytes_per_s)
    assert all(50 * GB < rate < 20_000 * GB for rate in rates)
    assert max(rates) < 2 * min(rates)
    assert {"f16", "f32", "f64"} <= set(measured.flops_per_s)
    assert all(0.1 * TERA < rate < 10_000 * TERA for rate in measured.flops_per_s.values())
    capability = torch.cuda.get_device_capability()
    if capability >= (8, 0):
        assert measured.flops_per_s["bf16"] > 1.5 * measured.flops_per_s["f32"]
        assert measured.flops_per_s["tf32"] > measured.flops_per_s["f32"]
    if capability >= (9, 0):
        assert measured.flops_per_s["f8e4m3"] > 1.3 * measured.flops_per_s["f16"]
    assert MachineLimits.from_json(measured.to_json()) == measured


@pytest.mark.gpu
def test_an_h200_gives_what_it_gave_before() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    if "H200" not in torch.cuda.get_device_name():
        pytest.skip("no H200")
    measured = limits.measure_limits()
    # "device copy about 4.3 TB/s, bf16 GEMM about 790 TFLOP/s"; its memory's peak is 4.8 TB/s
    assert 3.9 * TERA < measured.copy_bytes_per_s < 4.8 * TERA
    assert 3.0 * TERA < measured.read_bytes_per_s < 4.8 * TERA
    assert 2.5 * TERA < measured.write_bytes_per_s < 4.8 * TERA
    assert 600 * TERA < measured.flops_per_s["bf16"] < 989 * TERA
