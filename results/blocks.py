"""What validation measured: runs of rounds of blocks, an arm of a round being one block of launches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

ORDERS = ("ABBA", "BAAB")


@dataclass(frozen=True, slots=True)
class Block:
    """The time of one arm in one round: median, 95th percentile, and the spread from the 5th to the 95th."""

    median_ms: float
    p95_ms: float
    spread_ms: float

    @classmethod
    def of(cls, samples_ms: ArrayLike, least: int = 5) -> Block:
        """The block of these launches; ValueError for fewer than `least`, or any that is not finite and positive.

        Percentiles are observed samples, so that repeating every sample changes none of them.
        """
        samples = np.asarray(samples_ms, dtype=np.float64)
        if samples.ndim != 1 or samples.size < least:
            raise ValueError(f"a block needs at least {least} launches, got shape {samples.shape}")
        if not np.isfinite(samples).all() or (samples <= 0).any():
            raise ValueError("a launch took a time that is not finite and positive")
        ordered = np.sort(samples)
        # ceil(n * percent / 100) in whole numbers: rounding must not tell n samples from 10 n
        low, high = (float(ordered[-(-samples.size * percent // 100) - 1]) for percent in (5, 95))
        return cls(float(np.median(samples)), high, high - low)


@dataclass(frozen=True, slots=True)
class Round:
    """Baseline, the baseline built again (A/A), and candidate, measured side by side in the order named."""

    base: Block
    again: Block
    candidate: Block
    order: str
    throttled: bool = False

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order is {self.order!r}, not one of {', '.join(ORDERS)}")


@dataclass(frozen=True, slots=True)
class Run:
    """One process's rounds, in the order they were measured."""

    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one candidate on one shape: its runs, its code beside the baseline's, its soak.

    An empty code hash is an unknown one.
    """

    runs: tuple[Run, ...]
    code_sha256: str = ""
    base_code_sha256: str = ""
    soak_repeats: int = 0
    wrong_outputs: int = 0
