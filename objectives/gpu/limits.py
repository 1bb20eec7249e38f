"""What this GPU does at most: bytes per second of its memory, FLOPs per second of large matrix products.

Measured as kernels are: with CUDA events around single launches of a full queue, the median of many. Of several
ways to do the same, the fastest counts, since a limit is what nothing has passed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch

from helitune.acfs.errors import MachineError
from helitune.objectives.limits_record import MachineLimits

Call = Callable[[], object]

MOST_BUFFER_BYTES = 1 << 30
L2S_IN_A_BUFFER = 4
"""A buffer smaller than so many L2 caches would measure the cache."""

SETTLING_MS = 100.0
"""How long the GPU copies before anything counts: an idle one needs that to raise its clocks."""

REPEATS = 20
MEASURING_MS = 60.0
"""Launches stop at this much time, but not before three of them."""

SIZES = (2048, 4096, 8192)
LONG_ENOUGH_MS = 1.0
"""A product that takes this long keeps the GPU busy: larger ones are no faster."""

_NOT_MULTIPLIED = (RuntimeError, ValueError, TypeError, AttributeError)
"""What torch raises for a dtype or GPU that it cannot multiply: not supported, no such dtype, other signature."""


def measure_limits() -> MachineLimits:
    """The limits of the current CUDA device, in about a second; MachineError where its memory is too full."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # torch deprecates set_float32_matmul_precision, whose successor older versions lack
            warnings.simplefilter("ignore")
            copy, read, write = _memory_rates(_buffer_bytes())
            torch.cuda.empty_cache()
            rates = {dtype: _product_rate(product) for dtype, product in _PRODUCTS.items()}
    finally:
        torch.cuda.empty_cache()
    return MachineLimits(
        copy_bytes_per_s=copy,
        read_bytes_per_s=read,
        write_bytes_per_s=write,
        flops_per_s={dtype: rate for dtype, rate in rates.items() if rate is not None},
    )


def _buffer_bytes() -> int:
    """Bytes of each of the two buffers: large, but a small part of what is free."""
    free, _ = torch.cuda.mem_get_info()
    size = int(min(MOST_BUFFER_BYTES, free // 8)) >> 20 << 20
    l2_bytes = int(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size)
    if size < max(L2S_IN_A_BUFFER * l2_bytes, 16 << 20):
        raise MachineError(
            f"only {free >> 20} MiB of the GPU's memory are free, too little to measure its bandwidth",
            next_step="end what else uses the GPU (nvidia-smi lists it)",
        )
    return size


def _memory_rates(size: int) -> tuple[float, float, float]:
    """Bytes per second of a copy (read and written), of reading, and of writing `size` bytes."""
    source = torch.rand(size // 4, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)
    rows = source.view(-1, 1 << 13)
    copies: list[Call] = [partial(target.copy_, source), partial(torch.neg, source, out=target)]
    reads: list[Call] = [source.sum, partial(torch.sum, rows, dim=1), partial(torch.amax, rows, dim=1)]
    writes: list[Call] = [partial(target.fill_, 1.5), target.zero_]
    _settle(copies[0])
    return (
        _per_s(2 * size, _fastest_ms(copies)),
        _per_s(size, _fastest_ms(reads)),
        _per_s(size, _fastest_ms(writes)),
    )


def _product_rate(product: Callable[[int], Call]) -> float | None:
    """FLOPs per second of the fastest n³ product; None where this torch on this GPU has none of this dtype."""
    best: float | None = None
    for n in SIZES:
        try:
            ms = _median_ms(product(n))
        except _NOT_MULTIPLIED:  # at a larger size: out of memory
            break
        best = max(best or 0.0, _per_s(2 * n**3, ms))
        if ms >= LONG_ENOUGH_MS:
            break
    return best


def _plain(dtype: torch.dtype, n: int) -> Call:
    """a @ b."""
    # random values: multiplying zeros draws less power, and goes faster than any real product
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float32).to(dtype) for _ in range(2))
    return partial(torch.matmul, a, b, out=torch.empty_like(a))


def _f32(precision: str, n: int) -> Call:
    """a @ b for f32; "high" multiplies it on tensor cores, as tf32, "highest" does not."""
    product = _plain(torch.float32, n)

    def call() -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            product()
        finally:
            torch.set_float32_matmul_precision(before)

    return call


def _fp8(n: int) -> Call:
    """a @ bᵀ in f8e4m3 with one scale a matrix and bf16 output, the layout that the hardware takes."""
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda", dtype=torch.float32)
    return partial(
        torch._scaled_mm, a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


_PRODUCTS: dict[str, Callable[[int], Call]] = {
    "f16": partial(_plain, torch.float16),
    "bf16": partial(_plain, torch.bfloat16),
    "f8e4m3": _fp8,
    "tf32": partial(_f32, "high"),
    "f32": partial(_f32, "highest"),
    "f64": partial(_plain, torch.float64),
}


def _settle(call: Call) -> None:
    spent_ms = 0.0
    while spent_ms < SETTLING_MS:
        spent_ms += sum(_times_ms(call, 10))


def _fastest_ms(calls: Sequence[Call]) -> float:
    return min(map(_median_ms, calls))


def _median_ms(call: Call) -> float:
    """Milliseconds of one call, after two that load its code and grow its workspace."""
    _, once_ms = _times_ms(call, 2)
    repeats = max(3, min(REPEATS, int(MEASURING_MS / once_ms)))
    return median(_times_ms(call, repeats))


def _times_ms(call: Call, repeats: int) -> list[float]:
    """Milliseconds of each call, all of them queued before the first is waited for."""
    marks = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)
    ]
    for start, end in marks:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in marks]


def _per_s(amount: int, ms: float) -> float:
    return amount / (ms / 1e3)
