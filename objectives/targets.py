"""The GPUs that a candidate can be compiled for without one: their limits and their rates.

Per compute capability (warps, blocks, registers, shared memory): CUDA C++ Programming Guide, appendix
"Compute Capabilities", table of technical specifications. Allocation units (256 registers a warp, 4 warps,
128 bytes of shared memory) and the 1 KiB that the system reserves in each block: CUDA occupancy calculator,
in Nsight Compute.

Per product (SMs, clocks, memory), each the largest published figure, clocks being boost clocks:

- A100: NVIDIA A100 80 GB SXM datasheet; Ampere architecture whitepaper (L2).
- RTX A6000: its datasheet; Ampere GA102 whitepaper.
- L40S: its datasheet; Ada architecture whitepaper (L2).
- H200: NVIDIA H200 SXM datasheet; Hopper architecture whitepaper (L2).
- B200: NVIDIA HGX B200 datasheet; the SM count, clock and L2 are those the CUDA driver reports.
- RTX PRO 6000: NVIDIA RTX PRO 6000 Blackwell datasheet; RTX Blackwell whitepaper. It stands for sm_120
  rather than the RTX 5090 (170 SMs, 32 GB) because it is the data-centre and workstation part.

They rank candidates against one another; a wrong clock or bandwidth moves all of them together.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from helitune.acfs.errors import InputError

KIB = 1024
MIB = 1024 * KIB
GB = 10**9


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU to compile for. Units stand in the names; counts are per SM where the name says so.

    `shared_per_block_optin_bytes` is the most that a block may ask for, static and dynamic together, without
    the `shared_per_block_reserved_bytes` that the system adds.
    """

    arch: str
    name: str
    capability: tuple[int, int]
    sms: int
    max_warps_per_sm: int
    max_blocks_per_sm: int
    shared_per_sm_bytes: int
    l2_bytes: int
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    sm_clock_hz: float
    registers_per_sm: int = 65536
    register_allocation_unit: int = 256
    warp_allocation_granularity: int = 4
    max_registers_per_thread: int = 255
    shared_per_block_reserved_bytes: int = KIB
    shared_allocation_unit_bytes: int = 128
    max_threads_per_block: int = 1024
    issue_slots_per_cycle: int = 4

    @property
    def shared_per_block_optin_bytes(self) -> int:
        """Bytes of shared memory that one block may use: the SM's less the reserved KiB (every one below)."""
        return self.shared_per_sm_bytes - self.shared_per_block_reserved_bytes


def _target(
    arch: str,
    name: str,
    *,
    sms: int,
    warps: int,
    blocks: int,
    shared_kib: int,
    l2_mib: int,
    memory_gb: int,
    bandwidth_gb_s: int,
    clock_mhz: int,
) -> Target:
    number = int(arch.removeprefix("sm_"))
    return Target(
        arch=arch,
        name=name,
        capability=divmod(number, 10),
        sms=sms,
        max_warps_per_sm=warps,
        max_blocks_per_sm=blocks,
        shared_per_sm_bytes=shared_kib * KIB,
        l2_bytes=l2_mib * MIB,
        memory_bytes=memory_gb * GB,
        memory_bandwidth_bytes_per_s=float(bandwidth_gb_s * GB),
        sm_clock_hz=clock_mhz * 1e6,
    )


TARGETS: dict[str, Target] = {
    target.arch: target
    for target in (
        _target(
            "sm_80", "NVIDIA A100 80GB SXM",
            sms=108, warps=64, blocks=32, shared_kib=164,
            l2_mib=40, memory_gb=80, bandwidth_gb_s=2039, clock_mhz=1410,
        ),
        _target(
            "sm_86", "NVIDIA RTX A6000",
            sms=84, warps=48, blocks=16, shared_kib=100,
            l2_mib=6, memory_gb=48, bandwidth_gb_s=768, clock_mhz=1800,
        ),
        _target(
            "sm_89", "NVIDIA L40S",
            sms=142, warps=48, blocks=24, shared_kib=100,
            l2_mib=96, memory_gb=48, bandwidth_gb_s=864, clock_mhz=2520,
        ),
        _target(
            "sm_90", "NVIDIA H200",
            sms=132, warps=64, blocks=32, shared_kib=228,
            l2_mib=50, memory_gb=141, bandwidth_gb_s=4800, clock_mhz=1980,
        ),
        _target(
            "sm_100", "NVIDIA B200",
            sms=148, warps=64, blocks=32, shared_kib=228,
            l2_mib=126, memory_gb=180, bandwidth_gb_s=8000, clock_mhz=1965,
        ),
        _target(
            "sm_120", "NVIDIA RTX PRO 6000 Blackwell",
            sms=188, warps=48, blocks=24, shared_kib=100,
            l2_mib=128, memory_gb=96, bandwidth_gb_s=1792, clock_mhz=2617,
        ),
    )
}  # fmt: skip


def find_target(text: str) -> Target:
    """The target that `text` names: "sm_90", "sm90", "90", "9.0", with or without a suffix a or f."""
    match = re.fullmatch(r"(?:sm_?)?(\d+)\.?(\d)[af]?", text.strip().lower())
    target = TARGETS.get(f"sm_{match[1]}{match[2]}") if match else None
    if target is None:
        known = ", ".join(f"{arch} ({target.name})" for arch, target in TARGETS.items())
        raise InputError(f"unknown target {text!r}", next_step=f"choose one of {known}")
    return target


def spelled(target: Target) -> str:
    """The target as one argument of a command line, which `read_target` reads."""
    return json.dumps(asdict(target))


def read_target(argument: str) -> Target:
    """The target that `spelled` gave, or that a user named."""
    if not argument.startswith("{"):
        return find_target(argument)
    fields: dict[str, Any] = json.loads(argument)
    return Target(**{**fields, "capability": tuple(fields["capability"])})
