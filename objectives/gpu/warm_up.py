"""Warming up: repeat a block until its times agree, since a GPU that comes from idle raises its clock in steps."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How many blocks it took, whether the last of them agreed, and the milliseconds that went by."""

    blocks: int
    stable: bool
    ms: float


def until_stable(
    measure_block: Callable[[], float],
    *,
    tolerance: float = 0.005,
    window: int = 5,
    at_most: int = 200,
    at_most_s: float = 3.0,
    clock: Callable[[], float] = time.monotonic,
) -> WarmUp:
    """What warming up came to. `measure_block` runs one block and returns its time, in any unit.

    Stable is when the last `window` times lie within `tolerance` of the least of them. It ends unstable after
    `at_most` blocks or `at_most_s` seconds: noise that never settles is a result, not a reason to go on.
    """
    if window < 2 or not tolerance >= 0:
        raise ValueError(f"a window of {window} blocks within {tolerance} is no test of stability")
    started = clock()
    last: deque[float] = deque(maxlen=window)
    blocks, stable = 0, False
    while not stable and blocks < at_most and (blocks == 0 or clock() - started < at_most_s):
        last.append(measure_block())
        blocks += 1
        stable = len(last) == window and agree(last, tolerance)
    return WarmUp(blocks, stable, (clock() - started) * 1e3)


def agree(times: Collection[float], tolerance: float) -> bool:
    """Whether all times are finite, positive, and at most `tolerance` (a share) above the least."""
    # every time is looked at first: NaN makes min and max depend on the order
    usable = all(math.isfinite(time_) and time_ > 0 for time_ in times)
    return usable and max(times) <= min(times) * (1 + tolerance)
