"""What `ptxas -v` says a kernel uses."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class PtxasUsage:
    """Registers and bytes of stack and spills per thread; static shared memory and barriers per block.

    `shared_bytes` is None where ptxas prints none: the kernel has no static shared memory.
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int | None
    barriers: int


def parse_ptxas_log(text: str) -> PtxasUsage:
    """The usage printed in `text`, the stderr of `ptxas -v`.

    Of several functions the largest stands for registers, shared memory and barriers (that is what a block
    must be given), and the sum for stack and spills. Raises ValueError where ptxas printed no usage.
    """
    used = _USED.findall(text)
    if not used:
        raise ValueError("ptxas printed no register usage: was it run with -v?")
    frames = [tuple(map(int, frame)) for frame in _FRAME.findall(text)]
    rest = "\n".join(tail for _, tail in used)
    shared = [int(amount) for amount in _SHARED.findall(rest)]
    return PtxasUsage(
        registers=max(int(registers) for registers, _ in used),
        stack_bytes=sum(frame[0] for frame in frames),
        spill_store_bytes=sum(frame[1] for frame in frames),
        spill_load_bytes=sum(frame[2] for frame in frames),
        shared_bytes=max(shared, default=None),
        barriers=max((int(count) for count in _BARRIERS.findall(rest)), default=0),
    )
