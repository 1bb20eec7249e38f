"""The gate that candidates pass on the GPU, with the CPU in the GPU's place: what is judged is the same tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from helitune.objectives.check_rounds import LARGE
from helitune.objectives.gpu.cases import KEPT_SHARE, SEEDS, Cases
from helitune.objectives.gpu.check import Gate
from helitune.objectives.inputs import make_arguments
from helitune.objectives.outputs import Expected, call_on_copies, expected_outputs
from helitune.search.args import parse_args
from helitune.search.workload import Shape

Kernel = Callable[..., Any]


@pytest.fixture(autouse=True)
def free_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Free GPU memory, as torch.cuda is made to tell; the test may change it."""
    free = [8 << 30]
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free[0], 16 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    return free


@dataclass
class Workload:
    """As much of a LoadedWorkload as Cases looks at; its inputs are on the CPU, and counted by seed."""

    shapes: tuple[Shape, ...]
    reference: Kernel | None

    def __post_init__(self) -> None:
        self.drawn: list[int] = []

    def make_inputs(self, index: int, *, device: str, seed: int = 0) -> list[Any]:
        assert device == "cuda"
        self.drawn.append(seed)
        return make_arguments(self.shapes[index], device="cpu", seed=seed)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Bench:
    """Cases and the gate of one shape, judged by `reference`, which may stand for the own config too."""

    def __init__(
        self, args: str = "f32[64]", reference: Kernel = doubled, names: str = "x", own: bool = False
    ) -> None:
        self.workload = Workload((parse_args(args),), None if own else reference)
        expect = (lambda a: of_own(reference, a)) if own else (lambda a: expected_outputs(reference, a))
        self.cases = Cases(self.workload, 0, 5, expect)  # type: ignore[arg-type]
        self.gate = Gate(self.cases, names.split(), tf32=False)

    def wrong(self, kernel: Kernel) -> str:
        return self.gate.check(kernel).wrong

    def names(self) -> list[str]:
        return [case.plan.name for case in self.cases]


def of_own(own: Kernel, arguments: Sequence[Any]) -> Expected:
    """What is expected where the own config is the judge."""
    return Expected(call_on_copies(own, arguments), None)


def written(x: torch.Tensor, where: torch.Tensor | slice) -> torch.Tensor:
    """What a kernel leaves that writes a doubled x in some places only."""
    out = torch.empty_like(x)
    out[where] = x[where] * 2
    return out


class TestWrong:
    @pytest.mark.parametrize(
        "kernel",
        [
            lambda x: x * 2,
            lambda x: x * 4.0 * 0.5,
            lambda x: torch.empty_like(x).copy_(x).mul_(2),
            lambda x: written(x, slice(None)),
        ],
    )
    def test_what_is_right_passes(self, kernel: Kernel) -> None:
        checked = Bench().gate.check(kernel)
        assert checked.wrong == "" and checked.max_rel_error < 1e-6

    @pytest.mark.parametrize(
        ("kernel", "words"),
        [
            (lambda x: x * 2.001, "of 64 elements wrong"),
            (lambda x: torch.empty_like(x), "64 of 64"),
            (lambda x: written(x, slice(0, 63)), "at [63]"),
            (lambda x: x * float("nan"), "nan"),
            (lambda x: (x * 2)[:32], "shape [32], the reference has [64]"),
            (lambda x: (x * 2).double(), "float64"),
            (lambda x: None, "returns nothing"),
            (lambda x: (x * 2, x), "output"),
        ],
    )
    def test_what_is_wrong_is_told_in_a_line(self, kernel: Kernel, words: str) -> None:
        wrong = Bench().wrong(kernel)
        assert words in wrong and "\n" not in wrong

    def test_what_nobody_wrote_does_not_pass_for_the_last_result(self) -> None:
        bench = Bench("f32[4096]")
        assert bench.wrong(doubled) == ""
        assert bench.wrong(lambda x: written(x, slice(0, 4000))) != ""

    @pytest.mark.parametrize(
        ("args", "reference"),
        [
            ("f32[64]", lambda x: torch.ones(64, dtype=torch.bool)),
            ("f32[64]", lambda x: torch.zeros(64, dtype=torch.bool)),
            ("f32[64]", lambda x: torch.full((64,), -1, dtype=torch.int32)),
            ("f32[64]", lambda x: torch.full((64,), 255, dtype=torch.uint8)),
            ("f16[64]=ones", lambda x: torch.full((64,), float("nan"), dtype=torch.float16)),
        ],
    )
    def test_a_result_that_looks_like_a_pattern_must_be_written_too(
        self, args: str, reference: Kernel
    ) -> None:
        bench = Bench(args, reference)
        assert bench.wrong(reference) == ""
        assert bench.wrong(lambda x: torch.empty_like(reference(x))) != ""

    def test_arguments_are_as_they_were_for_the_next(self) -> None:
        bench = Bench()

        def destructive(x: torch.Tensor) -> torch.Tensor:
            out = x * 2
            x.fill_(7.0)
            return out

        assert "argument x (mutated)" in bench.wrong(destructive)
        assert bench.wrong(doubled) == ""


class TestSpecialValues:
    @pytest.mark.parametrize(
        ("kernel", "words"),
        [
            (lambda x: torch.where(x.abs() > LARGE / 2, x, x * 2), "× 64"),
            (lambda x: torch.where(x == 0, 1.0, x * 2), "zeros"),
            (lambda x: torch.where(x.isnan() | x.isinf(), x.nan_to_num() * 2, x * 2 + (x * 0).amax()), "NaN"),
        ],
    )
    def test_a_candidate_must_agree_on_them(self, kernel: Kernel, words: str) -> None:
        assert words in Bench().wrong(kernel)

    def test_but_not_where_the_own_config_fails_too(self) -> None:
        bench = Bench()

        def no_large_ones(x: torch.Tensor) -> torch.Tensor:
            return torch.where(x.abs() > LARGE / 2, x, x * 2)

        assert bench.gate.check_own(no_large_ones).wrong == ""
        assert "large values" not in bench.names() and "zeros" in bench.names()
        assert bench.wrong(no_large_ones) == "" and bench.wrong(doubled) == ""
        assert "zeros" in bench.wrong(lambda x: torch.where(x == 0, 1.0, x * 2))

    def test_an_own_config_that_is_wrong_on_ordinary_values_is_wrong(self) -> None:
        checked = Bench().gate.check_own(lambda x: x * 3)
        assert "64 of 64 elements wrong" in checked.wrong and checked.max_rel_error == pytest.approx(0.5)

    def test_what_the_reference_cannot_take_is_no_case(self) -> None:
        def picky(x: torch.Tensor) -> torch.Tensor:
            if not torch.isfinite(x).all():
                raise ValueError("numbers, please")
            return x * 2

        bench = Bench(reference=picky)
        assert bench.gate.check_own(doubled).wrong == ""
        assert "NaN and infinity" not in bench.names() and len(bench.names()) == SEEDS + 3

    def test_values_that_the_workload_states_stay_as_they_are(self) -> None:
        bench = Bench("f32[64]=0..1")
        assert bench.names() == [f"values {draw}" for draw in range(SEEDS)]

    def test_judged_by_the_own_config_there_are_none(self) -> None:
        bench = Bench(own=True)
        assert bench.gate.check_own(doubled).wrong == ""
        assert bench.names() == [f"values {draw}" for draw in range(SEEDS)]
        assert "64 of 64" in bench.wrong(lambda x: x * 3)


def fill(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 2)


def fill_wrongly(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 3)


def fill_and_spill(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 2)
    x[0] = 0.0


def double_(x: torch.Tensor) -> None:
    x.mul_(2)


def double_but_zeros_(x: torch.Tensor) -> None:
    x.copy_(torch.where(x == 0, 1.0, x * 2))


class TestFilledArguments:
    def bench(self) -> Bench:
        bench = Bench("f32[64] f32[64]=zeros", lambda x, out: x * 2, "x out")
        assert bench.gate.check_own(fill).wrong == ""
        return bench

    def test_a_filled_argument_is_the_output(self) -> None:
        bench = self.bench()
        assert bench.gate.mutated == {1}
        assert "argument out (mutated)" in bench.wrong(fill_wrongly)

    def test_one_that_is_not_filled_is_wrong(self) -> None:
        assert self.bench().wrong(lambda x, out: None) != ""

    def test_a_stray_write_is_one_candidate_s_fault_and_no_other_s(self) -> None:
        bench = self.bench()
        assert bench.wrong(fill_and_spill) != ""
        assert bench.wrong(fill) == ""
        assert bench.gate.mutated == {1}

    def test_what_is_doubled_in_place_is_compared_where_it_is_zero_too(self) -> None:
        bench = Bench(reference=double_)
        assert bench.gate.check_own(double_).wrong == "" and bench.gate.mutated == {0}
        assert "zeros" in bench.wrong(double_but_zeros_)


class TestSoak:
    def test_each_kernel_is_judged_by_itself_on_values_that_no_check_had(self) -> None:
        bench = Bench()
        seen: list[float] = []
        calls = itertools.count()

        def right(x: torch.Tensor) -> torch.Tensor:
            seen.append(float(x[0]))
            return x * 2

        def flaky(x: torch.Tensor) -> torch.Tensor:
            return x * (2 if next(calls) != 6 else 3)

        bench.wrong(right)
        checked, seen[:] = set(seen), []
        found = bench.gate.soak([right, flaky, right], 10)
        assert found[0] == found[2] == ""
        assert found[1].startswith("repeat 7 of 10: ") and "64 of 64 elements wrong" in found[1]
        assert next(calls) == 7  # what has failed is not run again
        assert len(set(seen)) == 10 and not set(seen) & checked

    def test_what_is_wrong_for_rare_values_is_found(self) -> None:
        def rarely(x: torch.Tensor) -> torch.Tensor:
            return torch.where(x.abs().max() > 3.0, x * 3, x * 2)

        (found,) = Bench("f32[64]").gate.soak([rarely], 100)
        assert found.startswith("repeat ")


class TestCases:
    def test_they_are_made_once_where_memory_allows(self) -> None:
        bench = Bench()
        first = list(bench.cases)
        drawn = len(bench.workload.drawn)
        assert all(one is other for one, other in zip(first, bench.cases, strict=True))
        assert len(bench.workload.drawn) == drawn

    def test_else_anew_each_time_and_alike(self, free_bytes: list[int]) -> None:
        free_bytes[0] = int(10 * 64 * 4 / KEPT_SHARE)  # room for some of them
        bench = Bench()
        first, again = list(bench.cases), list(bench.cases)
        assert [case.plan.name for case in first] == [case.plan.name for case in again]
        assert first[0] is not again[0]
        pairs = ((one.arguments[0], other.arguments[0]) for one, other in zip(first, again, strict=True))
        assert all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs)
        assert bench.wrong(doubled) == ""
        assert "at [63]" in bench.wrong(lambda x: written(x, slice(0, 63)))

    def test_a_check_that_ends_early_leaves_the_next_one_all_cases(self) -> None:
        bench = Bench()
        assert bench.wrong(lambda x: x * 3) != ""
        assert len(bench.names()) == SEEDS + 4

    def test_draws_of_neighbouring_seeds_are_different(self) -> None:
        bench = Bench()
        for draw in range(SEEDS + 100):
            bench.cases.fresh(draw)
        seeds = bench.workload.drawn
        assert not {seed + 1 for seed in seeds} & set(seeds)
