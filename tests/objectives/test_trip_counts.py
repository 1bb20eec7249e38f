from __future__ import annotations

import textwrap

import pytest
from ptx_fixtures import MATMUL_PIPELINED, MATMUL_UNROLLED, SOFTMAX

from helitune.objectives.trip_counts import Loop, trip_counts


def loops(
    body: str, grid: tuple[int, ...] = (4,), parameters: str = "x", constants: str = "", **scalars: int
) -> list[Loop]:
    source = f"{constants}\n@triton.jit\ndef kernel({parameters}):\n" + textwrap.indent(
        textwrap.dedent(body), "    "
    )
    return trip_counts(source, "kernel", scalars, grid)


def trips(body: str, **more: object) -> list[float | None]:
    return [loop.trips for loop in loops(body, **more)]  # type: ignore[arg-type]


def test_the_inner_loop_of_a_matmul() -> None:
    (inner,) = MATMUL_PIPELINED.loops
    assert (inner.line, inner.end_line, inner.trips, inner.peak) == (26, 33, 8.0, 8.0)  # 1024 / 128
    assert inner.uniform and not inner.flatten and inner.parent is None


def test_a_persistent_loop_averages_over_all_programs() -> None:
    outer, inner = MATMUL_UNROLLED.loops
    assert outer.trips == pytest.approx(4096 / 264)  # every tile is made once
    assert (outer.peak, outer.unroll, outer.flatten, outer.uniform) == (16.0, 4, True, False)
    assert (inner.trips, inner.unroll, inner.flatten, inner.parent) == (64.0, 2, False, 0)


def test_a_clamped_chunk_of_tiles_for_each_program() -> None:
    outer, *inner = SOFTMAX.loops
    assert outer.trips == pytest.approx(2048 / 1056)
    assert outer.peak == 2.0
    assert [loop.trips for loop in inner] == [10.0, 10.0, 10.0]
    assert {loop.parent for loop in inner} == {0}


def test_a_causal_loop_averages_its_triangle() -> None:
    (loop,) = loops("for k in tl.range(0, (tl.program_id(0) + 1) * 64, 64):\n    pass", grid=(9,))
    assert (loop.trips, loop.peak, loop.uniform) == (5.0, 9.0, False)


def test_nested_means_multiply_to_the_true_total() -> None:
    body = """
    for i in range(tl.program_id(0)):
        for j in range(tl.program_id(0)):
            pass
    """
    outer, inner = trips(body, grid=(4,))
    assert outer is not None and inner is not None
    assert outer * inner == pytest.approx((0 + 1 + 4 + 9) / 4)


def test_an_inner_loop_over_the_outer_variable_takes_its_middle_iteration() -> None:
    body = """
    for i in range(0, 9):
        for j in range(0, i):
            pass
    """
    assert trips(body) == [9.0, 4.0]


def test_a_loop_in_a_branch_counts_for_the_programs_that_take_it() -> None:
    body = """
    pid = tl.program_id(0)
    if pid < 1:
        for i in range(8):
            pass
    else:
        n = 2
        for i in range(n):
            pass
    """
    first, second = loops(body, grid=(4,))
    assert (first.trips, first.peak) == (2.0, 8.0)
    assert (second.trips, second.peak) == (1.5, 2.0)


def test_both_values_of_a_branch_are_kept_apart() -> None:
    body = """
    end = 10
    if tl.program_id(0) >= 3:
        end = 2
    for i in range(end):
        pass
    """
    assert trips(body, grid=(4,)) == [(10 + 10 + 10 + 2) / 4]


def test_axes_of_the_grid() -> None:
    body = """
    for i in range(tl.program_id(1)):
        pass
    for i in range(tl.num_programs(0) + tl.num_programs(1)):
        pass
    """
    assert trips(body, grid=(5, 3)) == [1.0, 8.0]


def test_large_grids_are_sampled_evenly() -> None:
    (mean,) = trips("for i in range(tl.program_id(0)):\n    pass", grid=(1_000_000,))
    assert mean == pytest.approx(500_000, rel=1e-3)


@pytest.mark.parametrize(
    "bound",
    [
        "tl.load(x)",
        "unknown",
        "tl.load(x + tl.program_id(0)).to(tl.int32)",
        "1 // 0",
        "tl.program_id(0) // 0",
        "helper(3)",
        "2.5",
    ],
)
def test_what_cannot_be_derived_is_not_guessed(bound: str) -> None:
    body = f"""
    for i in tl.range(0, {bound}):
        for j in range(3):
            pass
    """
    assert trips(body) == [None, 3.0]


def test_a_while_loop_and_what_it_changes_are_unknown() -> None:
    body = """
    n = 4
    while n > 0:
        n = n // 2
    for i in range(n):
        pass
    """
    assert trips(body) == [None, None]


def test_what_a_loop_carries_along_is_unknown_inside_and_after() -> None:
    body = """
    total = 1
    for i in range(5):
        for j in range(total):
            pass
        total = total + 1
        fresh = 7
        for j in range(fresh):
            pass
    for i in range(total):
        pass
    """
    assert trips(body) == [5.0, None, 7.0, None]


def test_a_branch_on_loaded_data_leaves_its_names_unknown() -> None:
    body = """
    n = 1
    if tl.load(x) > 0:
        n = 2
    for i in range(n):
        pass
    """
    assert trips(body) == [None]


def test_constants_are_uniform_and_run_time_scalars_are_not() -> None:
    body = """
    for i in range(tl.cdiv(BLOCKS, _SIZE)):
        pass
    for i in range(tl.cdiv(n, _SIZE)):
        pass
    """
    constant, scalar = loops(
        body,
        parameters="n, BLOCKS: tl.constexpr",
        constants="_SIZE = tl.constexpr(4)",
        BLOCKS=9,
        n=9,
    )
    assert (constant.trips, scalar.trips) == (3.0, 3.0)
    assert constant.uniform and not scalar.uniform


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("tl.minimum(7, 3)", 3.0),
        ("max(2, 5)", 5.0),
        ("tl.cast(6, tl.int32)", 6.0),
        ("(3).to(tl.int64)", 3.0),
        ("tl.full([], 4, tl.int32)", 4.0),
        ("5 if tl.program_id(0) < 99 else 1", 5.0),
        ("tl.where(tl.program_id(0) < 2, 4, 8)", 6.0),
        ("min(tl.program_id(0), 1) * 4", 3.0),
        ("7 % 4 + (1 << 2)", 7.0),
        ("8, 0, -2", 4.0),
        ("0, 10, 4", 3.0),
        ("10, 0", 0.0),
    ],
)
def test_arithmetic(expression: str, value: float) -> None:
    assert trips(f"for i in tl.range({expression}):\n    pass", grid=(4,)) == [value]


def test_options_of_a_loop() -> None:
    (loop,) = loops("for i in tl.static_range(0, 6):\n    pass")
    assert loop.static and loop.trips == 6.0
    (loop,) = loops("for i in tl.range(0, 6, loop_unroll_factor=0, flatten=None):\n    pass")
    assert (loop.unroll, loop.flatten) == (1, False)


def test_a_source_without_the_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="'missing'"):
        trip_counts("def kernel(): pass", "missing", {}, (1,))
