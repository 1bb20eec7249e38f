"""What was measured of a candidate: rounds in which it stood beside the kernel's own config."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .json_fields import flag, integer, number, numbers, optional


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """One round: the samples of each arm in milliseconds a launch, and the GPU's state after it.

    `order` spells the arms as they ran: A the own config, B the candidate. Clock and temperature are None
    where the driver does not tell.
    """

    order: str
    base_ms: tuple[float, ...]
    candidate_ms: tuple[float, ...]
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttled: bool = False

    @property
    def ratio(self) -> float:
        """The candidate's time over the own config's, of medians: below 1 is faster."""
        return statistics.median(self.candidate_ms) / statistics.median(self.base_ms)


@dataclass(frozen=True, slots=True)
class ShapeTimes:
    """A candidate's time on one shape: `ratios` to the own config, one a round, and medians in milliseconds.

    `coarse` marks one that was so slow that a few single launches told enough.
    """

    ms: float
    base_ms: float
    ratios: tuple[float, ...]
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttled_rounds: int = 0
    coarse: bool = False

    @classmethod
    def of(cls, rounds: list[RoundTimes]) -> ShapeTimes:
        """The summary of one or more rounds."""
        clocks = [one.sm_clock_mhz for one in rounds if one.sm_clock_mhz is not None]
        temperatures = [one.temperature_c for one in rounds if one.temperature_c is not None]
        return cls(
            ms=statistics.median(ms for one in rounds for ms in one.candidate_ms),
            base_ms=statistics.median(ms for one in rounds for ms in one.base_ms),
            ratios=tuple(one.ratio for one in rounds),
            sm_clock_mhz=statistics.median(clocks) if clocks else None,
            temperature_c=max(temperatures) if temperatures else None,
            throttled_rounds=sum(one.throttled for one in rounds),
        )

    @property
    def ratio(self) -> float:
        """The candidate's time over the own config's: the median over rounds."""
        return statistics.median(self.ratios)

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {**asdict(self), "ratios": list(self.ratios)}

    @classmethod
    def from_json(cls, fields: Any) -> ShapeTimes:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        ratios = numbers(fields, "ratios")
        if not ratios or min(ratios) <= 0:
            raise ValueError("ratios: not one or more numbers above 0")
        return cls(
            ms=number(fields, "ms"),
            base_ms=number(fields, "base_ms"),
            ratios=ratios,
            sm_clock_mhz=optional(number, fields, "sm_clock_mhz"),
            temperature_c=optional(number, fields, "temperature_c"),
            throttled_rounds=integer(fields, "throttled_rounds"),
            coarse=flag(fields, "coarse"),
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """What the GPU process says of a candidate: its times, or why there are none (`stage` and `message`).

    `spent_s` says where the process's own time went.
    """

    shapes: tuple[ShapeTimes, ...] = ()
    max_rel_error: float = 0.0
    stage: str = ""
    message: str = ""
    spent_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """The own config on the GPU: `wrong` is "" or how a shape disagrees with the reference; else one entry a shape.

    `cold` says that inputs were really out of the L2 cache, where that was asked for; `mutated_bytes` are those of
    arguments that the kernel changes, which it must write besides what it returns; `launches` is how many launches
    one sample takes.
    """

    wrong: str
    ms: tuple[float, ...]
    cold: tuple[bool, ...]
    mutated_bytes: tuple[int, ...]
    max_rel_error: float
    launches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Race:
    """How long a candidate is timed: all get `first` rounds, those within `reach` of the own config `near`.

    `reach` is a ratio of times; `replays` the samples of each block.
    """

    reach: float = math.inf
    first: int = 2
    near: int = 6
    replays: int = 3
