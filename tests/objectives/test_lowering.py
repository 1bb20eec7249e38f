"""From a config to PTX: the same for the same kernel wherever it lies, with the flags that Triton itself would use."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_fixtures import MATMUL_PIPELINED, SOFTMAX

from helitune.objectives.bound_shape import LoweredLaunch
from helitune.objectives.compile_cache import CompileCache
from helitune.objectives.kernel_host import Description
from helitune.objectives.lowering import Lowered, ptx_identity
from helitune.objectives.worker_pool import CallFailed, WorkerPool

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 60.0
LINES = SOFTMAX.ptx.splitlines()
DEBUG_SECTIONS = next(number for number, line in enumerate(LINES) if ".section" in line)
CODE = [
    number
    for number, line in enumerate(LINES[:DEBUG_SECTIONS])
    if re.match(r"\s*(@%p\d+ )?(ld|st|add|mul|max|fma|mov|bra|bar|shfl|\.reg|\.target)\b", line)
]


def without(*numbers: int) -> str:
    return "\n".join(line for number, line in enumerate(LINES) if number not in numbers)


class TestIdentity:
    def test_debug_lines_do_not_count(self) -> None:
        moved = re.sub(r'(\.file\s+\d+ )"[^"]*"( "[^"]*")?', r'\1"/elsewhere/other.py"', SOFTMAX.ptx)
        moved = re.sub(r"\.loc\s+(\d+) \d+ \d+", r".loc \1 77 5", moved)
        assert moved != SOFTMAX.ptx
        assert ptx_identity(moved) == ptx_identity(SOFTMAX.ptx)

    def test_comments_space_and_debug_sections_do_not_count(self) -> None:
        cut = "\n\n".join(f"  {line}  // why" for line in LINES[:DEBUG_SECTIONS])
        assert ptx_identity(cut) == ptx_identity(SOFTMAX.ptx)

    @given(st.sampled_from(CODE))
    def test_every_line_of_code_counts(self, number: int) -> None:
        assert ptx_identity(without(number)) != ptx_identity(SOFTMAX.ptx)

    @given(st.integers(0, DEBUG_SECTIONS - 1))
    def test_whatever_does_not_count_is_debugging_or_nothing(self, number: int) -> None:
        if ptx_identity(without(number)) == ptx_identity(SOFTMAX.ptx):
            text = LINES[number].split("//")[0].strip()
            assert text == "" or text.startswith((".loc", ".file", "$L__tmp", "$L__func"))

    def test_the_order_of_code_counts(self) -> None:
        swapped = LINES.copy()
        first, second = next((a, b) for a, b in itertools.pairwise(CODE) if LINES[a] != LINES[b])
        swapped[first], swapped[second] = swapped[second], swapped[first]
        assert ptx_identity("\n".join(swapped)) != ptx_identity(SOFTMAX.ptx)

    def test_kernels_differ(self) -> None:
        assert ptx_identity(MATMUL_PIPELINED.ptx) != ptx_identity(SOFTMAX.ptx)


@given(
    st.builds(
        Lowered,
        ptx=st.text(),
        ptx_sha256=st.text(),
        ptxas_flags=st.lists(st.text()).map(tuple),
        num_warps=st.integers(1, 32),
        shared_bytes=st.integers(0, 1 << 20),
    )
)
def test_what_is_cached_is_read_back(lowered: Lowered) -> None:
    assert Lowered.from_bytes(lowered.to_bytes()) == lowered


def own_config(pool: WorkerPool) -> dict[str, Any]:
    described: Description = pool.call("describe", timeout_s=TIMEOUT_S)
    return described.baselines[0].config


def build(pool: WorkerPool, **changes: Any) -> LoweredLaunch:
    (launch,) = pool.call("build", own_config(pool) | changes, 0, timeout_s=TIMEOUT_S)
    return launch  # type: ignore[no-any-return]


@pytest.mark.slow
class TestBuild:
    def test_the_same_kernel_elsewhere_gives_the_same_key_and_code(
        self, softmax_pool: WorkerPool, start_pool: Callable[..., WorkerPool], tmp_path: Path
    ) -> None:
        shutil.copy(EXAMPLES / "softmax.py", tmp_path)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "codegen"), "TMPDIR": str(scratch)}
        caches = tmp_path / "cache"
        pool = start_pool(tmp_path / "softmax.py", cache_root=caches, environment=environment)
        here, there = build(softmax_pool), build(pool)
        assert (there.ptx_key, there.ptx_sha256) == (here.ptx_key, here.ptx_sha256)
        stored = CompileCache(caches).get("ptx", there.ptx_key)
        assert stored is not None
        assert ptx_identity(Lowered.from_bytes(stored).ptx) == here.ptx_sha256
        # Triton writes the PTX and ptxas's log to temporary files; nobody else removes them
        assert [path.name for path in scratch.rglob("*") if path.is_file()] == []

    def test_building_twice_gives_the_same_launch(self, softmax_pool: WorkerPool) -> None:
        assert build(softmax_pool) == build(softmax_pool)

    def test_another_config_gives_other_code(self, softmax_pool: WorkerPool) -> None:
        launches = [build(softmax_pool, num_warps=warps) for warps in (4, 8)]
        assert len({launch.ptx_key for launch in launches}) == 2
        assert len({launch.ptx_sha256 for launch in launches}) == 2
        assert [launch.num_warps for launch in launches] == [4, 8]

    def test_the_grid_is_that_of_the_shape(self, softmax_pool: WorkerPool) -> None:
        assert build(softmax_pool, block_sizes=[8]).grid[0] == 4096 // 8

    @pytest.mark.parametrize("pool", ["softmax_pool", "matmul_pool"])
    def test_ptxas_flags_are_triton_s_and_name_no_file(self, pool: str, request: Any) -> None:
        flags = build(request.getfixturevalue(pool)).ptxas_flags
        assert "--gpu-name=sm_90a" in flags
        assert {"-v", "-lineinfo"} <= set(flags)
        assert not [flag for flag in flags if "/" in flag or flag == "-o" or "controls" in flag]

    def test_a_tile_that_no_block_can_hold_is_refused_before_it_takes_minutes(
        self, softmax_pool: WorkerPool
    ) -> None:
        with pytest.raises(CallFailed, match=r"a tile of \d+x\d+ elements on 32 threads") as caught:
            build(softmax_pool, block_sizes=[64], num_warps=1)
        assert caught.value.kind == "TileTooLarge"

    def test_too_much_shared_memory_is_refused_with_both_numbers(self, matmul_pool: WorkerPool) -> None:
        with pytest.raises(
            CallFailed, match=r"^\d+ bytes of shared memory a block: .* has 232448$"
        ) as caught:
            build(matmul_pool, block_sizes=[128, 256, 128], num_stages=4)
        assert caught.value.kind == "NeedsTooMuchShared"

    def test_a_config_that_helion_refuses_is_a_failed_call(self, softmax_pool: WorkerPool) -> None:
        with pytest.raises(CallFailed) as caught:
            build(softmax_pool, pid_type="no such order")
        assert caught.value.kind == "InvalidConfig"
