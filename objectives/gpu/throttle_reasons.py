"""Why a GPU's clock is where it is: NVML's bitmask in words, and which of them mean that it was held down.

Values and meaning: NVML API Reference Guide, "NvmlClocksEventReasons" (nvml.h).
"""

from __future__ import annotations

from collections.abc import Iterable

NOT_READABLE = "not_readable"
"""Stands in the record where NVML does not tell the reasons; it counts as no throttling."""

REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}

THROTTLING = frozenset(
    {
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "board_limit",
    }
)
"""Heat or a fault took the clock below what was asked for, and may take it elsewhere in the next block.

`sw_power_cap` does not count: a GEMM on free clocks runs at the board's power limit all the time (16 of 16
rounds on an H200), and both arms of a round with it. Nor do the others: an idle GPU is not held down; clocks set
for applications, for the display or for a sync boost group are a setting, the same for every block; and
`reliability` is the voltage limit, which a GPU that is not limited by anything else boosts up to.
"""


def named(mask: int) -> tuple[str, ...]:
    """The names of the bits of NVML's mask, lowest first; a bit that is not known here as "bit_0x800"."""
    bits = (1 << place for place in range(mask.bit_length()) if mask >> place & 1)
    return tuple(REASONS.get(bit, f"bit_{bit:#x}") for bit in bits)


def throttling(reasons: Iterable[str]) -> tuple[str, ...]:
    """Those of the reasons that count as throttling; empty where the clock was free or set on purpose."""
    return tuple(reason for reason in reasons if reason in THROTTLING)
