"""Amounts of bytes and FLOPs: what people write, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helitune.acfs.errors import InputError
from helitune.cli.amounts import bytes_moved, flops, one_a_shape


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("84000000", (84_000_000,)),
        ("84e6", (84_000_000,)),
        ("84E+6", (84_000_000,)),
        ("84MB", (84_000_000,)),
        ("84 mb", (84_000_000,)),
        ("80MiB", (80 << 20,)),
        ("1.5GiB", (3 << 29,)),
        ("0.5 kB", (500,)),
        ("1KiB", (1024,)),
        ("1B", (1,)),
        ("0.1TB", (100_000_000_000,)),
        ("2.5TiB", (5 << 39,)),
        ("1PiB", (1 << 50,)),
        ("123456789.123456789GB", (123_456_789_123_456_789,)),
        (" 84MB , 80MiB,1e3", (84_000_000, 80 << 20, 1000)),
    ],
)
def test_bytes(text: str, amounts: tuple[int, ...]) -> None:
    found = bytes_moved(text, "--bytes")
    assert found == amounts and all(type(amount) is int for amount in found)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("1.2e9", (1_200_000_000,)),
        ("1.2GFLOP", (1_200_000_000,)),
        ("1.2 gflops", (1_200_000_000,)),
        ("137.4 TFLOP", (137_400_000_000_000,)),
        ("7FLOP", (7,)),
        ("0", (0,)),
        ("0,1PFLOP", (0, 10**15)),
    ],
)
def test_flops(text: str, amounts: tuple[int, ...]) -> None:
    assert flops(text, "--flops") == amounts


NOT_BYTES = [
    "",
    ",",
    "84MB,",
    "lots",
    "84M",
    "84G",
    "84Mb/s",
    "84GFLOP",
    "-84MB",
    "inf",
    "nan",
    "1e",
    "1e9999",
]


@pytest.mark.parametrize(
    "text", [*NOT_BYTES, "٨MB", "1_000", "0x10", "84 M B", ".5MB", "1;2", "1" * 50 + "x"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot read the size") as raised:
        bytes_moved(text, "--bytes")
    assert raised.value.where == "--bytes" and "84MB" in raised.value.next_step
    assert len(raised.value.line()) < 200


@pytest.mark.parametrize("text", ["", "fast", "1.2GB", "1.2G", "790TFLOP/s", "-1"])
def test_what_are_no_flops_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot read the FLOPs") as raised:
        flops(text, "--flops")
    assert raised.value.where == "--flops" and "1.2GFLOP" in raised.value.next_step


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (bytes_moved, "0"),
        (bytes_moved, "0.4B"),
        (bytes_moved, "1e-9"),
        (bytes_moved, "1e19"),
        (bytes_moved, "1e999"),
        (bytes_moved, "9" * 10_000),
        (bytes_moved, "1MB,0MB"),
        (flops, "1001PFLOP"),
    ],
)
def test_amounts_out_of_range_are_refused(parse: Callable[[str, str], tuple[int, ...]], text: str) -> None:
    with pytest.raises(InputError, match="out of range") as raised:
        parse(text, "--bytes")
    assert "1e18" in raised.value.next_step and len(raised.value.line()) < 200


def test_one_amount_a_shape() -> None:
    assert one_a_shape([1, 2], 2, "--bytes") == (1, 2)
    with pytest.raises(InputError, match="1 amount for 2 shapes") as raised:
        one_a_shape([1], 2, "--bytes")
    assert raised.value.where == "--bytes" and "comma" in raised.value.next_step
    with pytest.raises(InputError, match=r"2 amounts for 1 shape \("):
        one_a_shape([1, 2], 1, "--flops")
