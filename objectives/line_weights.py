"""How often each instruction of a compiled kernel runs, by source line.

Three texts are laid over one another. The source says how often its loops run (trip_counts.py). The PTX says
which of its instructions stand in a loop: Triton's pipeliner and LLVM peel, unroll and merge loops, and what
they leave outside a loop runs once. ptxas says which PTX instruction each machine instruction came from, and
often unrolls once more, so that a PTX instruction in a loop stands in the code several times:

    weight = arrivals at the PTX instruction for one block / copies of it that ptxas made

- A PTX loop stands for the source loop whose `for` line keeps its counter, else for the one most of its
  instructions lie in. It makes trips / copies iterations, where copies is the declared unroll factor, and one
  more for the remainder unless the compiler can see that there is none.
- flatten=True merges a loop with its only inner loop: one PTX loop for the two.
- A source loop without a PTX loop was unrolled wholly: each copy runs once, or as seldom as the loop is
  entered.
- Copies by ptxas are the fewest machine instructions that any instruction of the loop has, among those which
  become one machine instruction each and cannot be left out (barriers, memory accesses, matrix products).

What ptxas itself moves out of a loop is still charged to the loop. Against counts in the disassembly of the
test kernels the sum is 0 to 3 % off; with ACFs on the softmax, up to about 15 % too high.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from helitune.objectives.loop_match import LoopMatch, match_loops
from helitune.objectives.ptx_lines import PtxInstruction, PtxKernel, parse_ptx
from helitune.objectives.trip_counts import Loop

_ONE_TO_ONE = (
    "bar.", "barrier.", "mma.", "wgmma.mma", "tcgen05.mma", "ldmatrix", "stmatrix", "shfl.", "cp.async.c",
    "ld.global", "st.global", "ld.shared", "st.shared", "red.", "atom.", "ex2.", "lg2.", "rsqrt.", "rcp.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LineWeights:
    """Machine instructions by kernel source line, and how often each runs.

    `histogram` counts instructions in the code, `weights` is the mean number of times that one of them runs
    in one block: their product, summed, is what a warp executes. `imbalance` is that sum for a block in which
    every loop makes its peak trips, over the mean. `underived` lists the lines of loops whose trips are not
    known and were taken as 1.
    """

    histogram: dict[int, int]
    weights: dict[int, float]
    imbalance: float
    underived: tuple[int, ...]

    @property
    def executed(self) -> float:
        """Instructions that one warp executes in a block, in the mean over blocks."""
        return sum(count * self.weights[line] for line, count in self.histogram.items())


def line_weights(ptx: str, counts: Mapping[int, int], loops: Sequence[Loop]) -> LineWeights:
    """The weights of one kernel from its PTX, the machine instructions by PTX line and its source loops.

    `counts` comes from elf.ptx_line_counts, `loops` from trip_counts. Code that belongs to no PTX instruction
    (entry, padding) is on the first one's line and runs once.
    """
    kernel = parse_ptx(ptx)
    match = match_loops(kernel, loops)
    histogram: Counter[int] = Counter()
    for instruction in kernel.instructions:
        histogram[instruction.source_line] += counts.get(instruction.ptx_line, 0)
    entry = sum(counts.values()) - sum(histogram.values())
    histogram[kernel.instructions[0].source_line] += entry
    copies = _copies(kernel, counts)
    executed = _executed(kernel, counts, copies, match, loops, entry)
    peak = _executed(kernel, counts, copies, match, [_at_peak(loop) for loop in loops], entry)
    total = sum(executed.values())
    return LineWeights(
        histogram={line: count for line, count in sorted(histogram.items()) if count},
        weights={line: executed[line] / count for line, count in sorted(histogram.items()) if count},
        imbalance=max(1.0, sum(peak.values()) / total) if total else 1.0,
        underived=_underived(match, loops),
    )


def _executed(
    kernel: PtxKernel,
    counts: Mapping[int, int],
    copies: list[int],
    match: LoopMatch,
    loops: Sequence[Loop],
    entry: int,
) -> dict[int, float]:
    """Machine instructions executed by a warp, by source line."""
    executed: dict[int, float] = defaultdict(float)
    executed[kernel.instructions[0].source_line] = float(entry)
    for instruction in kernel.instructions:
        count = counts.get(instruction.ptx_line, 0)
        if count:
            arrivals = match.arrivals(instruction, loops)
            made = 1 if instruction.loop is None else copies[instruction.loop]
            # static copies never outnumber the times that they run, where they run at all
            executed[instruction.source_line] += count * arrivals / min(made, max(1.0, arrivals))
    return executed


def _copies(kernel: PtxKernel, counts: Mapping[int, int]) -> list[int]:
    """How many copies of each PTX loop's own instructions ptxas made."""
    own: list[list[PtxInstruction]] = [[] for _ in kernel.loops]
    for instruction in kernel.instructions:
        if instruction.loop is not None and counts.get(instruction.ptx_line, 0):
            own[instruction.loop].append(instruction)
    return [_fewest(instructions, counts) for instructions in own]


def _fewest(instructions: list[PtxInstruction], counts: Mapping[int, int]) -> int:
    anchors = [counts[i.ptx_line] for i in instructions if i.mnemonic.startswith(_ONE_TO_ONE)]
    if anchors:
        return min(anchors)
    # nothing to hold on to: most instructions become one, and some are shared by all copies
    others = sorted(counts[i.ptx_line] for i in instructions)
    return others[len(others) // 4] if others else 1


def _at_peak(loop: Loop) -> Loop:
    return replace(loop, trips=loop.peak)


def _underived(match: LoopMatch, loops: Sequence[Loop]) -> tuple[int, ...]:
    lines = {loop.line for loop in loops if loop.trips is None and not loop.static}
    return tuple(sorted(lines | set(match.foreign_lines)))
