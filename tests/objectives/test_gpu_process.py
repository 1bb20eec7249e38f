"""The GPU process: whatever a candidate does there costs that candidate alone, and nothing is left running.

Processes, channels and signals are real; in place of the GPU stands fixtures/stand_in_gpu. The GPU itself is in
test_gpu_faults.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import all_end, descendants, until

from helitune.acfs.errors import MachineError
from helitune.objectives import gpu_process
from helitune.objectives.build import Build, ShapeBuild
from helitune.objectives.gpu_process import GpuProcess, stage_of
from helitune.objectives.outcomes import STAGES
from helitune.objectives.times import OwnTimes, Race, Tried

STAND_IN = Path(__file__).parents[1] / "fixtures" / "stand_in_gpu"
ALLOWED_S = 1.0
"""For a candidate, in place of CANDIDATE_TIMEOUT_S."""


def build(behaviour: str) -> Build:
    """A build that the stand-in's method of this name answers for."""
    return (ShapeBuild("", behaviour, ()),)


class Watched:
    """A GPU process whose own config stands, and what is asked of it in a test."""

    def __init__(self, gpu: GpuProcess) -> None:
        self.gpu = gpu
        assert isinstance(gpu.use_own(build("right")), OwnTimes)

    def tries(self, behaviour: str) -> Tried:
        return self.gpu.try_build(build(behaviour), Race())

    def process_id(self) -> int:
        return int(self.gpu.ask("process_id"))

    def lost(self) -> int:
        """Processes lost so far."""
        return int(self.gpu.use_since_own()["replaced"])

    def works(self) -> bool:
        """Whether the next candidate is measured beside the own config, as if nothing had been."""
        return self.tries("right").shapes[0].ratio == 0.5 and self.gpu.ask("own") == "right"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], GpuProcess]]:
    """A function that starts a GPU process; all of them are closed at the end."""
    folder = tmp_path_factory.mktemp("gpu")
    search_path = os.pathsep.join(filter(None, (str(STAND_IN), os.environ.get("PYTHONPATH"))))
    started: list[GpuProcess] = []

    def start() -> GpuProcess:
        log = folder / f"gpu {len(started)}.log"
        started.append(GpuProcess({}, log=log, environment={**os.environ, "PYTHONPATH": search_path}))
        return started[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_process, "CANDIDATE_TIMEOUT_S", ALLOWED_S)
        yield start
    for gpu in started:
        gpu.close()


@pytest.fixture(scope="module")
def watched(start: Callable[[], GpuProcess]) -> Watched:
    """One for all tests: what went wrong in one of them is not felt in the next."""
    return Watched(start())


class TestStages:
    @pytest.mark.parametrize(
        ("behaviour", "stage", "words"),
        [
            ("disagree", "wrong_output", "values 0: output: all of it"),
            ("spread_over_memory", "out_of_memory", "Tried to allocate 16384.00 GiB"),
            ("be_refused", "launch", "RuntimeError: Triton Error [CUDA]: invalid argument"),
            ("answer_unreadably", "launch", "pickle"),
        ],
    )
    def test_what_a_process_survives(self, behaviour: str, stage: str, words: str, watched: Watched) -> None:
        before, lost = watched.process_id(), watched.lost()
        tried = watched.tries(behaviour)
        assert tried.stage == stage and words in tried.message
        assert watched.works() and watched.process_id() == before
        assert watched.lost() == lost

    @pytest.mark.parametrize(
        ("behaviour", "stage", "words"),
        [
            ("store_far_away", "illegal_access", "CUDA error: an illegal memory access was encountered"),
            ("assert_on_the_device", "illegal_access", "device-side assert"),
            ("crash", "worker_died", "ended without an answer"),
            ("abort_with_a_word", "worker_died", "what():  CUDA error: unspecified launch failure"),
            ("exhaust_the_host", "worker_died", "ended without an answer"),
            ("leave", "worker_died", "ended without an answer"),
        ],
    )
    def test_what_ends_a_process(self, behaviour: str, stage: str, words: str, watched: Watched) -> None:
        before, lost = watched.process_id(), watched.lost()
        tried = watched.tries(behaviour)
        assert tried.stage == stage and words in tried.message
        assert tried.shapes == ()
        assert watched.works()
        assert watched.process_id() != before and all_end([before])
        assert watched.lost() == lost + 1

    def test_what_hangs_is_killed_with_its_children(self, watched: Watched) -> None:
        before = set(descendants(os.getpid()))
        assert watched.tries("never_return") == Tried(stage="hang", message="no answer within 1.2 s")
        assert until(lambda: set(descendants(os.getpid())) < before)
        assert watched.works()

    def test_one_fault_after_the_other(self, watched: Watched) -> None:
        lost = watched.lost()
        behaviours = ["crash", "right", "store_far_away", "crash", "spread_over_memory", "right", "leave"]
        stages = [watched.tries(behaviour).stage for behaviour in behaviours]
        died = "worker_died"
        assert stages == [died, "", "illegal_access", died, "out_of_memory", "", died]
        assert watched.works()
        assert watched.lost() == lost + 4

    def test_the_last_words_are_those_of_the_process_that_ended(self, watched: Watched) -> None:
        assert "unspecified launch failure" in watched.tries("abort_with_a_word").message
        assert watched.tries("leave").message == "the GPU process ended without an answer"

    @pytest.mark.parametrize(
        ("kind", "message", "stage"),
        [
            ("OutOfMemoryError", "anything", "out_of_memory"),
            ("AcceleratorError", "CUDA error: out of memory", "out_of_memory"),
            ("RuntimeError", "Triton Error [CUDA]: an illegal memory access was encountered", "illegal_access"),
            ("AcceleratorError", "CUDA error: misaligned address", "illegal_access"),
            ("AcceleratorError", "CUDA error: an illegal instruction was encountered", "illegal_access"),
            ("AcceleratorError", "CUDA error: invalid program counter", "illegal_access"),
            ("AcceleratorError", "CUDA error: hardware stack error", "illegal_access"),
            ("AcceleratorError", "CUDA error: unspecified launch failure", "illegal_access"),
            ("AcceleratorError", "CUDA error: operation not supported on global/shared address space",
             "illegal_access"),
            ("OutOfResources", "out of resource: shared memory, Required: 300000, Hardware limit: 232448",
             "launch"),
            ("Drift", "_helion_kernel is specialised otherwise", "drift"),
            ("ValueError", "anything else", "launch"),
        ],
    )  # fmt: skip
    def test_an_exception_s_stage(self, kind: str, message: str, stage: str) -> None:
        assert stage_of(kind, message) == stage and stage in STAGES


class TestOwn:
    def test_its_times_come_back_and_allow_a_candidate_more_time(
        self, start: Callable[[], GpuProcess]
    ) -> None:
        gpu = start()
        times = gpu.use_own(build("slow 0.05"))
        assert isinstance(times, OwnTimes) and times.ms == (0.05,)
        # 20,000 times the own config's time
        assert gpu.try_build(build("never_return"), Race()).message == "no answer within 2 s"

    @pytest.mark.parametrize("behaviour", ["crash", "be_refused", "wrong: by far"])
    def test_one_that_fails_stands_nowhere(self, behaviour: str, start: Callable[[], GpuProcess]) -> None:
        gpu = start()
        failed = gpu.use_own(build(behaviour))
        if isinstance(failed, Tried):
            assert failed.stage in ("worker_died", "launch")
        else:
            assert failed.wrong == "wrong: by far"
        # a process that starts from now on is not given what failed
        gpu.try_build(build("crash"), Race())
        assert gpu.ask("own") is None and not gpu.ask("launches")

    def test_a_new_process_is_given_what_the_first_one_found_out(
        self, start: Callable[[], GpuProcess]
    ) -> None:
        gpu = start()
        gpu.use_own(build("right"))
        assert not gpu.ask("launches")
        gpu.try_build(build("crash"), Race())
        assert gpu.ask("own") == "right" and gpu.ask("launches") == (7,)

    def test_what_was_used_is_counted_from_it_on(self, watched: Watched) -> None:
        watched.gpu.use_own(build("right"))
        watched.tries("right")
        watched.tries("crash")
        used = watched.gpu.use_since_own()
        assert used["replaced"] == 1 and used["spent_s"] == {"check": 1.0, "time": 2.0}
        assert used["busy_s"] > 0
        watched.gpu.use_own(build("right"))
        assert watched.gpu.use_since_own()["spent_s"] == {}


class TestSoak:
    def test_each_build_has_its_own_answer(self, watched: Watched) -> None:
        tried = watched.gpu.soak([build("right"), build("flaky")], 100)
        assert tried == [Tried(), Tried(stage="flaky_output", message="repeat 21 of 100: output")]

    @pytest.mark.parametrize(
        ("behaviour", "stage"), [("crash", "worker_died"), ("store_far_away", "illegal_access")]
    )
    def test_the_one_that_ends_the_process_is_found_among_others(
        self, behaviour: str, stage: str, watched: Watched
    ) -> None:
        builds = [build(name) for name in ("right", behaviour, "flaky", "right")]
        stages = [tried.stage for tried in watched.gpu.soak(builds, 100)]
        assert stages == ["", stage, "flaky_output", ""]
        assert watched.works()


class TestLife:
    def test_threads_wait_their_turn_and_get_their_own_answers(self, watched: Watched) -> None:
        behaviours = ["right", "crash", "disagree", "right", "store_far_away", "spread_over_memory"] * 2
        with ThreadPoolExecutor(len(behaviours)) as threads:
            stages = [tried.stage for tried in threads.map(watched.tries, behaviours)]
        assert stages == ["", "worker_died", "wrong_output", "", "illegal_access", "out_of_memory"] * 2
        assert watched.works()

    def test_close_ends_everything_in_the_middle_of_a_call(self, start: Callable[[], GpuProcess]) -> None:
        before = set(descendants(os.getpid()))
        gpu = start()
        gpu.use_own(build("slow 100"))
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(gpu.try_build, build("never_return"), Race())
            # the zygote, its worker, and what the worker started
            assert until(lambda: len(set(descendants(os.getpid())) - before) == 3)
            gpu.close()
            assert call.result().stage == "worker_died"
        assert until(lambda: set(descendants(os.getpid())) <= before)
        assert gpu.try_build(build("right"), Race()).stage == "worker_died"

    def test_a_question_that_fails_is_the_machine_s_fault(self, watched: Watched) -> None:
        with pytest.raises(MachineError, match="the GPU process failed: worker_died") as caught:
            watched.gpu.ask("crash")
        assert "doctor" in caught.value.next_step
        assert watched.works()
