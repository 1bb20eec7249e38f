from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_fixtures import MATMUL_PIPELINED, MATMUL_SMALL_TILE, MATMUL_UNROLLED

from helitune.objectives.artifact import Artifact
from helitune.objectives.compiled_objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from helitune.objectives.issue_slots import DoesNotFit, issue_slots
from helitune.objectives.targets import KIB, find_target

H200 = find_target("sm_90")
# 100 instructions on line 1, which run once, and 50 on line 2, which run 18 times: 1000 a warp
LAUNCH = Artifact(
    ptx_sha256="p",
    code_sha256="c",
    registers=32,
    stack_bytes=0,
    spill_store_bytes=0,
    spill_load_bytes=0,
    shared_bytes=0,
    instructions=150,
    num_warps=8,
    grid=(132,),
    histogram=((1, 100), (2, 50)),
    weights=((1, 1.0), (2, 18.0)),
    imbalance=1.0,
    underived=(),
    compile_s=0.1,
)


def cycles(launch: Artifact, bytes_moved: int = 0) -> float:
    return issue_slots([launch], H200, bytes_moved).cycles


def test_one_block_an_sm_is_bound_by_the_latency_of_its_warps() -> None:
    result = issue_slots([LAUNCH], H200, 0)
    assert result.cycles == 1000 * 4  # 8 warps could be issued in 2 cycles an instruction
    assert (result.waves, result.resident_blocks, result.executed_per_warp) == (1, 8, 1000.0)
    assert result.bound_by == "issue"


def test_enough_blocks_fill_the_schedulers() -> None:
    assert cycles(replace(LAUNCH, grid=(132 * 8,))) == 1000 * 64 / 4
    assert cycles(replace(LAUNCH, grid=(132, 4))) == 1000 * 32 / 4


def test_a_wave_more_for_one_block_more() -> None:
    full = issue_slots([replace(LAUNCH, grid=(132 * 8,))], H200, 0)
    more = issue_slots([replace(LAUNCH, grid=(132 * 8 + 1,))], H200, 0)
    assert (full.waves, more.waves) == (1, 2)
    assert more.cycles == full.cycles + 4000


def test_fewer_resident_blocks_leave_slots_empty() -> None:
    grid = (132 * 4,)
    hungry = replace(LAUNCH, grid=grid, registers=255)  # one block of 8 warps at a time
    assert issue_slots([hungry], H200, 0).resident_blocks == 1
    assert cycles(hungry) == 4 * 4000
    assert cycles(replace(LAUNCH, grid=grid)) == 8000


def test_the_heaviest_block_is_a_bound() -> None:
    assert cycles(replace(LAUNCH, imbalance=3.0)) == 3 * 4000
    assert cycles(replace(LAUNCH, imbalance=3.0, grid=(132 * 8,))) == 16000


def test_bytes_are_a_floor() -> None:
    result = issue_slots([LAUNCH], H200, 4_800_000_000)  # one millisecond of the H200's memory
    assert result.cycles == pytest.approx(1.98e6)
    assert (result.bound_by, result.issue_cycles) == ("memory", 4000)


def test_spills_cost_what_they_move() -> None:
    spilling = replace(LAUNCH, spill_store_bytes=3000, spill_load_bytes=600)
    # 3600 bytes x 1000/150 runs x 256 threads of the one block, 64 bytes a cycle
    assert cycles(spilling) == pytest.approx(3600 * 1000 / 150 * 256 / 64)
    assert cycles(spilling) > cycles(LAUNCH)


def test_launches_of_one_call_add_up() -> None:
    other = replace(LAUNCH, grid=(132 * 8,), registers=64, underived=(7,))
    both = issue_slots([LAUNCH, other], H200, 0)
    assert both.cycles == cycles(LAUNCH) + cycles(other)
    assert both.executed_per_warp == 2000
    assert (both.resident_blocks, both.underived) == (4, (7,))
    with pytest.raises(ValueError, match="without a kernel launch"):
        issue_slots([], H200, 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"registers": 255, "num_warps": 16}, "255 registers a thread in blocks of 512 threads"),
        ({"shared_bytes": 228 * KIB}, "233472 bytes of shared memory a block: NVIDIA H200 has 232448"),
        ({"num_warps": 64}, "2048 threads a block: NVIDIA H200 has 1024"),
    ],
)
def test_what_does_not_fit_is_refused_under_every_objective(change: dict[str, int], reason: str) -> None:
    launch = replace(LAUNCH, **change)  # type: ignore[arg-type]
    for objective in OBJECTIVES.values():
        with pytest.raises(DoesNotFit, match=reason):
            objective.score([launch], H200, 0)


@given(
    st.integers(1, 5000), st.sampled_from([1, 2, 4, 8, 16]), st.integers(16, 128), st.integers(0, 100 * KIB)
)
def test_more_work_is_never_cheaper(blocks: int, warps: int, registers: int, shared: int) -> None:
    launch = replace(LAUNCH, grid=(blocks,), num_warps=warps, registers=registers, shared_bytes=shared)
    base = cycles(launch)
    assert cycles(replace(launch, grid=(blocks + 1,))) >= base
    assert cycles(replace(launch, histogram=((1, 101), (2, 50)))) > base
    assert cycles(replace(launch, spill_load_bytes=8)) >= base
    assert cycles(launch, bytes_moved=10**9) >= base
    # never below what the schedulers can issue in all
    assert base >= launch.executed * warps * blocks / H200.sms / 4 * 0.999


def test_the_tiniest_tile_of_a_matmul_does_not_win() -> None:
    moved = 3 * 1024 * 1024 * 2
    tiles = (MATMUL_PIPELINED, MATMUL_SMALL_TILE, MATMUL_UNROLLED)
    large, small, small_of_many_warps = (
        issue_slots([fixture.artifact()], H200, moved).cycles for fixture in tiles
    )
    assert 5 * large < small < small_of_many_warps


def test_objectives_show_their_value_and_minimise_their_score() -> None:
    launches = [replace(LAUNCH, spill_store_bytes=8), replace(LAUNCH, registers=64, spill_load_bytes=4)]
    scores = {name: objective.score(launches, H200, 0) for name, objective in OBJECTIVES.items()}
    assert {name: score.value for name, score in scores.items()} == {
        "issue_slots": 8000.0,
        "spills": 12.0,
        "registers": 64.0,
        "instructions": 300.0,
        "occupancy": 50.0,  # 64 registers: four blocks of eight warps
    }
    assert scores["occupancy"].score == -50.0
    assert all(scores[name].score == scores[name].value for name in scores if name != "occupancy")
    assert {score.tie_breaker for score in scores.values()} == {8000.0}
    assert DEFAULT_OBJECTIVE in OBJECTIVES


def test_equal_memory_bounds_are_told_apart_by_their_issue_cycles() -> None:
    objective = OBJECTIVES[DEFAULT_OBJECTIVE]
    lean, heavy = (objective.score([replace(LAUNCH, grid=(n,))], H200, 10**9) for n in (132, 132 * 8))
    assert lean.score == heavy.score
    assert lean.tie_breaker < heavy.tie_breaker


def test_an_artifact_survives_json() -> None:
    launch = replace(LAUNCH, grid=(4, 5, 6), underived=(3, 9))
    assert Artifact.from_json(json.loads(json.dumps(launch.to_json()))) == launch
    assert Artifact.from_json({**launch.to_json(), "of_a_later_version": 1}) == launch
    assert (launch.blocks, launch.executed, launch.spill_bytes) == (120, 1000.0, 0)
