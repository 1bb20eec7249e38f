"""How close a time comes to what the machine can do at most: the share of the memory or the compute limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from helitune.objectives.flop_count import FlopCount
from helitune.objectives.limits_record import MachineLimits

Bound = Literal["memory", "compute", "unknown"]

MARGIN = 0.15
"""How much faster than the fastest measured transfer a kernel may be before it is called impossible.

GPUs' memory transfers at 85 to 93 % of what its clock and bus width allow, so that a kernel beyond this margin
is beyond the hardware too.
"""

_LATENCY_MS = 0.002
"""Below about two microseconds, starting and ending a kernel takes longer than its work."""


@dataclass(frozen=True, slots=True)
class LimitShare:
    """One time of one call against the machine's limits.

    `limit_ms` is how long the bytes take at copy bandwidth or the FLOPs at their GEMM rate, whichever is longer
    and gives `bound` its name; `share` is limit_ms / ms: 1 is the limit. Both are None where bound is "unknown".
    `unrated` names the dtypes whose FLOPs have no measured rate; None instead of FLOPs: not known.
    """

    ms: float
    bound: Bound
    limit_ms: float | None
    share: float | None
    bytes_moved: int | None
    flops: int | None
    unrated: tuple[str, ...] = ()

    @property
    def bytes_per_s(self) -> float | None:
        """The bytes that had to be moved over the time."""
        return None if self.bytes_moved is None else self.bytes_moved / (self.ms / 1e3)

    @property
    def flops_per_s(self) -> float | None:
        """The FLOPs that had to be done over the time."""
        return None if self.flops is None else self.flops / (self.ms / 1e3)

    def words(self) -> str:
        """For reports: "87 % of the memory limit (42.0 MB in 11.2 us: 3.74 of 4.31 TB/s)", with what to doubt."""
        if self.bound == "unknown" or self.limit_ms is None or self.share is None:
            return "share of the limit unknown"
        work, unit = (self.bytes_moved, "B") if self.bound == "memory" else (self.flops, "FLOP")
        assert work is not None
        most = work / (self.limit_ms / 1e3)
        reached = most * self.share
        prefix, _ = _prefix(most)
        return (
            f"{100 * self.share:.0f} % of the {self.bound} limit ({_scaled(work)}{unit} in {_time(self.ms)}: "
            f"{_digits(reached / prefix)} of {_scaled(most)}{unit}/s{self._doubts()})"
        )

    def _doubts(self) -> str:
        doubts = []
        if self.unrated:
            doubts.append(f"without its {'/'.join(self.unrated)} FLOPs, whose rate is not measured")
        elif self.flops is None:
            doubts.append("its FLOPs are not known")
        if self.share is not None and self.share > 1.02:
            doubts.append("more than the limit: less was moved or done than counted, or it was in the cache")
        elif self.limit_ms is not None and self.limit_ms < _LATENCY_MS:
            doubts.append("so little work that starting the kernel counts for more")
        return "".join(f"; {doubt}" for doubt in doubts)

    def to_json(self) -> dict[str, Any]:
        """The share and what it was made of in JSON's types."""
        return {
            "bound": self.bound,
            "share": self.share,
            "ms": self.ms,
            "limit_ms": self.limit_ms,
            "bytes_moved": self.bytes_moved,
            "bytes_per_s": self.bytes_per_s,
            "flops": self.flops,
            "flops_per_s": self.flops_per_s,
            "unrated": list(self.unrated),
        }


def limit_share(
    ms: float, bytes_moved: int | None, flops: FlopCount | None, limits: MachineLimits | None
) -> LimitShare:
    """The share of the limit that a call of `ms` milliseconds reaches, moving these bytes and doing these FLOPs.

    Without limits, or with neither bytes nor rated FLOPs, the bound is "unknown". ValueError for no time.
    """
    if not (math.isfinite(ms) and ms > 0):
        raise ValueError(f"{ms} ms is no time")
    memory_ms = compute_ms = 0.0
    unrated: tuple[str, ...] = ()
    if limits is not None:
        memory_ms = 1e3 * (bytes_moved or 0) / limits.copy_bytes_per_s
        compute_ms, unrated = _compute_ms(flops, limits)
    limit_ms = max(memory_ms, compute_ms)
    bound: Bound = "unknown" if limit_ms == 0 else "memory" if memory_ms >= compute_ms else "compute"
    return LimitShare(
        ms=ms,
        bound=bound,
        limit_ms=limit_ms or None,
        share=limit_ms / ms if limit_ms else None,
        bytes_moved=bytes_moved,
        flops=None if flops is None else flops.total,
        unrated=unrated,
    )


def fastest_possible_ms(
    bytes_moved: int, limits: MachineLimits, *, cold: bool, margin: float = MARGIN
) -> float:
    """Milliseconds below which no kernel can move `bytes_moved` to and from memory; 0 where nothing is known.

    By the fastest of copy, read and write, and `margin` beyond it. `cold` says that none of these bytes can have
    been in the L2 cache; what can have been (an output that each launch writes to the same place, say) is to be
    left out of them. What this cannot know: a gather reads less than the whole tensor that bytes are counted
    by, so that the baseline must pass before a candidate is refused.
    """
    return 1e3 * bytes_moved / (limits.fastest_bytes_per_s * (1 + margin)) if cold else 0.0


def why_impossible(
    ms: float, bytes_moved: int, limits: MachineLimits, *, cold: bool, margin: float = MARGIN
) -> str | None:
    """Why a candidate cannot have done its work in `ms` milliseconds, for its trial; None where it can."""
    if ms >= fastest_possible_ms(bytes_moved, limits, cold=cold, margin=margin):
        return None
    rate = bytes_moved / (ms / 1e3) if ms > 0 else math.inf
    return (
        f"{_scaled(bytes_moved)}B in {_time(ms)} is {_scaled(rate)}B/s; "
        f"this GPU's memory gives {_scaled(limits.fastest_bytes_per_s)}B/s"
    )


def _compute_ms(flops: FlopCount | None, limits: MachineLimits) -> tuple[float, tuple[str, ...]]:
    """How long the FLOPs take, each at its dtype's rate, and the dtypes that have none."""
    total, unrated = 0.0, []
    for dtype, count in flops.by_dtype.items() if flops else ():
        rate = limits.rate(dtype)
        if rate is None and count:
            unrated.append(dtype)
        elif rate is not None:
            total += 1e3 * count / rate
    return total, tuple(unrated)


def _prefix(value: float) -> tuple[float, str]:
    """The power of 1000 that leaves 1 to 999 of `value`, and its letter."""
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * factor:
            return factor, letter
    return 1.0, ""


def _scaled(value: float) -> str:
    """Three digits and a prefix, to be followed by the unit: "42.0 M", "3.74 T"."""
    factor, letter = _prefix(value)
    return f"{_digits(value / factor)} {letter}"


def _digits(value: float) -> str:
    """Three significant digits, none of them an exponent."""
    if not math.isfinite(value) or value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _time(ms: float) -> str:
    return (
        f"{_digits(1e3 * ms)} us" if ms < 0.09995 else f"{_digits(ms)} ms" if ms >= 9.995 else f"{ms:.3f} ms"
    )
