"""Which source loop each PTX loop stands for, and how often an instruction inside is reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from helitune.objectives.ptx_lines import PtxInstruction, PtxKernel, PtxLoop
from helitune.objectives.trip_counts import Loop


@dataclass(frozen=True, slots=True)
class LoopMatch:
    """The source loops (indices) of each PTX loop: none if it is in inlined code, two if it merges an outer
    with an inner one. `foreign_lines` are the lines that call code with loops of its own.
    """

    ptx_loops: tuple[PtxLoop, ...]
    sources: tuple[tuple[int, ...], ...]
    foreign_lines: tuple[int, ...]
    realised: frozenset[int]

    def arrivals(self, instruction: PtxInstruction, loops: Sequence[Loop]) -> float:
        """How often one block reaches the instruction, in the mean over blocks; unknown trips count as 1."""
        enclosing = chain(loops, instruction.source_line)
        result = 1.0
        index = instruction.loop
        while index is not None:
            for position, source in enumerate(self.sources[index]):
                # code of the outer of two merged loops does not run in each iteration of the inner one
                if position == 0 or source in enclosing:
                    result *= _iterations(loops[source])
            index = self.ptx_loops[index].parent
        for source in enclosing:
            if source not in self.realised:
                trips = loops[source].trips
                result *= 1.0 if trips is None else min(1.0, trips)
        return result


def chain(loops: Sequence[Loop], line: int) -> tuple[int, ...]:
    """The source loops (indices) around a line, outermost first; a loop's `for` line is inside it."""
    return tuple(index for index, loop in enumerate(loops) if loop.line <= line <= loop.end_line)


def match_loops(kernel: PtxKernel, loops: Sequence[Loop]) -> LoopMatch:
    """The source loops of each PTX loop of the kernel."""
    own: list[Counter[int]] = [Counter() for _ in kernel.loops]
    inside: list[Counter[int]] = [Counter() for _ in kernel.loops]
    for instruction in kernel.instructions:
        index = instruction.loop
        if index is not None:
            own[index][instruction.source_line] += 1
        while index is not None:
            inside[index][instruction.source_line] += 1
            index = kernel.loops[index].parent
    sources: list[tuple[int, ...]] = []
    for index, ptx_loop in enumerate(kernel.loops):
        above = sources[ptx_loop.parent] if ptx_loop.parent is not None else ()
        taken = _ancestors(above, kernel, sources, ptx_loop)
        sources.append(_source_of(loops, taken, own[index], inside[index]))
        if sources[index] and not _has_inner(kernel, index):
            sources[index] += _merged(loops, sources[index][0], inside[index])
    foreign = tuple(
        max(own[index], key=lambda line: own[index][line])
        for index, found in enumerate(sources)
        if not found and own[index]
    )
    return LoopMatch(kernel.loops, tuple(sources), foreign, frozenset(s for found in sources for s in found))


def _ancestors(
    above: tuple[int, ...], kernel: PtxKernel, sources: list[tuple[int, ...]], ptx_loop: PtxLoop
) -> frozenset[int]:
    """The source loops that the PTX loops around this one stand for."""
    taken = set(above)
    index = ptx_loop.parent
    while index is not None:
        taken.update(sources[index])
        index = kernel.loops[index].parent
    return frozenset(taken)


def _has_inner(kernel: PtxKernel, index: int) -> bool:
    return any(loop.parent == index for loop in kernel.loops)


def _source_of(
    loops: Sequence[Loop], taken: frozenset[int], own: Counter[int], inside: Counter[int]
) -> tuple[int, ...]:
    """The outermost free loop whose `for` line keeps a counter here, else the one with most of the code."""
    counters = [
        index for index, loop in enumerate(loops) if own[loop.line] and index not in taken and not loop.static
    ]
    if counters:
        return (counters[0],)
    votes: Counter[int] = Counter()
    for line, count in inside.items():
        free = [index for index in chain(loops, line) if index not in taken and not loops[index].static]
        if free:
            votes[free[0]] += count
    if 2 * votes.total() < inside.total():
        return ()
    return (votes.most_common(1)[0][0],)


def _merged(loops: Sequence[Loop], outer: int, inside: Counter[int]) -> tuple[int, ...]:
    """The only inner loop of a loop to be flattened, if its code is here: Triton merged the two."""
    children = [index for index, loop in enumerate(loops) if loop.parent == outer]
    if not loops[outer].flatten or len(children) != 1:
        return ()
    only = loops[children[0]]
    return (children[0],) if any(only.line <= line <= only.end_line for line in inside) else ()


def _iterations(loop: Loop) -> float:
    """Iterations for each copy of the loop body that unrolling left in PTX."""
    trips = 1.0 if loop.trips is None else loop.trips
    if loop.unroll == 1:
        return trips
    whole = loop.uniform and trips % loop.unroll == 0
    return trips / (loop.unroll if whole else loop.unroll + 1)
