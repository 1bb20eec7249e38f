"""The ranking of a run: the same in whatever order its trials finished."""

from __future__ import annotations

import random
from dataclasses import replace

from pin_runs import ACF_SHA256, BETTER, OWN, artifact, failed, trial

from helitune.objectives.outcomes import Compiled, Failed
from helitune.results.ranking import at_memory_bound, failures, no_ops, rank
from helitune.results.trial import Trial


def compiled(one: Trial) -> Compiled:
    assert isinstance(one.outcome, Compiled)
    return one.outcome


def shuffled(trials: list[Trial]) -> list[list[Trial]]:
    source = random.Random(0)
    return [source.sample(trials, len(trials)) for _ in range(20)]


def test_the_best_of_each_kind() -> None:
    trials = [OWN, BETTER, trial(3, 150.0), failed(4)]
    for order in shuffled(trials):
        ranking = rank(order)
        assert (ranking.own, ranking.best, ranking.without_acf) == (OWN, BETTER, trials[2])
        assert ranking.improved and ranking.ties == ()


def test_a_tie_goes_to_own_and_is_no_improvement() -> None:
    tied = [trial(2, 200.0), trial(3, 200.0, acf=True)]
    for order in shuffled([OWN, *tied, trial(4, 201.0)]):
        ranking = rank(order)
        assert ranking.best == OWN and not ranking.improved
        assert ranking.ties == (tied[0], tied[1])


def test_a_tie_without_own_goes_to_no_acf_then_tie_breaker_then_number() -> None:
    with_acf, slow, fast, later = trial(2, 100.0, acf=True), trial(3, 100.0), trial(5, 100.0), trial(7, 100.0)
    fast, later = (replace(t, outcome=replace(compiled(t), tie_breaker=50.0)) for t in (fast, later))
    for order in shuffled([OWN, with_acf, slow, fast, later]):
        ranking = rank(order)
        assert ranking.best == fast and ranking.improved
        assert ranking.ties == (later, slow, with_acf)


def test_what_compiles_where_own_does_not_is_an_improvement() -> None:
    own = replace(failed(1), origin="baseline own")
    ranking = rank([own, trial(2, 300.0)])
    assert ranking.own == own and ranking.improved


def test_of_failures_alone_nothing_ranks() -> None:
    ranking = rank([failed(1), failed(2)])
    assert (ranking.best, ranking.without_acf, ranking.ties, ranking.improved) == (None, None, (), False)
    assert rank([]).best is None


def test_an_acf_is_a_no_op_where_its_config_gives_the_same_code_without() -> None:
    plain = trial(2, 150.0)
    same = replace(plain, number=3, id="same", acf_sha256=ACF_SHA256)
    other_code = replace(trial(4, 150.0, acf=True), config=plain.config)
    other_config = replace(same, number=5, id="config", config={**plain.config, "num_warps": 8})
    trials = [plain, same, other_code, other_config]
    for order in shuffled(trials):
        assert no_ops(order) == {"same"}


def test_the_same_code_on_another_grid_is_not_the_same() -> None:
    plain = trial(2, 150.0)
    moved = replace(compiled(plain), artifacts=((artifact("code 2", grid=(7, 1, 1)),),))
    assert no_ops([plain, replace(plain, id="moved", acf_sha256=ACF_SHA256, outcome=moved)]) == set()


def test_failures_of_a_kind_show_the_first_real_message() -> None:
    def with_message(number: int, stage: str, message: str) -> Trial:
        return replace(failed(number), outcome=Failed(stage, message))

    trials = [
        OWN,
        with_message(4, "launch", "needs 230000 bytes of 227328"),
        with_message(2, "compile", "ptxas exit 255"),
        with_message(3, "launch", "needs 262144 bytes of 227328"),
        with_message(5, "compile_timeout", "ptxas exit 255"),
    ]
    for order in shuffled(trials):
        kinds = failures(order)
        assert [(k.stage, k.count, k.message) for k in kinds] == [
            ("launch", 2, "needs 262144 bytes of 227328"),
            ("compile", 1, "ptxas exit 255"),
            ("compile_timeout", 1, "ptxas exit 255"),
        ]
    assert failures([OWN]) == []


def test_at_memory_bound_is_on_every_shape() -> None:
    def bound(*bounds: str) -> Trial:
        return replace(OWN, outcome=replace(compiled(OWN), bounds=bounds))

    assert at_memory_bound(bound("memory")) and at_memory_bound(bound("memory", "memory"))
    assert not at_memory_bound(bound("memory", "issue")) and not at_memory_bound(bound(""))
    assert not at_memory_bound(failed(1))


def test_a_trial_from_before_bounds_is_not_known_to_be_at_the_memory_bound() -> None:
    fields = OWN.to_json()
    del fields["bounds"]
    assert not at_memory_bound(Trial.from_json(fields))
