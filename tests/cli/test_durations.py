"""Durations and sizes: what people write, and where it stops making sense."""

from __future__ import annotations

import pytest

from helitune.acfs.errors import InputError
from helitune.cli.durations import memory_bytes, seconds, shown_seconds

G = 1 << 30


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("10m", 600.0),
        ("1.5h", 5400.0),
        (" 2 m ", 120.0),
        ("0.001s", 0.001),
        ("720h", 30 * 86400.0),
    ],
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text, "--time") == value


@pytest.mark.parametrize(
    "text",
    ["", "soon", "0", "0s", "0.0h", "-5s", "1e3", "inf", "nan", "1d", "1h30m", "10 minutes", "٣m", "."],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot read the duration") as raised:
        seconds(text, "--time")
    assert raised.value.where == "--time" and "10m" in raised.value.next_step


@pytest.mark.parametrize("text", ["720.1h", "43201m", "2592001", "9" * 400, "9" * 400 + ".5h", "1" * 10_000])
def test_a_duration_beyond_thirty_days_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="too long") as raised:
        seconds(text, "--time")
    assert "720h" in raised.value.next_step and len(raised.value.line()) < 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8G", 8 * G),
        ("8g", 8 * G),
        ("8GiB", 8 * G),
        ("256M", G >> 2),
        (" 512 mb ", G >> 1),
        ("1024G", 1 << 40),
    ],
)
def test_sizes(text: str, value: int) -> None:
    assert memory_bytes(text, "--compile-memory") == value
    assert type(memory_bytes(text, "--compile-memory")) is int


@pytest.mark.parametrize("text", ["", "lots", "8", "1.5G", "-8G", "8K", "8 G B", "٨G", "infG"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot read the size") as raised:
        memory_bytes(text, "--compile-memory")
    assert raised.value.where == "--compile-memory" and "8G" in raised.value.next_step


@pytest.mark.parametrize(
    "text", ["0G", "1M", "255M", "1025G", "99999999999G", "9" * 400 + "G", "1" * 10_000 + "M"]
)
def test_a_size_out_of_range_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(InputError, match="out of range") as raised:
        memory_bytes(text, "--compile-memory")
    assert "256M" in raised.value.next_step and "1024G" in raised.value.next_step
    assert len(raised.value.line()) < 200


def test_durations_for_people() -> None:
    assert shown_seconds(4.21) == "4.2 s"
    assert shown_seconds(200.9) == "3 min 20 s"
