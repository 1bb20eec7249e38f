"""The share of the limit: which limit holds, how close a time comes, and what no time can be."""

from __future__ import annotations

import json
import math

import pytest

from helitune.objectives.flop_count import FlopCount
from helitune.objectives.limits_record import MachineLimits
from helitune.results.limit_share import fastest_possible_ms, limit_share, why_impossible

H200 = MachineLimits(
    copy_bytes_per_s=4.31e12,
    read_bytes_per_s=4.4e12,
    write_bytes_per_s=4.2e12,
    flops_per_s={"f16": 790e12, "tf32": 395e12, "f32": 50e12},
)
NONE = FlopCount({})
SOFTMAX_BYTES = 2 * 2 * 4096 * 2560


def test_a_kernel_bound_by_memory() -> None:
    share = limit_share(0.0112, SOFTMAX_BYTES, NONE, H200)
    assert share.bound == "memory"
    limit_ms = 1e3 * SOFTMAX_BYTES / 4.31e12
    assert share.limit_ms == pytest.approx(limit_ms)
    assert share.share == pytest.approx(limit_ms / 0.0112)
    assert share.bytes_per_s == pytest.approx(SOFTMAX_BYTES / 0.0112e-3)
    assert share.words() == "87 % of the memory limit (41.9 MB in 11.2 us: 3.74 of 4.31 TB/s)"


def test_a_kernel_bound_by_its_products() -> None:
    share = limit_share(0.245, 3 * 2 * 4096**2, FlopCount({"f16": 2 * 4096**3}), H200)
    assert share.bound == "compute"
    assert share.share == pytest.approx(2 * 4096**3 / 790e12 / 0.245e-3)
    assert share.flops_per_s == pytest.approx(2 * 4096**3 / 0.245e-3)
    assert share.words() == "71 % of the compute limit (137 GFLOP in 0.245 ms: 561 of 790 TFLOP/s)"


def test_each_dtype_goes_at_its_own_rate_and_one_after_the_other() -> None:
    share = limit_share(10.0, 0, FlopCount({"f16": int(79e12), "f32": int(39.5e12)}), H200)
    assert share.limit_ms == pytest.approx(100 + 100)
    assert share.share == pytest.approx(20)


def test_the_longer_limit_holds() -> None:
    flops = FlopCount({"f16": int(79e9)})  # 0.1 ms
    assert limit_share(1.0, int(0.99 * 431e6), flops, H200).bound == "compute"
    assert limit_share(1.0, int(1.01 * 431e6), flops, H200).bound == "memory"


def test_flops_that_are_not_known_are_said_to_be() -> None:
    share = limit_share(0.1, 431_000_000 // 2, None, H200)
    assert (share.bound, share.flops, share.flops_per_s) == ("memory", None, None)
    assert share.words() == (
        "50 % of the memory limit (216 MB in 0.100 ms: 2.15 of 4.31 TB/s; its FLOPs are not known)"
    )


def test_flops_without_a_rate_are_left_out_and_named() -> None:
    share = limit_share(0.1, 215_500_000, FlopCount({"f64": 10**12, "i8": 10**12, "c64": 0}), H200)
    assert (share.bound, share.unrated) == ("memory", ("f64", "i8"))
    assert "; without its f64/i8 FLOPs, whose rate is not measured)" in share.words()


def test_flops_alone_are_enough() -> None:
    share = limit_share(0.2, None, FlopCount({"f16": int(79e9)}), H200)
    assert (share.bound, share.bytes_moved, share.bytes_per_s) == ("compute", None, None)
    assert share.share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("bytes_moved", "flops", "limits"),
    [(1000, NONE, None), (None, None, H200), (0, NONE, H200), (None, FlopCount({"f64": 9}), H200)],
)
def test_without_limits_or_work_the_share_is_unknown(
    bytes_moved: int | None, flops: FlopCount | None, limits: MachineLimits | None
) -> None:
    share = limit_share(0.1, bytes_moved, flops, limits)
    assert (share.bound, share.limit_ms, share.share) == ("unknown", None, None)
    assert share.words() == "share of the limit unknown"


def test_more_than_the_limit_is_doubted() -> None:
    assert "; more than the limit" in limit_share(0.1, 450_000_000, NONE, H200).words()
    assert "more than" not in limit_share(0.1, 432_000_000, NONE, H200).words()


def test_a_kernel_with_hardly_any_work_is_not_told_to_be_slow() -> None:
    assert "starting the kernel counts" in limit_share(0.003, 4_310_000, NONE, H200).words()
    assert "starting the kernel" not in limit_share(0.006, 10 * 4_310_000 // 4, NONE, H200).words()


@pytest.mark.parametrize("ms", [0.0, -1.0, math.nan, math.inf])
def test_no_time_has_no_share(ms: float) -> None:
    with pytest.raises(ValueError):
        limit_share(ms, 1000, NONE, H200)


@pytest.mark.parametrize(
    ("ms", "bytes_moved", "words"),
    [
        (0.001, 999, "999 B in 1.00 us: 0.00 of 4.31 TB/s"),
        (0.0999, 999_499, "999 kB in 99.9 us"),
        (0.1, 999_500, "1.00 MB in 0.100 ms"),
        (9.99, 10**9, "1.00 GB in 9.990 ms"),
        (99.96, 10**11, "100 GB in 100 ms"),
        (12.34, 10**10, "10.0 GB in 12.3 ms"),
    ],
)
def test_amounts_in_words(ms: float, bytes_moved: int, words: str) -> None:
    assert words in limit_share(ms, bytes_moved, NONE, H200).words()


def test_in_json() -> None:
    share = limit_share(0.0112, SOFTMAX_BYTES, FlopCount({"f16": 5}), H200)
    record = json.loads(json.dumps(share.to_json()))
    assert record == {
        "bound": "memory",
        "share": share.share,
        "ms": 0.0112,
        "limit_ms": share.limit_ms,
        "bytes_moved": SOFTMAX_BYTES,
        "bytes_per_s": share.bytes_per_s,
        "flops": 5,
        "flops_per_s": share.flops_per_s,
        "unrated": [],
    }


def test_the_fastest_possible_time_is_by_the_fastest_transfer_and_a_margin() -> None:
    assert fastest_possible_ms(440_000_000, H200, cold=True, margin=0.0) == pytest.approx(0.1)
    assert fastest_possible_ms(440_000_000, H200, cold=True) == pytest.approx(0.1 / 1.15)


def test_what_may_have_been_in_the_cache_has_no_fastest_time() -> None:
    assert fastest_possible_ms(440_000_000, H200, cold=False) == 0.0
    assert why_impossible(1e-9, 440_000_000, H200, cold=False) is None


def test_an_impossible_time_is_refused_with_the_figures() -> None:
    fastest_ms = fastest_possible_ms(SOFTMAX_BYTES, H200, cold=True)
    assert why_impossible(fastest_ms * 1.001, SOFTMAX_BYTES, H200, cold=True) is None
    assert why_impossible(0.0112, SOFTMAX_BYTES, H200, cold=True) is None
    assert why_impossible(0.002, SOFTMAX_BYTES, H200, cold=True) == (
        "41.9 MB in 2.00 us is 21.0 TB/s; this GPU's memory gives 4.40 TB/s"
    )
    assert why_impossible(0.0, SOFTMAX_BYTES, H200, cold=True) is not None
