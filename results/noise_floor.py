"""The machine's A/A floor: how far apart two builds of the same kernel come out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import statistics


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """What calibration found, in log units.

    `quantile95` is the 95th percentile of |A/A| over `offsets` rebuilt baselines. `offset_variance` is the
    variance of an offset about 0 (a bias counts), with the rounds' noise, `offset_noise`, taken out.
    """

    quantile95: float
    offset_variance: float
    offset_noise: float
    offsets: int

    def __post_init__(self) -> None:
        numbers = (self.quantile95, self.offset_variance, self.offset_noise, self.offsets)
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise ValueError("a noise floor is made of finite numbers, none below 0")


def noise_floor(log_ratios: Sequence[ArrayLike]) -> NoiseFloor:
    """The floor of rebuilt baselines, one series of rounds' log(base / base again) for each.

    Variance components by moments, about 0. The percentile is an observed one, rounded up. ValueError for
    fewer than 2 baselines, fewer than 2 rounds, numbers that are not finite, or no variation at all.
    """
    each = [statistics.series(y) for y in log_ratios]
    points = statistics.series([float(y.mean()) for y in each])
    noise = float(np.mean([y.var(ddof=1) / y.size for y in each]))
    if noise == 0:
        raise ValueError("the rounds of every baseline are constant")
    return NoiseFloor(
        quantile95=float(np.quantile(np.abs(points), 0.95, method="higher")),
        offset_variance=max(0.0, float(np.mean(points**2)) - noise),
        offset_noise=noise,
        offsets=points.size,
    )
