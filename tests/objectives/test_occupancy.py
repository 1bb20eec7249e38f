from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helitune.objectives.occupancy import Residency, occupancy, resident_blocks
from helitune.objectives.targets import KIB, TARGETS, find_target

# by hand from the formula; 228 KiB and 64 warps an SM on sm_90, 100 KiB and 48 warps on sm_86, sm_89
CASES = [
    ("sm_90", 256, 32, 0, Residency(8, 64, "warps")),
    ("sm_90", 128, 255, 0, Residency(2, 8, "registers")),  # 8160 -> 8192 registers a warp: 8 warps
    ("sm_90", 32, 80, 0, Residency(24, 24, "registers")),  # 25 warps would fit, but they come in fours
    ("sm_90", 384, 168, 0, Residency(1, 12, "registers")),
    ("sm_90", 1024, 64, 0, Residency(1, 32, "registers")),
    ("sm_90", 32, 16, 0, Residency(32, 32, "blocks")),
    ("sm_90", 128, 32, 100 * KIB, Residency(2, 8, "shared memory")),
    ("sm_90", 128, 32, 113 * KIB, Residency(2, 8, "shared memory")),  # with the reserved KiB exactly half
    ("sm_90", 128, 32, 113 * KIB + 1, Residency(1, 4, "shared memory")),
    ("sm_90", 128, 32, 227 * KIB, Residency(1, 4, "shared memory")),
    ("sm_90", 128, 32, 227 * KIB + 1, Residency(0, 0, "shared memory")),
    ("sm_90", 1024, 65, 0, Residency(0, 0, "registers")),  # 72 registers after rounding: 28 warps
    ("sm_90", 128, 256, 0, Residency(0, 0, "registers")),
    ("sm_90", 1056, 16, 0, Residency(0, 0, "warps")),
    ("sm_86", 256, 32, 0, Residency(6, 48, "warps")),
    ("sm_86", 32, 16, 0, Residency(16, 16, "blocks")),
    ("sm_89", 32, 16, 0, Residency(24, 24, "blocks")),
    ("sm_80", 128, 40, 163 * KIB, Residency(1, 4, "shared memory")),
]


@pytest.mark.parametrize(("arch", "threads", "registers", "shared", "expected"), CASES)
def test_by_hand(arch: str, threads: int, registers: int, shared: int, expected: Residency) -> None:
    assert resident_blocks(find_target(arch), threads, registers, shared) == expected


def test_occupancy_is_a_share_of_the_warps() -> None:
    target = find_target("sm_90")
    assert occupancy(target, 256, 32, 0) == 1.0
    assert occupancy(target, 128, 255, 0) == 8 / 64


def test_a_part_of_a_warp_takes_a_whole_one() -> None:
    target = find_target("sm_90")
    assert resident_blocks(target, 33, 32, 0) == resident_blocks(target, 64, 32, 0)


@pytest.mark.parametrize(("threads", "registers", "shared"), [(0, 32, 0), (32, -1, 0), (32, 32, -1)])
def test_impossible_amounts_are_refused(threads: int, registers: int, shared: int) -> None:
    with pytest.raises(ValueError, match="no block"):
        resident_blocks(find_target("sm_90"), threads, registers, shared)


@given(
    st.sampled_from(sorted(TARGETS)),
    st.integers(1, 1024),
    st.integers(1, 254),
    st.integers(0, 226 * KIB),
    st.integers(0, KIB),
)
def test_asking_for_more_never_holds_more(
    arch: str, threads: int, registers: int, shared: int, more: int
) -> None:
    target = find_target(arch)
    held = resident_blocks(target, threads, registers, shared)
    assert resident_blocks(target, threads, registers + 1, shared).blocks <= held.blocks
    assert resident_blocks(target, threads, registers, shared + more).blocks <= held.blocks
    assert held.warps <= target.max_warps_per_sm
    used = held.blocks * (shared + target.shared_per_block_reserved_bytes)
    assert used <= target.shared_per_sm_bytes
    assert held.warps * 32 * registers <= target.registers_per_sm
