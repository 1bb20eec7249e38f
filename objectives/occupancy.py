"""How many blocks of a kernel one SM holds at a time: the CUDA occupancy calculator's formula.

Source: the calculator in Nsight Compute and "Execution Configuration / Occupancy" in the CUDA C++ Best
Practices Guide. Registers are allocated by the warp, in units of 256, out of the four register files of an SM
(hence warps come in fours); shared memory by the block, in units of 128 bytes, 1 KiB of it for the system.
"""

from __future__ import annotations

from dataclasses import dataclass

from helitune.objectives.targets import Target

WARP_THREADS = 32


@dataclass(frozen=True, slots=True)
class Residency:
    """What one SM holds at a time: blocks, their warps, and the limit that allows no more.

    `limited_by` is "warps", "blocks", "registers" or "shared memory"; blocks is 0 if not even one fits.
    """

    blocks: int
    warps: int
    limited_by: str


def resident_blocks(
    target: Target, threads_per_block: int, registers_per_thread: int, shared_bytes: int
) -> Residency:
    """The residency of blocks of so many threads, registers a thread and bytes of shared memory.

    Shared memory is static and dynamic together. Raises ValueError for less than one thread or negative
    amounts.
    """
    if threads_per_block < 1 or registers_per_thread < 0 or shared_bytes < 0:
        raise ValueError(
            f"no block: {threads_per_block} threads, {registers_per_thread} registers, {shared_bytes} bytes"
        )
    warps = -(-threads_per_block // WARP_THREADS)
    limits = {
        "warps": target.max_warps_per_sm // warps if threads_per_block <= target.max_threads_per_block else 0,
        "blocks": target.max_blocks_per_sm,
        "registers": _by_registers(target, warps, registers_per_thread),
        "shared memory": _by_shared_memory(target, shared_bytes),
    }
    limited_by = min(limits, key=lambda limit: limits[limit])
    blocks = limits[limited_by]
    return Residency(blocks, blocks * warps, limited_by)


def occupancy(target: Target, threads_per_block: int, registers_per_thread: int, shared_bytes: int) -> float:
    """Resident warps over the SM's maximum, 0.0 to 1.0."""
    held = resident_blocks(target, threads_per_block, registers_per_thread, shared_bytes)
    return held.warps / target.max_warps_per_sm


def _by_registers(target: Target, warps: int, registers_per_thread: int) -> int:
    if registers_per_thread > target.max_registers_per_thread:
        return 0
    if registers_per_thread == 0:
        return target.max_blocks_per_sm
    a_warp = _round_up(registers_per_thread * WARP_THREADS, target.register_allocation_unit)
    held_warps = _round_down(target.registers_per_sm // a_warp, target.warp_allocation_granularity)
    return held_warps // warps


def _by_shared_memory(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_per_block_optin_bytes:
        return 0
    a_block = _round_up(
        shared_bytes + target.shared_per_block_reserved_bytes, target.shared_allocation_unit_bytes
    )
    return target.shared_per_sm_bytes // a_block


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _round_down(value: int, unit: int) -> int:
    return value // unit * unit
