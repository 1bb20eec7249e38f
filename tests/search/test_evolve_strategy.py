"""Breeding ACFs: generations that end, failures that are told, and only what is used is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from stand_in_amber import StandInAmber

from helitune.acfs.acf import NO_ACF, Acf
from helitune.search.evolution import BredSpace
from helitune.search.space import Dimension, Genome
from helitune.search.strategies import evolve, random_search
from helitune.search.strategies.contract import SearchEnded

LISTED = Acf("listed", "1" * 64, Path("/pack/listed.acf"))
DIMENSIONS = tuple(
    Dimension(name, None, (slot,), ((0,), (1,), (2,), (3,))) for slot, name in enumerate(("x", "y"))
)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolve, "Amber", StandInAmber)


class Bench:
    """A space that keeps in memory, and an `evaluate` that records: `score` says what an ACF's meaning is worth."""

    def __init__(
        self,
        acfs: tuple[Acf, ...] = (NO_ACF,),
        score: Callable[[tuple[object, ...], int], float | None] = lambda slots, meaning: float(meaning),
        budget: int = 10**9,
    ) -> None:
        self.space = BredSpace(DIMENSIONS, acfs, self._keep)
        self.kept: list[int] = []
        self.batches: list[list[tuple[tuple[object, ...], str]]] = []
        self._score, self._budget = score, budget

    def _keep(self, contents: Sequence[bytes], /, *, generation: int) -> list[Acf]:
        self.kept += [generation] * len(contents)
        return [Acf(str(content[0]), content.hex().rjust(64, "0"), None) for content in contents]

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        if sum(map(len, self.batches)) >= self._budget:
            raise SearchEnded("the budget is spent")
        decoded = [self.space.decode(genome) for genome in batch]
        self.batches.append([(slots, acf.name) for slots, acf in decoded])
        return [self._score(slots, int(acf.name) if acf.name.isdecimal() else 300) for slots, acf in decoded]


def breeding(generations: int = 3, population: int = 6) -> evolve.Breeding:
    return evolve.Breeding(Path("/none.bin"), generations, population)


def fixed(bench: Bench, *, generations: int = 3, seed: int = 1) -> None:
    evolve.for_configs(
        bench.space, bench, seed=seed, known={}, shortlist=[(2, 1, 0)], breeding=breeding(generations)
    )


def test_generations_of_one_config_are_as_many_as_wanted() -> None:
    bench = Bench()
    fixed(bench)
    assert [len(batch) for batch in bench.batches] == [6, 6, 6]
    assert bench.kept == [0] * 6 + [1] * 6 + [2] * 6
    assert {slots for batch in bench.batches for slots, _ in batch} == {(2, 1)}
    assert len(bench.space.bred) == 18


def test_failed_candidates_are_replaced_within_their_generation() -> None:
    bench = Bench(score=lambda slots, meaning: None if meaning % 3 == 0 else float(meaning))
    fixed(bench)
    assert len(bench.batches) > 3
    valid = [sum(int(name) % 3 != 0 for _, name in batch) for batch in bench.batches]
    assert sum(valid) == 18 and set(bench.kept) == {0, 1, 2}


def test_a_config_that_fails_with_every_acf_comes_to_an_end() -> None:
    bench = Bench(score=lambda slots, meaning: None)
    fixed(bench)
    assert len(bench.batches) == evolve.MOST_REFILLS + 1


def test_the_same_seed_and_scores_give_the_same_search_in_other_bytes() -> None:
    one, again, other = Bench(), Bench(), Bench()
    fixed(one, seed=5), fixed(again, seed=5), fixed(other, seed=6)
    assert one.batches == again.batches != other.batches
    assert [acf.sha256 for acf in one.space.bred] != [acf.sha256 for acf in again.space.bred]


def test_a_shortlist_is_one_search_over_its_configs() -> None:
    bench = Bench()
    shortlist = [(0, 0, 0), (1, 2, 0), (3, 3, 0)]
    evolve.for_configs(
        bench.space, bench, seed=1, known={}, shortlist=shortlist, breeding=breeding(population=12)
    )
    tried = {slots for batch in bench.batches for slots, _ in batch}
    assert tried == {(0, 0), (1, 2), (3, 3)}


def test_jointly_configs_vary_and_acfs_are_bred_listed_or_none() -> None:
    bench = Bench(acfs=(NO_ACF, LISTED))
    evolve.jointly(
        bench.space, bench, seed=1, known={(1, 1, 0): 4.0, (3, 0, 0): 2.0}, breeding=breeding(population=24)
    )
    tried = [one for batch in bench.batches for one in batch]
    assert len({slots for slots, _ in tried}) > 4
    assert max(((slots, sum(s == slots for s, _ in tried)) for slots, _ in tried), key=lambda p: p[1])[0] == (
        3,
        0,
    )
    bred = [name for _, name in tried if name.isdecimal()]
    assert {"", "listed"} < {name for _, name in tried} and len(bred) == len(bench.space.bred) == len(
        bench.kept
    )


def test_a_shortlist_follows_as_many_configs_as_said() -> None:
    bench = Bench(
        score=lambda slots, meaning: 10.0 * abs(int(str(slots[0])) - 2) + int(str(slots[1])) + meaning
    )
    known = {(0, 0, 0): 320.0}
    evolve.shortlisted(
        bench.space,
        bench,
        seed=1,
        known=known,
        explore=random_search.search,
        configs=12,
        breeding=breeding(generations=1, population=24),
    )
    tried = [one for batch in bench.batches for one in batch]
    assert [name for _, name in tried[:12]] == [""] * 12 and len({slots for slots, _ in tried[:12]}) == 12
    assert all(name.isdecimal() for _, name in tried[12:])
    cost = {slots: 10 * abs(int(str(slots[0])) - 2) + int(str(slots[1])) for slots, _ in tried[:12]} | {
        (0, 0): 20
    }
    best = {slots for slots, _ in tried[12:]}
    assert len(best) == evolve.SHORTLIST
    assert max(cost[slots] for slots in best) <= sorted(set(cost.values()))[evolve.SHORTLIST - 1]


def test_a_budget_ends_any_of_them() -> None:
    bench = Bench(budget=30)
    with pytest.raises(SearchEnded):
        fixed(bench, generations=100)
    bench = Bench(budget=5)
    with pytest.raises(SearchEnded):
        evolve.shortlisted(
            bench.space,
            bench,
            seed=1,
            known={},
            explore=random_search.search,
            configs=14,
            breeding=breeding(),
        )
