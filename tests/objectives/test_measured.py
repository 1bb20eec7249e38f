"""What becomes of candidates on a GPU: equal code is run once, and the impossible is refused.

The compiler and the GPU process are stand-ins with answers that are known beforehand; the real ones are in
test_evaluate.py, test_gpu_process.py and test_gpu_faults.py.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import until

from helitune.acfs.errors import MachineError
from helitune.objectives.artifact import Artifact
from helitune.objectives.build import Build, ShapeBuild
from helitune.objectives.measured import REACH, MeasuredEvaluator
from helitune.objectives.outcomes import Compiled, Failed, Measured, Outcome
from helitune.objectives.times import OwnTimes, Race, ShapeTimes, Tried
from helitune.search.candidate import Candidate

OWN_MS = (0.1, 0.2)


def artifact(code: str) -> Artifact:
    """A launch of this code; nothing else of it is looked at."""
    return Artifact("ptx", code, 32, 0, 0, 0, 0, 100, 4, (8,), (), (), 1.0, (), 0.1)


def candidate(name: str, code: str | None = None) -> Candidate:
    """A candidate whose code is `code`, by default one of its own."""
    return Candidate.of({"name": name, "code": code or name})


OWN = candidate("own")


class Compiler:
    """Compiles a config to the code it names; "uncompilable" to none."""

    def __init__(self) -> None:
        self.scores = iter(range(1, 1000))

    def evaluate(self, candidate: Candidate) -> Compiled | Failed:
        code = candidate.config["code"]
        if code == "uncompilable":
            return Failed("compile", "no")
        score = float(next(self.scores))
        return Compiled(score, score, (score, score), ((artifact(f"{code} 1"),), (artifact(f"{code} 2"),)))

    def build(self, candidate: Candidate) -> Build:
        return tuple(ShapeBuild("", candidate.config["name"], ()) for _ in OWN_MS)


class Gpu:
    """Answers for builds by their name: two ratios to the own config's times, or a stage."""

    def __init__(self, **answers: tuple[float, float] | str | BaseException) -> None:
        self.answers = answers
        self.own: OwnTimes | Tried = OwnTimes("", OWN_MS, (True, True), (0, 0), 1e-7)
        self.tried: list[tuple[str, Race]] = []
        self.before: Callable[[str], None] = lambda name: None

    def use_own(self, own: Build) -> OwnTimes | Tried:
        return self.own

    def try_build(self, build: Build, race: Race) -> Tried:
        name = build[0].host_name
        self.tried.append((name, race))
        self.before(name)
        answer = self.answers[name]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            return Tried(stage=answer, message=f"{name} did it")
        return Tried(
            tuple(ShapeTimes(own * r, own, (r,)) for own, r in zip(OWN_MS, answer, strict=True)), 1e-6
        )

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.tried]


def evaluator(gpu: Gpu) -> MeasuredEvaluator:
    """An evaluator beside whose own config everything is measured."""
    made = MeasuredEvaluator(Compiler(), gpu)  # type: ignore[arg-type]
    assert isinstance(made.use_own(OWN), OwnTimes)
    return made


def measured(outcome: Outcome) -> Measured:
    assert isinstance(outcome, Measured), outcome
    return outcome


class TestScores:
    def test_a_score_is_the_mean_ratio_over_shapes(self) -> None:
        outcome = measured(evaluator(Gpu(fast=(0.5, 0.125))).evaluate(candidate("fast")))
        assert outcome.score == pytest.approx(0.25)
        assert (outcome.max_rel_error, outcome.same_code) == (1e-6, False)
        assert [shape.base_ms for shape in outcome.shapes] == list(OWN_MS)

    def test_the_own_config_is_one_exactly_and_so_is_who_has_its_code(self) -> None:
        gpu = Gpu()
        made = evaluator(gpu)
        for other in (OWN, candidate("no-op", code="own")):
            outcome = measured(made.evaluate(other))
            assert outcome.score == 1.0 and outcome.same_code
            assert [shape.ms for shape in outcome.shapes] == list(OWN_MS)
        assert gpu.tried == []

    def test_what_does_not_compile_never_reaches_the_gpu(self) -> None:
        gpu = Gpu()
        assert evaluator(gpu).evaluate(candidate("x", code="uncompilable")) == Failed("compile", "no")
        assert gpu.tried == []

    @pytest.mark.parametrize(
        "own",
        [
            Tried(stage="illegal_access", message="far away"),
            OwnTimes("output: all of it", (), (), (), 1.0),
        ],
    )
    def test_an_own_config_that_fails_says_where(self, own: OwnTimes | Tried) -> None:
        gpu = Gpu(x=(1.0, 1.0))
        gpu.own = own
        made = MeasuredEvaluator(Compiler(), gpu)  # type: ignore[arg-type]
        expected = {"illegal_access": "far away", "wrong_output": "output: all of it"}
        failed = made.use_own(OWN)
        assert isinstance(failed, Failed) and failed.message == expected[failed.stage]

    def test_an_own_config_that_does_not_compile_is_not_run(self) -> None:
        made = MeasuredEvaluator(Compiler(), Gpu())  # type: ignore[arg-type]
        assert made.use_own(candidate("own", code="uncompilable")) == Failed("compile", "no")


class TestEqualCode:
    def test_it_is_measured_once_and_known_by_its_own_artifacts(self) -> None:
        gpu = Gpu(first=(0.5, 0.5))
        made = evaluator(gpu)
        first = measured(made.evaluate(candidate("first")))
        again = measured(made.evaluate(candidate("second", code="first")))
        assert gpu.names == ["first"]
        assert (again.score, again.shapes, again.same_code) == (first.score, first.shapes, True)
        assert again.compiled != first.compiled and again.compiled.code == first.compiled.code

    @pytest.mark.parametrize(
        "stage", ["illegal_access", "hang", "wrong_output", "worker_died", "out_of_memory"]
    )
    def test_a_failure_is_not_repeated(self, stage: str) -> None:
        gpu = Gpu(first=stage)
        made = evaluator(gpu)
        assert made.evaluate(candidate("first")) == Failed(stage, "first did it")
        again = made.evaluate(candidate("second", code="first"))
        assert again == Failed(stage, "the same code as an earlier candidate: first did it")
        assert gpu.names == ["first"]

    def test_threads_that_ask_at_once_wait_for_one_measurement(self) -> None:
        gpu = Gpu(**dict.fromkeys([f"n{i}" for i in range(8)], (0.5, 0.5)))
        started, go_on = threading.Event(), threading.Event()

        def wait(_: str) -> None:
            started.set()
            assert go_on.wait(10)

        gpu.before = wait
        made = evaluator(gpu)
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(made.evaluate, candidate(f"n{i}", code="same")) for i in range(8)]
            assert started.wait(10)
            assert not until(lambda: len(gpu.tried) > 1, 0.1)
            go_on.set()
            outcomes = [measured(future.result(10)) for future in asked]
        assert len(gpu.tried) == 1
        assert sorted(outcome.same_code for outcome in outcomes) == [False] + [True] * 7

    def test_a_machine_that_fails_ends_all_who_wait(self) -> None:
        broken = MachineError("the GPU process failed", next_step="see the log")
        made = evaluator(Gpu(first=broken))
        for name in ("first", "second"):
            with pytest.raises(MachineError, match="the GPU process failed"):
                made.evaluate(candidate(name, code="first"))


class TestImpossible:
    @pytest.mark.parametrize(
        ("floors", "refused"),
        [
            ((0.06, None), True),
            ((None, 0.11), True),
            ((None, None), False),
            ((0.04, 0.09), False),
            ((), False),
        ],
    )
    def test_a_time_below_the_floor_of_any_shape_is_refused(
        self, floors: tuple[float | None, ...], refused: bool
    ) -> None:
        made = evaluator(Gpu(x=(0.5, 0.5)))
        made.refuse_below(floors)
        outcome = made.evaluate(candidate("x"))
        assert (isinstance(outcome, Failed) and outcome.stage == "impossible") == refused

    def test_the_message_has_both_times_and_equal_code_the_same_fate(self) -> None:
        gpu = Gpu(x=(0.5, 0.5))
        made = evaluator(gpu)
        made.refuse_below((0.0625, None))
        outcome = made.evaluate(candidate("x"))
        assert isinstance(outcome, Failed)
        assert "50 us is less" in outcome.message and "(62.5 us)" in outcome.message
        again = made.evaluate(candidate("y", code="x"))
        assert isinstance(again, Failed) and again.stage == "impossible"
        assert gpu.names == ["x"]


class TestRace:
    def reaches(self, made: MeasuredEvaluator, gpu: Gpu, *names: str) -> list[float]:
        for name in names:
            made.evaluate(candidate(name))
        return [race.reach for _, race in gpu.tried]

    def test_a_candidate_gets_time_by_how_near_it_is_to_the_best_so_far(self) -> None:
        gpu = Gpu(slow=(2.0, 2.0), fast=(0.5, 0.5), last=(0.7, 0.7))
        reaches = self.reaches(evaluator(gpu), gpu, "slow", "fast", "last")
        assert reaches == pytest.approx([REACH, REACH, 0.5 * REACH])

    def test_what_is_impossible_or_wrong_is_nobody_s_measure(self) -> None:
        gpu = Gpu(impossible=(0.1, 0.1), wrong="wrong_output", last=(1.0, 1.0))
        made = evaluator(gpu)
        made.refuse_below((0.05, 0.1))
        assert self.reaches(made, gpu, "impossible", "wrong", "last") == pytest.approx([REACH] * 3)


class TestResume:
    def earlier(self, name: str, ratio: float) -> Measured:
        """What an earlier session wrote down."""
        compiled = Compiler().evaluate(candidate(name))
        assert isinstance(compiled, Compiled)
        return Measured.of(compiled, (ShapeTimes(0.1, 0.2, (ratio,)),) * 2, 1e-6)

    def test_what_was_measured_before_is_not_measured_again(self) -> None:
        gpu = Gpu(new=(0.9, 0.9))
        made = evaluator(gpu)
        made.remember(self.earlier("old", 0.5))
        again = measured(made.evaluate(candidate("same as old", code="old")))
        assert again.score == pytest.approx(0.5) and again.same_code and gpu.tried == []
        measured(made.evaluate(candidate("new")))
        assert gpu.tried[0][1].reach == pytest.approx(0.5 * REACH)

    def test_what_failed_or_was_only_compiled_teaches_nothing(self) -> None:
        gpu = Gpu(old=(0.9, 0.9))
        made = evaluator(gpu)
        for outcome in (Failed("hang", "no"), self.earlier("old", 0.5).compiled):
            made.remember(outcome)
        assert measured(made.evaluate(candidate("old"))).score == pytest.approx(0.9)

    def test_the_own_config_stays_what_it_is_in_this_session(self) -> None:
        made = evaluator(Gpu())
        made.remember(self.earlier("own", 0.97))
        assert measured(made.evaluate(OWN)).score == 1.0


class TestMeasuredRecord:
    @given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5))
    def test_its_score_lies_among_its_ratios_and_survives_json(self, ratios: list[float]) -> None:
        shapes = tuple(ShapeTimes(1.0, 1.0, (ratio,)) for ratio in ratios)
        artifacts = tuple((artifact("a" * 64),) for _ in ratios)
        outcome = Measured.of(Compiled(1.0, 1.0, tuple(map(float, ratios)), artifacts), shapes, 0.5)
        assert min(ratios) * (1 - 1e-9) <= outcome.score <= max(ratios) * (1 + 1e-9)
        fields: dict[str, Any] = outcome.to_json()
        assert fields["score"] == outcome.score and math.isfinite(outcome.tie_breaker)
