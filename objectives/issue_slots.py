"""A model that ranks compiled candidates without a GPU: SM cycles to issue instructions or move bytes.

For each launch, on the SM that gets the most blocks, wave after wave of as many as it holds at a time:

    cycles of a wave = instructions a warp executes x max(resident warps / 4, 4)

An SM has four schedulers, each issues one warp instruction a cycle (CUDA C++ Programming Guide, compute
capability 8.x and 9.0: "4 warp schedulers"). An instruction that needs the result of the one before follows
four cycles later at the earliest (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018; later architectures are alike), so a warp is charged at least four cycles an
instruction, and four warps fill a scheduler. If blocks do unequal work, the heaviest block alone is a lower
bound.

Bytes: what the workload must move, at the memory's bandwidth; and spills, taken to stay in L2, at the 64
bytes a cycle that the port from L2 to one SM is wide. Cycles are the larger of the two sums.

Left out: latency of memory, tensor core rates, cache misses, bank conflicts, host time. The unit is cycles,
and the number ranks candidates of one workload: it is not a run time, and ratios of it are no speedups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from helitune.objectives.artifact import Artifact
from helitune.objectives.occupancy import WARP_THREADS, Residency, resident_blocks
from helitune.objectives.targets import Target

DEPENDENT_ISSUE_CYCLES = 4
SPILL_BYTES_PER_CYCLE = 64


class DoesNotFit(ValueError):
    """The launch cannot run on the target; the message says what it asks for and what there is."""


@dataclass(frozen=True, slots=True)
class IssueSlots:
    """The model's result for all launches of one call.

    `cycles` is the larger of `issue_cycles` and `memory_cycles`. `waves` are those of all launches together,
    `resident_blocks` the fewest of any, `executed_per_warp` instructions of one warp in each launch,
    `underived` the source lines of loops of unknown length.
    """

    cycles: float
    issue_cycles: float
    memory_cycles: float
    bound_by: Literal["issue", "memory"]
    waves: int
    resident_blocks: int
    executed_per_warp: float
    underived: tuple[int, ...]


def issue_slots(launches: Sequence[Artifact], target: Target, bytes_moved: int) -> IssueSlots:
    """The model's cycles for one call: its launches one after another, and the bytes that it must move.

    Raises DoesNotFit if a launch exceeds a limit of the target, ValueError without launches.
    """
    if not launches:
        raise ValueError("a candidate without a kernel launch has nothing to rank")
    held = [residency(launch, target) for launch in launches]
    issue = sum(_issue_cycles(launch, target, fits) for launch, fits in zip(launches, held, strict=True))
    memory = bytes_moved / target.memory_bandwidth_bytes_per_s * target.sm_clock_hz
    memory += sum(_spill_cycles(launch, target) for launch in launches)
    return IssueSlots(
        cycles=max(issue, memory),
        issue_cycles=issue,
        memory_cycles=memory,
        bound_by="issue" if issue >= memory else "memory",
        waves=sum(_waves(launch, target, fits) for launch, fits in zip(launches, held, strict=True)),
        resident_blocks=min(fits.blocks for fits in held),
        executed_per_warp=sum(launch.executed for launch in launches),
        underived=tuple(sorted({line for launch in launches for line in launch.underived})),
    )


def residency(launch: Artifact, target: Target) -> Residency:
    """How many blocks of the launch one SM holds; raises DoesNotFit if none."""
    threads = launch.num_warps * WARP_THREADS
    held = resident_blocks(target, threads, launch.registers, launch.shared_bytes)
    if held.blocks > 0:
        return held
    asked, limit = {
        "warps": (f"{threads} threads a block", f"{target.max_threads_per_block}"),
        "registers": (
            f"{launch.registers} registers a thread in blocks of {threads} threads",
            f"{target.registers_per_sm} registers an SM, {target.max_registers_per_thread} a thread",
        ),
        "shared memory": (
            f"{launch.shared_bytes} bytes of shared memory a block",
            f"{target.shared_per_block_optin_bytes}",
        ),
    }[held.limited_by]
    raise DoesNotFit(f"{asked}: {target.name} has {limit}")


def _blocks_on_fullest_sm(launch: Artifact, target: Target) -> int:
    return -(-launch.blocks // target.sms)


def _waves(launch: Artifact, target: Target, held: Residency) -> int:
    return -(-_blocks_on_fullest_sm(launch, target) // held.blocks)


def _issue_cycles(launch: Artifact, target: Target, held: Residency) -> float:
    blocks = _blocks_on_fullest_sm(launch, target)
    full, rest = divmod(blocks, held.blocks)
    cycles = full * _wave_cycles(launch, target, held.blocks) + _wave_cycles(launch, target, rest)
    heaviest = launch.imbalance * _wave_cycles(launch, target, min(1, blocks))
    return max(cycles, heaviest)


def _wave_cycles(launch: Artifact, target: Target, blocks: int) -> float:
    if blocks == 0:
        return 0.0
    per_instruction = max(blocks * launch.num_warps / target.issue_slots_per_cycle, DEPENDENT_ISSUE_CYCLES)
    return launch.executed * per_instruction


def _spill_cycles(launch: Artifact, target: Target) -> float:
    """Cycles of the fullest SM's spill traffic; ptxas counts bytes in the code, not in the run."""
    if launch.instructions == 0:
        return 0.0
    runs = launch.executed / launch.instructions
    threads = _blocks_on_fullest_sm(launch, target) * launch.num_warps * WARP_THREADS
    return launch.spill_bytes * runs * threads / SPILL_BYTES_PER_CYCLE
