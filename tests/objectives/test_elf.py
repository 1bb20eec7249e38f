from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_fixtures import MATMUL_PIPELINED, SOFTMAX, compiled

from helitune.acfs.pack import shipped_pack
from helitune.objectives.elf import CubinError, code_hash, instruction_count, ptx_line_counts


def softmax() -> bytes:
    return compiled(SOFTMAX)[0]


def test_equal_code_hashes_alike_whatever_the_file_and_the_command_line_say() -> None:
    renamed = compiled(SOFTMAX, name="another-and-longer-name")[0]
    verbose = compiled(SOFTMAX, "--opt-level=3")[0]
    assert renamed != verbose  # ptxas stores its command line
    assert code_hash(renamed) == code_hash(verbose) == code_hash(softmax())


def test_other_code_hashes_otherwise() -> None:
    hashes = {
        code_hash(softmax()),
        code_hash(compiled(SOFTMAX, "--opt-level=1")[0]),
        code_hash(compiled(MATMUL_PIPELINED)[0]),
    }
    assert len(hashes) == 3


def test_an_acf_that_changes_the_code_changes_the_hash() -> None:
    acf = min(shipped_pack().glob("*.acf"))
    controlled = compiled(SOFTMAX, "--apply-controls", str(acf))[0]
    assert code_hash(controlled) != code_hash(softmax())


def test_a_changed_byte_counts_in_what_runs_and_not_in_what_debuggers_read() -> None:
    cubin = softmax()
    for section, changes in ((".nv_debug_ptx_txt", False), (".note.nv.tkinfo", False), (".debug_line", False),
                             (".text._helion_softmax", True), (".nv.info._helion_softmax", True),
                             (".nv.global.init", True)):  # fmt: skip
        damaged = _flipped(cubin, _offset_of(cubin, section))
        assert (code_hash(damaged) != code_hash(cubin)) is changes, section


def test_instructions_and_their_lines_are_two_views_of_the_same_code() -> None:
    cubin = softmax()
    assert sum(ptx_line_counts(cubin).values()) == instruction_count(cubin) > 600


def test_lines_are_those_of_the_ptx_text() -> None:
    lines = SOFTMAX.ptx.splitlines()
    (store,) = (n for n, line in enumerate(lines, start=1) if "st.global.v4.b32" in line)
    counts = ptx_line_counts(softmax())
    assert counts[store] >= 1
    assert max(counts) <= len(lines)


@pytest.mark.parametrize("junk", [b"", b"\x7fELF", b"not an ELF file at all", b"\x00" * 200])
def test_what_is_no_cubin_is_refused(junk: bytes) -> None:
    for read in (code_hash, instruction_count, ptx_line_counts):
        with pytest.raises(CubinError):
            read(junk)


def test_an_elf_file_without_code_is_refused() -> None:
    renamed = softmax().replace(b".text._helion_softmax", b".tixt._helion_softmax")
    for read in (code_hash, instruction_count):
        with pytest.raises(CubinError, match=r"\.text"):
            read(renamed)


def test_a_cubin_without_line_table_says_what_was_missing() -> None:
    renamed = softmax().replace(b".nv_debug_line_sass", b".nv_debug_line_none")
    with pytest.raises(CubinError, match="-lineinfo"):
        ptx_line_counts(renamed)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_cubins_are_read_or_refused_never_worse(data: st.DataObject) -> None:
    cubin = softmax()
    cut = data.draw(st.integers(0, len(cubin)))
    at = data.draw(st.integers(0, len(cubin) - 1))
    for damaged in (cubin[:cut], _flipped(cubin, at)):
        for read in (code_hash, instruction_count, ptx_line_counts):
            try:
                assert read(damaged)
            except CubinError as error:
                assert str(error)


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def _offset_of(cubin: bytes, name: str) -> int:
    return int(ELFFile(io.BytesIO(cubin)).get_section_by_name(name)["sh_offset"])
