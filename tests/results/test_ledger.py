"""The ledger: what is charged, what is answered from memory, and that a resumed run repeats nothing.

The evaluator here is the ledger's own contract, with answers that are known beforehand; the real
one is tested in tests/objectives and by whole runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pin_runs import artifact

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import MachineError
from helitune.objectives.outcomes import Compiled, Failed, Outcome
from helitune.results.ledger import STALLED_BATCHES, Ledger
from helitune.results.run_directory import RunDirectory
from helitune.results.trial import Trial
from helitune.search.candidate import Candidate
from helitune.search.space import Dimension, JointSpace
from helitune.search.strategies.contract import SearchEnded

X = Dimension("x", None, (0,), tuple((value,) for value in range(20)))
ACF = Acf("first", "ab" * 32, Path("first.acf"))
SPACE = JointSpace((X,), (NO_ACF, ACF))
OWN = Candidate.of({"x": 0})


class Evaluator:
    """Scores a config with its x. Odd ones from 11 on are no configs, 12 and 14 normalise to 10, 18 never compiles."""

    def __init__(self) -> None:
        self.evaluated: list[int] = []
        self.prepared: list[int] = []
        self.remembered: list[Outcome] = []
        self.before: Callable[[int], None] = lambda x: None

    def normalise(self, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any] | Failed]:
        return [
            Failed("invalid_config", f"{x} is odd") if x > 10 and x % 2 else {"x": 10 if x in (12, 14) else x}
            for (x,) in rows
        ]

    def prepare(self, candidate: Candidate) -> None:
        self.prepared.append(candidate.config["x"])

    def remember(self, outcome: Outcome) -> None:
        self.remembered.append(outcome)

    def evaluate(self, candidate: Candidate) -> Outcome:
        x = candidate.config["x"]
        self.before(x)
        self.evaluated.append(x)
        if x == 16:
            return Failed("invalid_config", "found out late")
        if x == 18:
            return Failed("compile", "no")
        return Compiled(float(x), float(x), (float(x),), ((artifact(f"code {x}"),),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "20261201-101500-ab12"
    path.mkdir()
    (path / "trials.jsonl").touch()
    return path


class Opened:
    """A ledger on a run's folder, as one call of `tune` has it."""

    def __init__(
        self, folder: Path, *, budget: int = 100, jobs: int = 1, time_s: float | None = None
    ) -> None:
        self.run = RunDirectory(folder)
        self.run.lock()
        self.evaluator = Evaluator()
        self.seen: list[Trial] = []
        self.ledger = Ledger(
            self.run,
            SPACE,
            self.evaluator,
            jobs=jobs,
            budget=budget,
            time_s=time_s,
            on_trial=self.seen.append,
        )

    def __call__(self, *xs: int, acf: int = 0) -> list[float | None]:
        return self.ledger.proposals("random")([(x, acf) for x in xs])

    def close(self) -> None:
        self.ledger.close()
        self.run.close()


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., Opened]]:
    """A function that opens the run; one opened before is closed first, as a process that ended."""
    last: list[Opened] = []

    def open_(**settings: Any) -> Opened:
        for one in last:
            one.close()
        last[:] = [Opened(folder, **settings)]
        return last[0]

    yield open_
    for one in last:
        one.close()


def numbers(opened: Opened) -> list[int]:
    return [trial.number for trial in opened.ledger.trials]


def test_scores_come_in_the_order_of_the_batch(opened: Callable[..., Opened]) -> None:
    search = opened(jobs=3)
    assert search(5, 3, 18, 13, 1) == [5.0, 3.0, None, None, 1.0]
    assert search() == []


def test_only_what_reaches_the_compiler_is_charged(opened: Callable[..., Opened]) -> None:
    search = opened()
    search.ledger.baselines([("own", OWN)])
    assert search.ledger.charged == 0
    search(11, 13, 16, 0)  # two that are no configs, one found out late, one that is the baseline
    assert search.ledger.charged == 0
    search(18, 5)  # a failed compile is paid for
    assert search.ledger.charged == 2


def test_the_budget_ends_the_search_in_the_middle_of_a_batch(opened: Callable[..., Opened]) -> None:
    search = opened(budget=3)
    with pytest.raises(SearchEnded, match="budget of 3 candidates"):
        search(1, 16, 2, 3, 4, 5)
    assert search.evaluator.evaluated == [1, 16, 2, 3]
    with pytest.raises(SearchEnded, match="budget"):
        search(1)


def test_a_budget_that_is_just_enough_answers_the_batch(opened: Callable[..., Opened]) -> None:
    search = opened(budget=2)
    assert search(1, 2) == [1.0, 2.0]
    with pytest.raises(SearchEnded):
        search(1)


def test_without_a_budget_only_baselines_are_evaluated(opened: Callable[..., Opened]) -> None:
    search = opened(budget=0, time_s=0.0)
    (own,) = search.ledger.baselines([("own", OWN)])
    with pytest.raises(SearchEnded):
        search(1)
    assert own.origin == "baseline own" and search.evaluator.evaluated == [0]


def test_what_normalises_to_a_known_candidate_is_answered_from_memory(opened: Callable[..., Opened]) -> None:
    search = opened()
    assert search(10, 12, 14, 10) == [10.0, 10.0, 10.0, 10.0]
    assert search(12) == [10.0]
    assert search.evaluator.evaluated == [10] and search.ledger.charged == 1 and len(search.seen) == 1


def test_with_an_acf_it_is_another_candidate(opened: Callable[..., Opened]) -> None:
    search = opened()
    search(5)
    search(5, acf=1)
    plain, with_acf = search.ledger.trials
    assert search.ledger.charged == 2 and plain.id != with_acf.id
    assert (plain.acf_sha256, with_acf.acf_sha256, with_acf.acf_name) == ("", ACF.sha256, "first")


def test_an_invalid_config_is_recorded_once(opened: Callable[..., Opened]) -> None:
    search = opened()
    search(11, 11)
    search(11)
    (trial,) = search.ledger.trials
    assert trial.outcome == Failed("invalid_config", "11 is odd") and trial.config == {"x": [11]}


def test_numbers_follow_the_proposals_whatever_finishes_first(opened: Callable[..., Opened]) -> None:
    last_is_done = threading.Event()

    def wait_for_the_last(x: int) -> None:
        if x == 6:
            last_is_done.set()
        else:
            assert last_is_done.wait(10)

    search = opened(jobs=3)
    search.ledger.baselines([("own", OWN)])
    search.evaluator.before = wait_for_the_last
    search(8, 13, 7, 6)
    assert search.evaluator.evaluated[0] == 0 and set(search.evaluator.evaluated) == {0, 6, 7, 8}
    assert [trial.config["x"] for trial in search.ledger.trials] == [0, [13], 8, 7, 6]
    assert numbers(search) == [1, 2, 3, 4, 5]


BATCHES = [(5, 3, 11, 18), (12, 10, 4, 5), (16, 14, 1, 0), (2, 6, 13, 7)]


def whole_search(search: Opened) -> list[list[float | None]]:
    search.ledger.baselines([("own", OWN)])
    return [search(*batch) for batch in BATCHES]


def test_a_replay_gives_the_same_answers_and_writes_nothing(
    opened: Callable[..., Opened], folder: Path
) -> None:
    first = opened(jobs=2)
    answers, trials, charged = whole_search(first), first.ledger.trials, first.ledger.charged
    written = (folder / "trials.jsonl").read_bytes()
    again = opened(jobs=2)
    assert whole_search(again) == answers
    assert again.evaluator.evaluated == []
    assert (folder / "trials.jsonl").read_bytes() == written
    assert again.ledger.charged == charged
    assert [t.id for t in again.ledger.trials] == [t.id for t in trials]


@pytest.mark.parametrize("kept", range(0, 14))
def test_a_run_cut_anywhere_ends_where_the_whole_one_ends(
    opened: Callable[..., Opened], folder: Path, kept: int
) -> None:
    whole = opened()
    answers, expected = whole_search(whole), [(t.number, t.id, t.origin) for t in whole.ledger.trials]
    lines = (folder / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "trials.jsonl").write_bytes(b"".join(lines[:kept]))
    resumed = opened()
    assert whole_search(resumed) == answers
    assert [(t.number, t.id, t.origin) for t in resumed.ledger.trials] == expected
    assert len(RunDirectory(folder).trials()) == len(lines)


def test_a_line_deleted_by_hand_is_evaluated_again_under_its_number(
    opened: Callable[..., Opened], folder: Path
) -> None:
    whole = opened()
    answers = whole_search(whole)
    expected = numbers(whole)
    lines = (folder / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "trials.jsonl").write_bytes(b"".join(lines[:2] + lines[3:]))
    resumed = opened()
    assert whole_search(resumed) == answers
    assert len(resumed.evaluator.evaluated) == 1 and numbers(resumed) == expected


def test_a_resumed_run_with_a_larger_budget_goes_on(opened: Callable[..., Opened]) -> None:
    search = opened(budget=2)
    with pytest.raises(SearchEnded):
        search(1, 2, 3, 4)
    resumed = opened(budget=4)
    assert resumed(1, 2, 3, 4) == [1.0, 2.0, 3.0, 4.0]
    assert resumed.evaluator.evaluated == [3, 4] and numbers(resumed) == [1, 2, 3, 4]


def test_time_up_starts_nothing_more(opened: Callable[..., Opened]) -> None:
    search = opened(time_s=0.2)
    search.evaluator.before = lambda x: time.sleep(0.3)
    with pytest.raises(SearchEnded, match=r"the time of 0\.2 s is up"):
        search(1, 2, 3)
    assert search.evaluator.evaluated == [1] and [t.config["x"] for t in search.ledger.trials] == [1]
    with pytest.raises(SearchEnded, match="is up"):
        search(4)


def test_the_time_counts_over_all_sessions(opened: Callable[..., Opened]) -> None:
    search = opened()
    search.evaluator.before = lambda x: time.sleep(0.2)
    search(1)
    resumed = opened(time_s=0.2)
    assert resumed.ledger.age_s >= 0.2
    assert resumed(1) == [1.0], "what is known is answered when the time is up"
    with pytest.raises(SearchEnded, match="is up"):
        resumed(2)
    assert resumed.evaluator.evaluated == []


def test_a_search_that_finds_nothing_new_ends(opened: Callable[..., Opened]) -> None:
    search = opened()
    search(1)
    for _ in range(STALLED_BATCHES - 1):
        search(1, 11)
    with pytest.raises(SearchEnded, match="no new valid candidate"):
        search(1)


def test_one_new_candidate_in_between_is_enough(opened: Callable[..., Opened]) -> None:
    search = opened()
    for x in (1, 2):
        for _ in range(STALLED_BATCHES):
            search(x)


def test_a_machine_that_fails_ends_the_search_and_keeps_what_was_done(
    opened: Callable[..., Opened], folder: Path
) -> None:
    def fail(x: int) -> None:
        if x == 2:
            raise MachineError("the cache is full")

    search = opened()
    search.evaluator.before = fail
    with pytest.raises(MachineError, match="the cache is full"):
        search(1, 2, 3)
    assert [t.config["x"] for t in RunDirectory(folder).trials()] == [1]


def test_what_may_come_next_is_prepared_once_and_charged_to_nobody(opened: Callable[..., Opened]) -> None:
    search = opened(budget=6)
    propose = search.ledger.proposals("random")
    propose([(1, 0), (2, 0)], [(3, 0), (11, 0)])
    propose([(4, 0)], [(3, 0), (5, 0)])
    search.close()
    assert set(search.evaluator.prepared) <= {3, 5} and search.ledger.charged == 3
    assert numbers(search) == [1, 2, 3]


def test_a_resumed_run_tells_the_evaluator_what_was_measured(opened: Callable[..., Opened]) -> None:
    opened()(1, 2)
    assert [outcome.score for outcome in opened().evaluator.remembered] == [1.0, 2.0]
