"""Warming up ends when blocks agree, or at a cap, and says which."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain, cycle, repeat

import pytest

from helitune.objectives.gpu.warm_up import WarmUp, until_stable


def blocks(times: Iterable[float]) -> Callable[[], float]:
    """A block that takes these times, one after the other."""
    left = iter(times)
    return lambda: next(left)


def ticking(step_s: float) -> Callable[[], float]:
    """A clock that moves by `step_s` each time it is read."""
    ticks = iter(range(10**6))
    return lambda: next(ticks) * step_s


def test_equal_blocks_are_stable_as_soon_as_the_window_is_full() -> None:
    assert until_stable(blocks(repeat(2.0)), window=5, clock=ticking(0)) == WarmUp(5, True, 0.0)


def test_a_rising_clock_is_waited_for() -> None:
    rising = [3.0, 2.5, 2.2, 2.1, 2.05, 2.02, 2.001, 2.002, 2.0, 2.003, 2.001]
    assert until_stable(blocks(rising), clock=ticking(0)) == WarmUp(11, True, 0.0)


@pytest.mark.parametrize(("high", "stable"), [(1.005, True), (1.0051, False)])
def test_the_tolerance_is_a_share_of_the_least(high: float, stable: bool) -> None:
    found = until_stable(blocks(cycle([1.0, high])), tolerance=0.005, at_most=9, clock=ticking(0))
    assert (found.stable, found.blocks) == (stable, 5 if stable else 9)


def test_noise_that_never_settles_ends_at_the_cap() -> None:
    assert until_stable(blocks(cycle([1.0, 1.1])), at_most=40, clock=ticking(0)) == WarmUp(40, False, 0.0)


def test_it_ends_when_its_time_is_up_and_says_how_long_it_took() -> None:
    found = until_stable(blocks(cycle([1.0, 2.0])), at_most_s=3.0, clock=ticking(1.0))
    assert (found.blocks, found.stable) == (3, False)
    assert found.ms == 4000.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_time_that_is_none_agrees_with_nothing(bad: float) -> None:
    found = until_stable(blocks(chain(repeat(1.0, 4), [bad], repeat(1.0))), clock=ticking(0))
    assert found == WarmUp(10, True, 0.0)


def test_one_block_is_measured_even_without_any_time() -> None:
    assert until_stable(blocks([1.0]), at_most_s=0.0, clock=ticking(1.0)).blocks == 1


@pytest.mark.parametrize("wrong", [{"window": 1}, {"tolerance": -0.1}, {"tolerance": math.nan}])
def test_a_test_that_anything_passes_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no test of stability"):
        until_stable(blocks(repeat(1.0)), **wrong)  # type: ignore[arg-type]
