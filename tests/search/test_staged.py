"""The staged strategy: what its batches are made of, what it learns of ACFs, and where it comes in the end."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from helitune.acfs.acf import Acf
from helitune.search.space import Dimension, Genome, JointSpace
from helitune.search.strategies import staged
from helitune.search.strategies.contract import SearchEnded
from helitune.search.strategies.moves import Moves
from helitune.search.strategies.shortlist import APART, CONFIGS, Shortlist, diverse
from helitune.search.strategies.told import Told


def space_of(*lengths: int, acfs: int) -> JointSpace:
    dimensions = tuple(
        Dimension(f"key{axis}", None, (axis,), tuple((value,) for value in range(length)))
        for axis, length in enumerate(lengths)
    )
    return JointSpace(
        dimensions, tuple(Acf(f"{i}.acf", f"{i:064x}", Path(f"/pack/{i}.acf")) for i in range(acfs))
    )


HUGE = space_of(*[8, 6, 5, 4, 3, 2] * 5, acfs=20)
OWN: Genome = (*[4, 3, 2, 2, 1, 1] * 5, 0)


class Judge:
    """An `evaluate` that ends the search after `budget` genomes, and keeps all it was asked."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.batches: list[list[Genome]] = []
        self.upcoming: list[list[Genome]] = []

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        if len(self.asked) >= self.budget:
            raise SearchEnded("the budget is spent")
        self.batches.append(list(batch))
        self.upcoming.append(list(upcoming))
        return [self.score(genome) for genome in batch]

    @property
    def asked(self) -> list[Genome]:
        return [genome for batch in self.batches for genome in batch][: self.budget]

    def score(self, genome: Genome) -> float | None:
        """Axes that matter less and less, ACF 7 good with an even first axis only, ACFs above 15 failing; 1 % noise."""
        away = sum(abs(index - 2 * (axis % 2)) / (axis + 1) for axis, index in enumerate(genome[:-1]))
        if genome[-1] > 15:
            return None
        acf = 1.05 if genome[-1] else 1.0
        if genome[-1] == 7 and genome[0] % 2 == 0:
            acf = 0.9
        return (1 + 0.05 * away) * acf * random.Random(str(genome)).gauss(1, 0.01)


def searched(
    space: JointSpace = HUGE, budget: int = 300, *, known: Mapping[Genome, float] | None = None, seed: int = 1
) -> Judge:
    judge = Judge(budget)
    with pytest.raises(SearchEnded):
        staged.search(space, judge, seed=seed, known={OWN: 2.0} if known is None else known)
    return judge


def test_nothing_is_asked_twice_in_a_space_of_10_to_the_15() -> None:
    assert HUGE.size > 10**15
    asked = searched(budget=600).asked
    assert len(set(asked)) == len(asked)
    assert OWN not in asked


def test_batches_grow_from_16_to_64_with_what_is_known() -> None:
    sizes = [len(batch) for batch in searched(budget=800).batches]
    assert sizes[0] == 16
    assert sizes == sorted(sizes)
    assert sizes[-1] == 64


def test_the_first_batch_varies_the_best_known_config_and_tries_acfs_on_it() -> None:
    for seed in range(5):
        alone = searched(budget=16, seed=seed).batches[0]
        changed = [sum(a != b for a, b in zip(g, OWN, strict=True)) for g in alone if not g[-1]]
        assert sum(1 <= n <= 9 for n in changed) >= 8  # of 10; a draw from the whole space changes 22
        worse = (*[0] * 30, 0)
        first = searched(known={worse: 3.0, OWN: 2.0}, budget=16, seed=seed).batches[0]
        with_acf = [genome for genome in first if genome[-1]]
        assert len(with_acf) == 6
        assert {genome[:-1] for genome in with_acf} == {OWN[:-1]}


def test_a_budget_that_ends_anywhere_in_a_batch_has_had_some_of_everything() -> None:
    first = searched(budget=16).batches[0]
    assert 1 <= sum(genome[-1] > 0 for genome in first[:6]) <= 4


def test_without_known_configs_the_default_comes_first() -> None:
    assert searched(known={}).asked[0] == (0,) * 31


def test_all_stages_go_on_throughout() -> None:
    judge = searched(budget=600)
    for batch in judge.batches[2:]:
        plain = sum(genome[-1] == 0 for genome in batch)
        assert 0 < plain < len(batch)


def test_an_acf_that_fails_on_two_good_configs_is_not_tried_further() -> None:
    judge = searched(budget=600)
    tried = Counter(genome[-1] for genome in judge.asked)
    # what stood in the batch in which the second failure came could not know of it
    assert all(tried[acf] <= 5 for acf in range(16, 21))
    assert not any(genome[-1] > 15 for batch in judge.batches[8:] for genome in batch)
    assert tried[7] > 20


def test_what_is_announced_is_mostly_asked_next() -> None:
    judge = searched(budget=600)
    announced = [(set(soon), judge.batches[n + 1]) for n, soon in enumerate(judge.upcoming[:-1]) if soon]
    hits = sum(len(soon & set(batch)) for soon, batch in announced)
    assert announced
    assert hits > 0.3 * sum(min(len(soon), len(batch)) for soon, batch in announced)
    # nothing that stands in the batch itself
    assert not any(set(soon) & set(batch) for soon, batch in zip(judge.upcoming, judge.batches, strict=True))


def test_it_finds_what_neither_configs_nor_acfs_alone_have() -> None:
    found = 0
    for seed in range(5):
        judge = searched(budget=500, seed=seed)
        scored = [(score, genome) for genome in judge.asked if (score := judge.score(genome)) is not None]
        best = min(scored)
        found += best[1][-1] == 7 and best[1][0] % 2 == 0
        assert best[0] < 0.75 * (judge.score(OWN) or 0)
    assert found >= 4


@pytest.mark.parametrize("budget", [1, 20, 100])
def test_a_smaller_budget_is_the_beginning_of_a_larger_one(budget: int) -> None:
    assert searched(budget=budget).asked == searched(budget=200).asked[:budget]


def test_without_acfs_it_searches_configs() -> None:
    space = space_of(*[8, 6, 5, 4, 3, 2] * 5, acfs=0)
    judge = searched(space, budget=400)
    scores = [judge.score(genome) or 9.0 for genome in judge.asked]
    assert min(scores) < 0.8 * (judge.score(OWN) or 0)


def test_where_every_acf_fails_configs_are_still_searched() -> None:
    class NoAcf(Judge):
        def score(self, genome: Genome) -> float | None:
            return None if genome[-1] else super().score(genome)

    judge = NoAcf(400)
    with pytest.raises(SearchEnded):
        staged.search(HUGE, judge, seed=1, known={OWN: 2.0})
    assert sum(genome[-1] > 0 for genome in judge.asked) < 120
    assert all(genome[-1] == 0 for batch in judge.batches[12:] for genome in batch)


def test_genomes_with_the_very_same_score_count_once_the_simplest_of_them() -> None:
    told = Told({})
    told.note([(1, 1), (0, 1), (3, 0), (2, 0), (4, 0)], [1.0, 1.0, 1.0, 0.5, None])
    assert told.ranked() == [(2, 0), (3, 0)]
    assert told.ranked(plain=True) == [(2, 0), (3, 0)]


def test_an_acf_is_hopeless_only_by_failures_on_configs_that_run_without_it() -> None:
    told = Told({(0, 0): 1.0, (1, 0): 1.0, (2, 0): 1.0})
    told.note([(3, 0), (3, 1), (4, 1), (0, 1)], [None, None, None, None])
    assert not told.is_hopeless(1)  # (3, ·) fails by itself, (4, ·) was not tried without
    told.note([(1, 1)], [None])
    assert told.is_hopeless(1)
    told.note([(0, 2), (1, 2), (2, 2), (5, 2), (6, 2)], [None, None, 1.0, 1.0, 1.0])
    assert not told.is_hopeless(2)


def test_ordered_axes_step_to_their_neighbours_more_often_than_chance() -> None:
    warps = Dimension("num_warps", None, (0,), ((4,), (1,), (2,), (8,), (16,), (32,)))
    moves = Moves(JointSpace((warps,), ()), random.Random(1))
    seen = Counter(moves.mutate((0, 0))[0] for _ in range(600))
    assert 0 not in seen
    assert set(seen) == {1, 2, 3, 4, 5}
    assert seen[2] + seen[3] > 350  # 2 and 8 warps, beside 4; 240 by chance


@pytest.mark.parametrize("values", [((0, 1), (1, 0), (2, 0)), ("", "first", "last"), (None, False, True)])
def test_axes_without_an_order_take_any_value(values: tuple[object, ...]) -> None:
    axis = Dimension("key", None, (0,), tuple((value,) for value in values))  # type: ignore[misc]
    moves = Moves(JointSpace((axis,), ()), random.Random(1))
    seen = Counter(moves.mutate((0, 0))[0] for _ in range(200))
    assert min(seen[1], seen[2]) > 60


def test_a_shortlist_is_good_and_diverse() -> None:
    ranked = [(a, b, c, 0) for a, b, c in itertools.product(range(4), repeat=3)]
    chosen = diverse(ranked)
    assert len(chosen) == CONFIGS
    assert chosen[0] == ranked[0]
    for one, other in itertools.combinations(chosen, 2):
        assert sum(a != b for a, b in zip(one, other, strict=True)) >= APART
    assert diverse([(0, 0), (1, 0), (2, 0)]) == [(0, 0), (1, 0), (2, 0)]


def test_the_shortlist_covers_its_product_and_begins_again_with_a_better_config(tmp_path: Path) -> None:
    space = space_of(9, 9, acfs=12)
    told = Told({(i, i, 0): 1.0 + i for i in range(1, 5)})
    shortlist = Shortlist(space, told, 1, tmp_path)
    for _ in range(60):
        ranked = told.ranked(plain=True)
        batch = shortlist.propose(ranked, 5)
        told.note(batch, [2.0 + sum(genome) + 0.01 * genome[-1] for genome in batch])
    expected = {(i, i, acf) for i in range(1, 5) for acf in range(13)}
    assert set(told.genomes) == expected
    assert shortlist.propose(told.ranked(plain=True), 5) == []
    told.note([(0, 8, 0)], [0.5])
    again = shortlist.propose(told.ranked(plain=True), 5)
    assert again
    assert all(genome[:-1] == (0, 8) for genome in again)
