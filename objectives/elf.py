"""What a cubin holds: a hash of the code that runs, how many instructions, and which PTX line each came from.

A cubin is an ELF file. ptxas writes into it, beside the code, its command line, the PTX text and debug lines:
two files that run alike are seldom equal byte by byte, so identity is a hash over chosen sections.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from elftools.common.exceptions import DWARFError, ELFError
from elftools.common.utils import struct_parse
from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

INSTRUCTION_BYTES = 16  # every architecture since sm_70

# what changes execution; debug sections, notes (the command line) and symbol names do not
_EXECUTED = (".text", ".nv.constant", ".nv.global", ".nv.shared", ".nv.local", ".nv.info", ".nv.callgraph")
_RELOCATED = (
    ".rel.text",
    ".rela.text",
    ".rel.nv.constant",
    ".rela.nv.constant",
    ".rel.nv.global",
    ".rela.nv.global",
)
_PTX_LINES = ".nv_debug_line_sass"
# pyelftools trusts what it reads: damaged bytes surface in it as almost any error
_NOT_ELF = (
    ELFError,
    DWARFError,
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class CubinError(ValueError):
    """The bytes are no cubin, or lack what was asked for; the message says which."""


def code_hash(cubin: bytes) -> str:
    """The sha256 (hex) of all that changes execution: equal for equal code, whatever the file is called.

    Covers code, constants, global and shared memory (sizes where there are no bytes), kernel attributes and
    the relocations of these, by section name. Raises CubinError.
    """
    parts = sorted(
        (name, flags, size, data)
        for name, flags, size, data in _sections(cubin)
        if name.startswith(_EXECUTED) or name.startswith(_RELOCATED)
    )
    if not any(name.startswith(".text") for name, *_ in parts):
        raise CubinError("the cubin holds no code: it has no .text section")
    digest = hashlib.sha256()
    for name, flags, size, data in parts:
        digest.update(f"{name}\0{flags}\0{size}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def instruction_count(cubin: bytes) -> int:
    """Instructions in all functions: bytes of code / 16, and so with the padding behind each function.

    Raises CubinError.
    """
    sizes = [size for name, _, size, _ in _sections(cubin) if name.startswith(".text")]
    if not sizes:
        raise CubinError("the cubin holds no code: it has no .text section")
    return sum(sizes) // INSTRUCTION_BYTES


def ptx_line_counts(cubin: bytes) -> dict[int, int]:
    """How many instructions came from each line of the PTX text (1 is the first), with the padding.

    ptxas writes that table, in DWARF's line format, under -lineinfo; it is finer than .debug_line, which
    names source lines only and so cannot tell a loop's body from what was peeled off it. Raises CubinError,
    also where the cubin was made without -lineinfo.
    """
    tables = [data for name, _, _, data in _sections(cubin) if name == _PTX_LINES]
    if not tables or not tables[0]:
        raise CubinError(f"the cubin has no {_PTX_LINES} section: it was compiled without -lineinfo")
    counts: Counter[int] = Counter()
    try:
        for line, size in _line_spans(tables[0]):
            counts[line] += size // INSTRUCTION_BYTES
    except _NOT_ELF as error:
        raise CubinError(f"{_PTX_LINES} cannot be read: {error}") from error
    return dict(counts)


def _sections(cubin: bytes) -> list[tuple[str, int, int, bytes]]:
    """(name, flags, size in bytes, the bytes: none where the section only reserves memory)."""
    try:
        elf = ELFFile(io.BytesIO(cubin))
        sections = [
            (
                str(section.name),
                int(section["sh_flags"]),
                int(section["sh_size"]),
                b"" if section["sh_type"] == "SHT_NOBITS" else bytes(section.data()),
            )
            for section in elf.iter_sections()
        ]
    except _NOT_ELF as error:
        raise CubinError(f"not a cubin ({len(cubin)} bytes): {error or type(error).__name__}") from error
    for name, _, size, data in sections:
        if data and len(data) != size:
            raise CubinError(f"the cubin ends inside section {name}")
    return sections


def _line_spans(table: bytes) -> Iterator[tuple[int, int]]:
    """(line, bytes of code up to the next row) for each row of all line programs in a section."""
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
    stream = io.BytesIO(table)
    start = 0
    while start < len(table):
        header = struct_parse(structs.Dwarf_lineprog_header, stream, start)
        end = start + 4 + int(header["unit_length"])
        program = LineProgram(header, stream, structs, stream.tell(), end)
        states = [entry.state for entry in program.get_entries() if entry.state is not None]
        for row, following in pairwise(states):
            if not row.end_sequence:
                yield int(row.line), max(0, int(following.address) - int(row.address))
        start = end
