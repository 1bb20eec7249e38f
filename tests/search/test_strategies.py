"""Strategies: pure functions of space, seed and scores that propose inside the space until they are ended."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError
from helitune.search.space import Dimension, Genome, JointSpace
from helitune.search.strategies.contract import SearchEnded, Strategy
from helitune.search.strategies.grid import BEST_CONFIGS
from helitune.search.strategies.registry import STRATEGIES, find_strategy

Score = Callable[[Genome], float | None]

each_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def space_of(*lengths: int, acfs: int) -> JointSpace:
    dimensions = tuple(
        Dimension(f"key{axis}", None, (axis,), tuple((value,) for value in range(length)))
        for axis, length in enumerate(lengths)
    )
    return JointSpace(
        dimensions, tuple(Acf(f"{i}.acf", f"{i:064x}", Path(f"/pack/{i}.acf")) for i in range(acfs))
    )


JOINT = space_of(8, 8, 6, 6, 4, 4, acfs=15)
OPTIMUM = (5, 2, 3, 4, 1, 2, 7)


def smooth(genome: Genome) -> float:
    """Distance to OPTIMUM, with one pair of axes that must move together; 1 at the optimum."""
    away = [value - best for value, best in zip(genome, OPTIMUM, strict=True)]
    return 1.0 + sum(step * step for step in away) + (away[0] - away[1]) ** 2


def partly_failing(genome: Genome) -> float | None:
    return None if sum(genome) % 3 == 0 else smooth(genome)


@dataclass
class Recorder:
    """An `evaluate` that keeps what it was asked, and ends the search after `budget` genomes."""

    score: Score
    budget: int = 200
    batches: list[list[Genome]] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        if len(self.scores) >= self.budget:
            raise SearchEnded("the budget is spent")
        answers = [self.score(genome) for genome in batch]
        self.batches.append(list(batch))
        self.scores += answers
        return answers

    @property
    def asked(self) -> list[Genome]:
        return [genome for batch in self.batches for genome in batch]


def run(
    strategy: Strategy,
    space: JointSpace,
    score: Score,
    *,
    seed: int = 1,
    budget: int = 200,
    known: Mapping[Genome, float] | None = None,
) -> tuple[Recorder, bool]:
    """What the strategy asked for, and whether it returned by itself."""
    recorder = Recorder(score, budget)
    try:
        strategy(space, recorder, seed=seed, known=known or {})
    except SearchEnded:
        return recorder, False
    return recorder, True


@each_strategy
@pytest.mark.parametrize("score", [smooth, partly_failing, lambda genome: None], ids=["all", "some", "none"])
def test_every_proposal_lies_inside_the_space(strategy: Strategy, score: Score) -> None:
    recorder, _ = run(strategy, JOINT, score)
    assert len(recorder.asked) >= 200
    for genome in recorder.asked:
        slots, acf = JOINT.decode(genome)
        assert JOINT.encode(slots, acf) == genome


@each_strategy
def test_the_same_seed_gives_the_same_proposals_and_another_seed_others(strategy: Strategy) -> None:
    first, again, other = (run(strategy, JOINT, partly_failing, seed=seed)[0] for seed in (1, 1, 2))
    assert first.batches == again.batches
    assert first.batches[0] != other.batches[0]


@each_strategy
def test_a_replay_of_recorded_scores_gives_the_same_proposals_and_goes_on_from_there(
    strategy: Strategy,
) -> None:
    known = {(0,) * 7: smooth((0,) * 7), (7, 7, 5, 5, 3, 3, 0): 90.0}
    whole, _ = run(strategy, JOINT, partly_failing, known=known)
    cut, _ = run(strategy, JOINT, partly_failing, known=known, budget=96)
    recorded = dict(zip(cut.asked, cut.scores, strict=True))
    fresh: list[Genome] = []

    def remembered(genome: Genome) -> float | None:
        if genome not in recorded:
            fresh.append(genome)
            recorded[genome] = partly_failing(genome)
        return recorded[genome]

    resumed, _ = run(strategy, JOINT, remembered, known=known)
    assert resumed.batches == whole.batches
    assert 0 < len(fresh) < len(set(whole.asked))


@each_strategy
def test_the_end_of_the_search_passes_through_with_its_reason(strategy: Strategy) -> None:
    def ended(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        raise SearchEnded("the time is up")

    with pytest.raises(SearchEnded, match="the time is up"):
        strategy(JOINT, ended, seed=1, known={})


@each_strategy
def test_other_errors_of_evaluate_pass_through(strategy: Strategy) -> None:
    def broken(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        # CompileIQ's own ValueErrors end the search; those of an evaluation must not
        raise ValueError("no unique candidates: not CompileIQ's")

    with pytest.raises(ValueError, match="not CompileIQ's"):
        strategy(JOINT, broken, seed=1, known={})


TINY = {
    "one candidate": space_of(1, 1, acfs=0),
    "two configs": space_of(2, acfs=0),
    "only ACFs": space_of(1, 1, acfs=20),
    "no axes": space_of(acfs=3),
    "about a generation": space_of(3, 3, acfs=1),
    "several generations": space_of(4, 4, acfs=3),
    "one long axis": space_of(150, acfs=1),
}


@pytest.mark.parametrize("name", ["staged", "compileiq", "random"])
@pytest.mark.parametrize("space", TINY.values(), ids=TINY)
def test_a_tiny_space_is_covered_and_then_left(name: str, space: JointSpace) -> None:
    recorder, returned = run(STRATEGIES[name], space, lambda genome: 1.0 + sum(genome), budget=10_000)
    assert returned
    assert set(recorder.asked) == set(itertools.product(*map(range, space.lengths)))


@each_strategy
@pytest.mark.parametrize("space", TINY.values(), ids=TINY)
def test_a_tiny_space_where_all_fails_is_left(strategy: Strategy, space: JointSpace) -> None:
    recorder, _ = run(strategy, space, lambda genome: None, budget=10_000)
    assert set(recorder.asked) <= set(itertools.product(*map(range, space.lengths)))
    assert recorder.asked


@each_strategy
def test_a_space_of_which_all_is_known_is_left(strategy: Strategy) -> None:
    space = TINY["two configs"]
    recorder, returned = run(strategy, space, lambda genome: 1.0, known={(0, 0): 1.0, (1, 0): 2.0})
    assert returned
    assert recorder.asked == []


def test_random_asks_nothing_twice() -> None:
    recorder, _ = run(STRATEGIES["random"], JOINT, smooth, known={OPTIMUM: 1.0})
    assert len(set(recorder.asked)) == len(recorder.asked)
    assert OPTIMUM not in recorder.asked


def test_random_reaches_every_value_of_every_axis() -> None:
    recorder, _ = run(STRATEGIES["random"], JOINT, smooth, budget=600)
    for axis, length in enumerate(JOINT.lengths):
        assert {genome[axis] for genome in recorder.asked} == set(range(length))


def test_compileiq_evolves_beyond_its_first_generation() -> None:
    for seed in range(3):
        recorder, _ = run(STRATEGIES["compileiq"], JOINT, smooth, seed=seed)
        first = [score for score in map(smooth, recorder.batches[0]) if score is not None]
        best = min(score for score in recorder.scores if score is not None)
        assert best < min(first)
        # what a later generation proposes is better as a whole: it is bred, not drawn again
        last = [smooth(genome) for genome in recorder.batches[-1]]
        assert sum(last) / len(last) < 0.8 * sum(first) / len(first)


def test_compileiq_starts_around_the_best_known_config() -> None:
    best = (5, 2, 3, 4, 1, 2, 0)
    recorder, _ = run(STRATEGIES["compileiq"], JOINT, smooth, known={best: 50.0, (0,) * 7: 99.0}, budget=16)
    kept = [sum(a == b for a, b in zip(genome, best, strict=True)) for genome in recorder.batches[0]]
    assert sum(kept) / len(kept) > 3.5  # of 7 axes; 1.2 if drawn without it


def test_compileiq_goes_on_after_generations_that_failed_wholly() -> None:
    seen: list[Genome] = []

    def fails_at_first(genome: Genome) -> float | None:
        seen.append(genome)
        return None if len(seen) <= 64 else smooth(genome)

    recorder, returned = run(STRATEGIES["compileiq"], JOINT, fails_at_first)
    assert not returned
    assert len({*recorder.asked}) > 100


def test_grid_explores_configs_and_crosses_the_best_with_every_acf() -> None:
    recorder, _ = run(STRATEGIES["grid"], JOINT, smooth, budget=17)
    explored, crossed = recorder.batches
    assert all(genome[-1] == 0 for genome in explored)
    best = sorted(explored, key=lambda genome: (smooth(genome), genome))[:BEST_CONFIGS]
    assert crossed == [(*genome[:-1], acf) for genome in best for acf in range(1, 16)]


def test_grid_crosses_a_known_config_that_is_better_than_all_it_found() -> None:
    known = (5, 2, 3, 4, 1, 2, 0)
    recorder, _ = run(STRATEGIES["grid"], JOINT, smooth, known={known: 0.0}, budget=17)
    assert recorder.batches[1][:15] == [(*known[:-1], acf) for acf in range(1, 16)]


def test_grid_crosses_nothing_that_failed_and_asks_nothing_twice() -> None:
    recorder, _ = run(STRATEGIES["grid"], JOINT, partly_failing)
    failed = {genome[:-1] for genome in recorder.asked if genome[-1] == 0 and partly_failing(genome) is None}
    assert failed
    assert not failed & {genome[:-1] for genome in recorder.asked if genome[-1] != 0}
    assert len(set(recorder.asked)) == len(recorder.asked)


def test_an_unknown_strategy_is_refused_with_the_names_there_are() -> None:
    assert find_strategy("random") is STRATEGIES["random"]
    with pytest.raises(InputError, match="unknown strategy 'anealing'") as caught:
        find_strategy("anealing")
    assert all(name in caught.value.next_step for name in STRATEGIES)
