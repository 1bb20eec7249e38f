"""The shape of a PTX text: its instructions, the source line of each, and its loops.

PTX is read line by line, as LLVM prints it: one instruction a line. A loop is a branch to a label further up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_LABEL = re.compile(r"(\$?[\w.$]+):(?!:)")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$?[\w.$]+)\s*;")
_MNEMONIC = re.compile(r"(?:@!?%\w+\s+)?([a-z][\w.:]*)")


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction: its line in the text, its kernel source line (0: unknown), its name ("bar.sync").

    `loop` is the index of the innermost loop around it in PtxKernel.loops, None outside all loops.
    """

    ptx_line: int
    source_line: int
    mnemonic: str
    loop: int | None


@dataclass(frozen=True, slots=True)
class PtxLoop:
    """A loop: its first and last PTX line, and the index of the loop around it (always a smaller index)."""

    first: int
    last: int
    parent: int | None


@dataclass(frozen=True, slots=True)
class PtxKernel:
    """All instructions in the order of the text, and the loops, outer before inner."""

    instructions: tuple[PtxInstruction, ...]
    loops: tuple[PtxLoop, ...]


@lru_cache(maxsize=8)  # one PTX is compiled with many ACFs
def parse_ptx(ptx: str) -> PtxKernel:
    """The instructions and loops of a PTX text.

    Inlined code counts as the kernel line that calls it. Raises ValueError for a text without instructions.
    """
    lines = ptx.splitlines()
    loops = _loops(lines)
    sources = _source_lines(lines)
    instructions = tuple(
        PtxInstruction(number, sources[number - 1], name, _innermost(loops, number))
        for number, line in enumerate(lines, start=1)
        if (name := _mnemonic(line))
    )
    if not instructions:
        raise ValueError("the PTX text holds no instruction")
    return PtxKernel(instructions, loops)


def _mnemonic(line: str) -> str:
    text = line.strip()
    if not text or text[0] in "./{})(" or _LABEL.match(text) or ";" not in text:
        return ""
    match = _MNEMONIC.match(text)
    return match[1] if match else ""


def _loops(lines: list[str]) -> tuple[PtxLoop, ...]:
    labels: dict[str, int] = {}
    spans: dict[int, int] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if (label := _LABEL.match(text)) is not None:
            labels[label[1]] = number
        elif (branch := _BRANCH.search(text)) is not None and branch[1] in labels:
            spans[labels[branch[1]]] = number
    found: list[PtxLoop] = []
    for first, last in _disjoint_or_nested(spans):
        around = [i for i, loop in enumerate(found) if loop.first <= first and last <= loop.last]
        found.append(PtxLoop(first, last, around[-1] if around else None))
    return tuple(found)


def _disjoint_or_nested(spans: dict[int, int]) -> list[tuple[int, int]]:
    """The spans (first → last), joined where they overlap in part: LLVM laid out one loop in two pieces."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans.items()):
        for index, (start, end) in enumerate(joined):
            if start < first <= end < last:
                joined[index] = (start, last)
                break
        else:
            joined.append((first, last))
    return joined


def _innermost(loops: tuple[PtxLoop, ...], number: int) -> int | None:
    inside = [index for index, loop in enumerate(loops) if loop.first <= number <= loop.last]
    return inside[-1] if inside else None


def _source_lines(lines: list[str]) -> list[int]:
    """The kernel source line in force on each PTX line.

    Inside inline assembly the position at its beginning holds: LLVM counts one source line further for each
    line of the assembly text, which is no source line at all.
    """
    places = _Places()
    current, in_assembly = 0, False
    result: list[int] = []
    for line in lines:
        text = line.strip()
        if text.startswith("// begin inline asm"):
            in_assembly = True
        elif text.startswith("// end inline asm"):
            in_assembly = False
        elif not in_assembly and (loc := _LOC.match(text)) is not None:
            current = places.kernel_line(loc) or current
        result.append(current)
    return result


class _Places:
    """Where inlined code was called from, as far as the .loc directives have said."""

    def __init__(self) -> None:
        self._kernel_file = ""
        self._callers: dict[tuple[str, ...], tuple[str, ...]] = {}

    def kernel_line(self, loc: re.Match[str]) -> int:
        """The kernel's line for one .loc directive, 0 where it cannot be told."""
        place, caller = loc.group(1, 2, 3), loc.group(4, 5, 6)
        if caller[0] is None:
            self._kernel_file = self._kernel_file or place[0]
            self._callers.pop(place, None)
        else:
            self._callers[place] = caller
            place = caller
        for _ in range(len(self._callers)):
            if place not in self._callers or place[0] == self._kernel_file:
                break
            place = self._callers[place]
        return int(place[1]) if place[0] == self._kernel_file or not self._kernel_file else 0
