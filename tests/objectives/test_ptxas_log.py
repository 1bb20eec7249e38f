from __future__ import annotations

import pytest

from helitune.objectives.ptxas_log import PtxasUsage, parse_ptxas_log

SPILLING = """\
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function '_helion_softmax' for 'sm_90a'
ptxas info    : Function properties for _helion_softmax
    592 bytes stack frame, 2456 bytes spill stores, 2432 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 592 bytes cumulative stack size
ptxas info    : Compile time = 373.044 ms
"""
OLDER = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 1024 bytes smem, 392 bytes cmem[0]
"""


def test_a_kernel_that_spills() -> None:
    assert parse_ptxas_log(SPILLING) == PtxasUsage(64, 592, 2456, 2432, None, 1)


def test_static_shared_memory_and_no_barrier_count() -> None:
    assert parse_ptxas_log(OLDER) == PtxasUsage(40, 0, 0, 0, 1024, 0)


def test_of_two_functions_the_larger_need_and_all_the_spills() -> None:
    assert parse_ptxas_log(OLDER + SPILLING) == PtxasUsage(64, 592, 2456, 2432, 1024, 1)
    assert parse_ptxas_log(SPILLING + SPILLING).spill_store_bytes == 2 * 2456


@pytest.mark.parametrize("text", ["", "ptxas fatal   : Ptx assembly aborted due to errors", "Used registers"])
def test_a_log_without_usage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="-v"):
        parse_ptxas_log(text)
