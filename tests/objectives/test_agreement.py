"""Output by output: structures, dtypes, NaN and infinity, arguments changed in place, the record."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from helitune.objectives.agreement import compare, flat_outputs
from helitune.objectives.agreement_record import OutputAgreement
from helitune.objectives.outputs import call_on_copies, compare_outputs, expected_outputs

NAN, INF = float("nan"), float("inf")


def t(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def reason(candidate: Any, reference: Any, exact: Any = None) -> str:
    worst = compare(candidate, reference, exact).worst
    return worst.reason if worst else "ok"


def test_several_outputs_are_judged_each_by_its_own_dtype() -> None:
    reference = (
        t(1.0, 2.0, dtype=torch.float16),
        {"index": t(3, 4, dtype=torch.int32), "mask": t(True, False)},
    )
    right = (
        t(1.0, 2.001, dtype=torch.float16),
        {"mask": t(True, False), "index": t(3, 4, dtype=torch.int32)},
    )
    assert [output.name for output in compare(right, reference, None).outputs] == [
        "output 0",
        "output 1.index",
        "output 1.mask",
    ]
    assert compare(right, reference, None).agrees
    right[1]["index"][1] += 1
    agreement = compare(right, reference, None)
    assert [output.agrees for output in agreement.outputs] == [True, False, True]
    assert agreement.worst is not None
    assert (agreement.worst.name, agreement.worst.worst_index) == ("output 1.index", (1,))


def test_int64_is_compared_beyond_float64() -> None:
    big = 2**60
    assert reason(t(big + 1, dtype=torch.int64), t(big, dtype=torch.int64)) == "value"
    assert reason(t(big, dtype=torch.int64), t(big, dtype=torch.int64)) == "ok"


def test_an_index_may_be_the_reference_s_or_the_exact_one() -> None:
    plain, exact = t(4, 5), t(4, 6)
    plain, exact = plain.long(), exact.long()
    assert reason(t(4, 6).long(), plain, exact) == "ok"
    assert reason(t(4, 7).long(), plain, exact) == "value"


def test_wrong_structures() -> None:
    one = t(1.0)
    assert reason((one, one), one) == "count"
    assert reason(None, one) == "count"
    assert reason({"a": one}, {"b": one}) == "count"
    assert reason(t(1.0, 2.0), t(1.0)) == "shape"
    assert reason(one.reshape(1, 1), one) == "shape"
    assert reason(one.half(), one) == "dtype"
    assert reason(1.0, one) == "dtype"
    assert reason([one, None], (one,)) == "ok"
    assert reason(None, None) == "ok"


@pytest.mark.parametrize(
    ("candidate", "reference", "line"),
    [
        ((1, 2), 1, "the kernel returns 2 outputs, the reference 1"),
        (1, [1, 2, 3], "the kernel returns 1 output, the reference 3"),
        (None, 1, "the kernel returns nothing, the reference 1 output"),
        ((1, 2), None, "the kernel returns 2 outputs, the reference nothing"),
        ({"a": 1, "c": 2}, {"b": 1, "c": 2}, "the kernel returns output a, the reference output b"),
        (1, (1,), "the kernel returns output, the reference output 0"),
    ],
)
def test_another_number_of_outputs_in_words(candidate: Any, reference: Any, line: str) -> None:
    worst = compare(candidate, reference, None).worst
    assert worst is not None and worst.line() == line


def test_only_what_is_returned_is_counted() -> None:
    def fills(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1)
        return x * 2, x * 3

    arguments = [torch.randn(8)]
    expected = expected_outputs(lambda x: x.add_(1) * 2, arguments)
    worst = compare_outputs(call_on_copies(fills, arguments), expected, ["x"]).worst
    assert worst is not None and worst.line() == "the kernel returns 2 outputs, the reference 1"


def test_plain_python_outputs() -> None:
    assert reason((1, "a", 0.1), (1, "a", 0.1 + 1e-9)) == "ok"
    assert reason(2, 1) == "value"
    assert reason(True, 1) == "dtype"
    assert reason(0.1, 0.2) == "value"


@pytest.mark.parametrize(
    ("candidate", "plain", "exact", "expected"),
    [
        (NAN, 1.0, 1.0, "nan"),
        (INF, 1.0, 1.0, "value"),
        (NAN, NAN, NAN, "ok"),
        (0.0, NAN, NAN, "nan"),
        # the reference's own arithmetic overflows, the exact value does not
        (NAN, NAN, 1.0, "ok"),
        (1.0, NAN, 1.0, "ok"),
        (2.0, NAN, 1.0, "nan"),
        (INF, INF, 1.0, "ok"),
        (-INF, INF, 1.0, "value"),
        (INF, INF, INF, "ok"),
        (-INF, INF, INF, "value"),
        (1.0, INF, INF, "value"),
        # 1e5 is beyond float16
        (INF, INF, 1e5, "ok"),
        (-INF, INF, 1e5, "value"),
        (NAN, INF, 1e5, "nan"),
        (65504.0, INF, 65519.0, "ok"),
        (INF, 65504.0, 65519.0, "ok"),
    ],
)
def test_nan_and_infinity(candidate: float, plain: float, exact: float, expected: str) -> None:
    # among ordinary values, which must not be disturbed by it
    ordinary = [1.0, -2.0, 0.5]
    half = [t(*ordinary, value, dtype=torch.float16) for value in (candidate, plain)]
    assert reason(*half, t(*ordinary, exact, dtype=torch.float64)) == expected


def test_an_infinity_does_not_widen_the_bound_for_the_others() -> None:
    plain = t(INF, 1.0, 2.0)
    assert reason(t(INF, 1.1, 2.0), plain, plain.double()) == "value"


def test_fp8_nan_is_no_step_from_the_largest_number() -> None:
    largest, nan = t(448.0).to(torch.float8_e4m3fn), t(NAN).to(torch.float8_e4m3fn)
    assert reason(nan, largest, largest.double()) == "nan"
    assert reason(nan, nan, t(NAN).double()) == "ok"


def test_complex_empty_scalar_and_expanded_outputs() -> None:
    value = torch.randn(4, 4, dtype=torch.complex64)
    assert reason(value.clone(), value) == "ok"
    assert reason(value * 1.1, value) == "value"
    assert reason(torch.zeros(0, 4), torch.zeros(0, 4)) == "ok"
    assert reason(torch.tensor(1.0), torch.tensor(2.0)) == "value"
    assert reason(torch.ones(1).expand(4), torch.ones(4)) == "ok"


def test_an_exact_value_of_another_structure_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="structure"):
        compare(t(1.0), t(1.0), (t(1.0), t(1.0)))


def test_what_is_reported_about_the_worst_element() -> None:
    exact = torch.ones(3, 4, dtype=torch.float64)
    candidate = torch.ones(3, 4)
    candidate[2, 1] = 1.5
    (output,) = compare(candidate, torch.ones(3, 4), exact).outputs
    assert output.worst_index == (2, 1)
    assert output.max_abs_error == output.max_rel_error == 0.5
    assert 0 < output.tolerance < 1e-4
    assert "1.5 instead of 1 at [2, 1], 1 of 12 elements wrong" in output.line()


def test_the_record_survives_json() -> None:
    record = OutputAgreement("output 1", "nan", INF, NAN, 0.25, (3, 4), "nan instead of 1")
    text = json.dumps(record.to_json(), allow_nan=False)
    back = OutputAgreement.from_json(json.loads(text))
    assert math.isnan(back.max_rel_error)
    assert back.max_abs_error == INF
    assert (back.name, back.reason, back.worst_index) == ("output 1", "nan", (3, 4))
    with pytest.raises(ValueError, match="unknown reason"):
        OutputAgreement.from_json(record.to_json() | {"reason": "bored"})


def test_arguments_changed_in_place_are_outputs() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.add_(x)
        return y * 2

    def only_returned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (y + x) * 2

    def wrong_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    arguments = [torch.randn(8, 8), torch.randn(8, 8)]
    before = [a.clone() for a in arguments]
    expected = expected_outputs(both, arguments)
    found = {
        name.__name__: compare_outputs(call_on_copies(name, arguments), expected, ["x", "y"])
        for name in (both, only_returned, wrong_argument)
    }
    assert [output.name for output in found["both"].outputs] == ["output", "argument y (mutated)"]
    assert found["both"].agrees
    assert [o.name for o in found["only_returned"].outputs if not o.agrees] == ["argument y (mutated)"]
    assert [o.name for o in found["wrong_argument"].outputs if not o.agrees] == [
        "argument x (mutated)",
        "argument y (mutated)",
    ]
    assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))


def test_a_kernel_that_fills_an_argument_is_judged_by_what_the_reference_returns() -> None:
    def fills(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x * 2)

    arguments = [torch.randn(8), torch.zeros(8)]
    outputs = call_on_copies(fills, arguments)
    agreement = compare_outputs(outputs, expected_outputs(lambda x, out: x * 2, arguments), ["x", "out"])
    assert agreement.agrees
    assert [output.name for output in agreement.outputs] == ["argument out (mutated)"]
    wrong = compare_outputs(outputs, expected_outputs(lambda x, out: x * 3, arguments), ["x", "out"])
    assert not wrong.agrees


def test_a_returned_alias_of_an_argument_is_fine() -> None:
    def add_one(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    arguments = [torch.randn(8)]
    assert compare_outputs(
        call_on_copies(add_one, arguments), expected_outputs(add_one, arguments), ["x"]
    ).agrees


def test_the_exact_run_falls_back_where_the_reference_fixes_a_dtype() -> None:
    weight = torch.randn(8, 8)
    half = torch.randn(8, 8, dtype=torch.float16)
    single = expected_outputs(
        lambda x: x.to(weight.dtype) @ weight if x.dtype.itemsize < 8 else x @ weight, [half]
    )
    assert single.exact is not None and single.exact.returned.dtype is torch.float32
    none = expected_outputs(lambda x: x @ weight.half(), [half])
    assert none.exact is None
    assert compare_outputs(none.reference, none, ["x"]).agrees


def test_layouts_survive_the_copies() -> None:
    seen = []
    padded = torch.randn(8, 16)[:, :8]
    call_on_copies(
        lambda *args: seen.extend(a.stride() for a in args), [padded, padded.t(), torch.ones(1).expand(8)]
    )
    assert seen[:2] == [(16, 1), (1, 16)]


def test_names_of_nested_outputs() -> None:
    assert [name for name, _ in flat_outputs((1, [2, {"b": 3, "a": 4}], None))] == [
        "output 0",
        "output 1.0",
        "output 1.1.a",
        "output 1.1.b",
    ]
