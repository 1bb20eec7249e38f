from __future__ import annotations

import pytest
from ptx_fixtures import MATMUL_PIPELINED, MATMUL_SMALL_TILE, MATMUL_UNROLLED, SOFTMAX, Fixture

from helitune.objectives.line_weights import LineWeights, line_weights
from helitune.objectives.ptx_lines import parse_ptx
from helitune.objectives.trip_counts import Loop

# Line 10 runs before a loop, 20-25 are the loop, 30 comes behind it. Line 22 calls code in another file.
PTX = """\
.visible .entry kernel(
	.param .u64 p
)
{
	.reg .b32 %r<9>;
	.loc	1 10 5
	ld.param.b64 	%rd1, [p];
	.loc	1 21 5
	ld.global.b32 	%r1, [%rd1];
$L__BB0_1:
	.loc	1 21 5
	// begin inline asm
	.loc	1 21 5
	mov.u32 %r2, 0x0;
	.loc	1 22 5
	ld.global.L1::evict_first.b32 { %r2 }, [ %rd1 + 0 ];
	// end inline asm
	.loc	2 300 9, function_name $L__info_string0, inlined_at 1 22 7
	.loc	3 400 9, function_name $L__info_string0, inlined_at 2 300 9
	add.f32 	%r3, %r2, %r3;
	.loc	1 20 5
	add.s32 	%r4, %r4, 1;
	setp.lt.s32 	%p1, %r4, 100;
	@%p1 bra 	$L__BB0_1;
	.loc	1 30 5
	st.global.b32 	[%rd1], %r3;
	ret;
}
"""
LOAD, ASM_LOAD, INLINED, COUNTER, STORE = 9, 16, 20, 22, 26


def loop(line: int, end_line: int, trips: float | None, **more: object) -> Loop:
    fields: dict[str, object] = {
        "unroll": 1,
        "flatten": False,
        "static": False,
        "uniform": True,
        "parent": None,
        "peak": trips,
    }
    return Loop(line=line, end_line=end_line, trips=trips, **{**fields, **more})  # type: ignore[arg-type]


def one_each(ptx: str = PTX) -> dict[int, int]:
    return {instruction.ptx_line: 1 for instruction in parse_ptx(ptx).instructions}


def weighed(*loops: Loop, counts: dict[int, int] | None = None) -> LineWeights:
    return line_weights(PTX, one_each() if counts is None else counts, loops)


def test_instructions_and_their_kernel_lines() -> None:
    found = {instruction.ptx_line: instruction for instruction in parse_ptx(PTX).instructions}
    assert found[ASM_LOAD].mnemonic == "ld.global.L1::evict_first.b32"
    assert found[ASM_LOAD].source_line == 21  # not 22: the second line of assembly is still the load's
    assert found[INLINED].source_line == 22  # through two calls
    assert [found[line].loop for line in (LOAD, ASM_LOAD, COUNTER, STORE)] == [None, 0, 0, None]


def test_a_text_without_instructions_is_refused() -> None:
    with pytest.raises(ValueError, match="no instruction"):
        parse_ptx(".version 9.3\n.target sm_90a\n")


def test_a_loop_body_runs_as_often_as_the_loop_and_what_was_peeled_once() -> None:
    result = weighed(loop(20, 25, 100.0))
    assert result.histogram == {10: 1, 20: 3, 21: 3, 22: 1, 30: 2}
    half_peeled = pytest.approx((1 + 2 * 100) / 3)
    assert result.weights == {10: 1.0, 20: 100.0, 21: half_peeled, 22: 100.0, 30: 1.0}
    assert result.executed == pytest.approx(6 * 100 + 4)


def test_copies_that_ptxas_made_share_the_trips() -> None:
    fourfold = {line: 4 if COUNTER > line > LOAD else 1 for line in one_each()}
    assert weighed(loop(20, 25, 100.0), counts=fourfold).weights[22] == 25.0


def test_a_loop_that_ptxas_unrolled_wholly_costs_what_it_is_long() -> None:
    unrolled = dict.fromkeys(one_each(), 8)
    assert weighed(loop(20, 25, 8.0), counts=unrolled).executed == pytest.approx(sum(unrolled.values()))


def test_a_declared_unroll_factor_divides_the_trips() -> None:
    assert weighed(loop(20, 25, 100.0, unroll=4)).weights[22] == 25.0
    assert weighed(loop(20, 25, 101.0, unroll=4)).weights[22] == pytest.approx(101 / 5)  # and a remainder
    assert weighed(loop(20, 25, 100.0, unroll=4, uniform=False)).weights[22] == pytest.approx(100 / 5)


def test_loops_of_unknown_length_count_once_and_are_named() -> None:
    result = weighed(loop(20, 25, None))
    assert result.underived == (20,)
    assert result.weights[22] == 1.0


def test_a_loop_of_inlined_code_is_named_by_its_caller() -> None:
    result = weighed(loop(40, 50, 7.0))
    assert result.underived == (20,)
    assert result.executed == pytest.approx(sum(result.histogram.values()))


def test_an_outer_loop_seldom_entered_that_left_no_loop() -> None:
    outer, inner = loop(15, 35, 0.25, uniform=False, peak=1.0), loop(20, 25, 100.0, parent=0)
    result = weighed(outer, inner)
    assert result.weights[22] == pytest.approx(25.0)
    assert result.weights[30] == pytest.approx(0.25)
    assert result.weights[10] == 1.0
    assert result.imbalance == pytest.approx((6 * 100 + 4) / (6 * 25 + 3 * 0.25 + 1))


def test_a_flattened_nest_is_one_loop() -> None:
    outer = loop(20, 25, 10.0, flatten=True, uniform=False)
    inner = loop(21, 23, 64.0, parent=0)
    result = weighed(outer, inner)
    assert result.weights[22] == 640.0
    assert result.weights[20] == 10.0
    # with two inner loops Triton does not merge them: the inner ones were unrolled instead
    assert weighed(outer, inner, loop(24, 25, 2.0, parent=0)).weights[22] == 10.0


def test_code_of_no_instruction_counts_once() -> None:
    counts = {**one_each(), 4: 5}
    result = weighed(loop(20, 25, 100.0), counts=counts)
    assert result.histogram[10] == 6
    assert sum(result.histogram.values()) == sum(counts.values())
    assert result.executed == pytest.approx(weighed(loop(20, 25, 100.0)).executed + 5)


# By hand in the disassembly (nvdisasm): instructions between the labels of each loop x its iterations.
BY_HAND = [
    # the eight steps are unrolled: no loop is left, the code is run through once
    (MATMUL_PIPELINED, 1760.0, 0.01),
    # 26 in the inner loop x 64, and 63 around it, for 15.5 tiles a block; about 120 outside
    (MATMUL_SMALL_TILE, 4096 / 264 * (63 + 26 * 64) + 120, 0.01),
    # 400 a row pair and loops of 105 and 134 x 10, for 1.94 row pairs a block
    (SOFTMAX, 2048 / 1056 * (400 + 10 * (105 + 134)) + 30, 0.02),
    # 3657 for four tiles, 3.52 times a block; the rest, 1.45 tiles of 32 x 76; about 60 outside
    (MATMUL_UNROLLED, 3.515 * 3657 + 1.4545 * 32 * 76 + 60, 0.05),
]


@pytest.mark.parametrize(("fixture", "executed", "within"), BY_HAND, ids=lambda x: getattr(x, "name", ""))
def test_executed_instructions_agree_with_the_disassembly(
    fixture: Fixture, executed: float, within: float
) -> None:
    result = fixture.weights()
    assert result.executed == pytest.approx(executed, rel=within)
    assert result.underived == ()
