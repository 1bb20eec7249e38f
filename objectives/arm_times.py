"""Rounds in which several arms stand side by side: the raw samples of a validation or a calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .json_fields import mapping, number, numbers, optional, texts

SAMPLES = 5
"""Samples of an arm each time its turn comes, twice in a round; one takes SAMPLE_MS or more."""

FEWER_SAMPLES = 3
LONG_SAMPLE_MS = 20.0
"""An arm whose samples take this long has FEWER_SAMPLES of them: still six in a round."""

SAMPLE_MS = 1.0


@dataclass(frozen=True, slots=True)
class ArmRound:
    """One round on one shape: each arm's samples in milliseconds a launch, and the GPU's state after it.

    `order` is how the arms ran in the first half; in the second half they ran the other way round. Clock and
    temperature are None where the driver does not tell.
    """

    order: tuple[str, ...]
    samples_ms: Mapping[str, tuple[float, ...]]
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types; samples with seven digits, more than an event can tell apart."""
        return {
            "order": list(self.order),
            "samples_ms": {
                arm: [float(f"{ms:.7g}") for ms in samples] for arm, samples in self.samples_ms.items()
            },
            "sm_clock_mhz": self.sm_clock_mhz,
            "temperature_c": self.temperature_c,
            "throttle_reasons": list(self.throttle_reasons),
        }

    @classmethod
    def from_json(cls, fields: Any) -> ArmRound:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        order, samples = texts(fields, "order"), mapping(fields, "samples_ms")
        if len(set(order)) != len(order) or set(order) != set(samples):
            raise ValueError("order: not each of the arms of samples_ms once")
        return cls(
            order=order,
            samples_ms={arm: _times(samples, arm) for arm in order},
            sm_clock_mhz=optional(number, fields, "sm_clock_mhz"),
            temperature_c=optional(number, fields, "temperature_c"),
            throttle_reasons=texts(fields, "throttle_reasons"),
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """How the arms of one shape are timed: launches a sample, samples a turn, and what a launch takes.

    `ms` are rough times, arm by arm, from before the rounds. `cold` says that inputs are out of the L2 cache.
    """

    launches: int
    samples: int
    ms: Mapping[str, float]
    cold: bool

    @property
    def round_ms(self) -> float:
        """What a round of all arms takes."""
        return 2 * self.samples * self.launches * sum(self.ms.values())

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {"launches": self.launches, "samples": self.samples, "ms": dict(self.ms), "cold": self.cold}


def _times(samples: Mapping[str, Any], arm: str) -> tuple[float, ...]:
    times = numbers(samples, arm)
    if not times or min(times) <= 0:
        raise ValueError(f"{arm}: not one or more times above 0")
    return times


def samples_for(sample_ms: float) -> int:
    """How many samples an arm has in each of its turns, where one takes `sample_ms`."""
    return SAMPLES if sample_ms < LONG_SAMPLE_MS else FEWER_SAMPLES


def launches_for(ms: Sequence[float], sets: int, most: int) -> int:
    """Launches a sample so that it takes SAMPLE_MS with the fastest arm, and visits every set of inputs."""
    fastest = max(min(ms), 1e-6)
    wanted = max(math.ceil(SAMPLE_MS / fastest), sets)
    return max(1, min(wanted, most))
