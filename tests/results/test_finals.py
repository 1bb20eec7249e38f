"""Who is measured again at the end of a search, and what counts then."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_trials import measured, own, times
from pin_runs import failed, trial

from helitune.objectives.outcomes import Failed, Measured
from helitune.results.finals import MOST_FINALISTS, WITHIN, Final, finalists, measured_again
from helitune.results.ranking import rank
from helitune.results.trial import Trial


def numbers(trials: list[Trial]) -> list[int]:
    return [trial.number for trial in trials]


class TestFinalists:
    def test_the_best_of_different_code_that_come_close(self) -> None:
        trials = [own(), measured(2, 0.9), measured(3, 0.8), measured(4, 0.83), measured(5, 0.81)]
        for order in (trials, trials[::-1]):
            assert numbers(finalists(order)) == [3, 5, 4]

    def test_of_equal_code_only_the_best_and_without_an_acf(self) -> None:
        trials = [
            own(),
            measured(2, 0.8, code="a", acf=True),
            measured(3, 0.8, code="a"),
            measured(4, 0.8, code="b"),
        ]
        assert numbers(finalists(trials)) == [3, 4]

    def test_the_own_config_s_code_is_no_finalist(self) -> None:
        no_op = measured(2, 1.0, code="own", acf=True)
        assert finalists([own(), no_op]) == []
        assert numbers(finalists([own(), no_op, measured(3, 1.01)])) == [3]

    def test_failures_and_what_was_only_compiled_are_none(self) -> None:
        assert finalists([own(), failed(2, "hang"), trial(3, 0.5)]) == []
        assert finalists([]) == []

    def test_the_best_without_an_acf_is_always_among_them(self) -> None:
        with_acf = [measured(n, 0.8, acf=True) for n in range(2, 4)]
        assert numbers(finalists([own(), *with_acf, measured(9, 1.5), measured(10, 1.4)])) == [2, 3, 10]
        many = [measured(n, 0.8 + n / 1e4, acf=True) for n in range(2, 20)]
        chosen = finalists([own(), *many, measured(30, 1.5)])
        assert numbers(chosen) == [*range(2, 1 + MOST_FINALISTS), 30]

    def test_one_that_is_slower_than_own_is_measured_where_nothing_is_faster(self) -> None:
        assert numbers(finalists([own(), measured(2, 3.0), measured(3, 2.0)])) == [3]

    @given(
        st.lists(st.tuples(st.floats(0.5, 2.0), st.integers(0, 5), st.booleans()), max_size=20), st.randoms()
    )
    def test_whatever_was_measured(self, drawn: list[tuple[float, int, bool]], source: random.Random) -> None:
        # code 0 is the own config's
        trials = [own()] + [
            measured(n, 1.0 if code == 0 else ratio, code=f"c{code}" if code else "own", acf=acf)
            for n, (ratio, code, acf) in enumerate(drawn, start=2)
        ]
        chosen = finalists(trials)
        codes = [one.compiled.code for one in chosen if one.compiled]
        assert len(codes) == len(set(codes)) == len(chosen) <= MOST_FINALISTS
        best = min(one.score for one in trials if one.score)
        plain = [one for one in chosen if not one.acf_sha256]
        assert all(one.score <= best * WITHIN for one in chosen if one.score and one not in plain[:1])
        assert finalists(source.sample(trials, len(trials))) == chosen


class TestMeasuredAgain:
    def test_without_finals_every_trial_counts(self) -> None:
        trials = [own(), measured(2, 0.8)]
        assert measured_again(trials, []) == trials

    def test_what_nobody_confirmed_does_not_rank(self) -> None:
        trials = [own(), measured(2, 0.5), measured(3, 0.9)]
        final = Final("0000000000000003", 100, (times(0.91),), 2e-4)
        counted = measured_again(trials, [final])
        assert numbers(counted) == [1, 3] and counted[0] == trials[0]
        again = counted[1].outcome
        assert isinstance(again, Measured) and isinstance(trials[2].outcome, Measured)
        assert (again.score, again.max_rel_error) == (pytest.approx(0.91), 2e-4)
        assert again.compiled == trials[2].outcome.compiled

    def test_the_larger_error_of_both_stands(self) -> None:
        (_, again) = measured_again([own(), measured(2, 0.5)], [Final(f"{2:016x}", 100, (times(0.5),), 1e-9)])
        assert isinstance(again.outcome, Measured) and again.outcome.max_rel_error == 1e-4

    @pytest.mark.parametrize("stage", ["flaky_output", "illegal_access", "drift", "worker_died"])
    def test_a_finalist_that_failed_is_a_failure(self, stage: str) -> None:
        trials = [own(), measured(2, 0.5), measured(3, 0.9)]
        finals = [
            Final(f"{2:016x}", 100, stage=stage, message="repeat 21 of 100"),
            Final(f"{3:016x}", 100, (times(0.9),)),
        ]
        assert measured_again(trials, finals)[1].outcome == Failed(stage, "repeat 21 of 100")
        ranking = rank(trials, finals)
        assert ranking.best and ranking.best.number == 3 and ranking.improved

    def test_where_all_finalists_fail_the_own_config_stands(self) -> None:
        trials = [own(), measured(2, 0.5), measured(3, 0.9)]
        ranking = rank(trials, [Final(f"{2:016x}", 100, stage="flaky_output", message="no")])
        assert ranking.best == trials[0] and not ranking.improved

    def test_the_last_times_decide_the_order(self) -> None:
        trials = [own(), measured(2, 0.80), measured(3, 0.81)]
        finals = [Final(f"{n:016x}", 100, (times(ratio),)) for n, ratio in ((2, 0.9), (3, 0.82))]
        ranking = rank(trials, finals)
        assert ranking.best and (ranking.best.number, ranking.best.score) == (3, pytest.approx(0.82))

    def test_a_confirmed_finalist_that_turns_out_slower_than_own_is_no_improvement(self) -> None:
        trials = [own(), measured(2, 0.98)]
        ranking = rank(trials, [Final(f"{2:016x}", 100, (times(1.01),))])
        assert ranking.best == trials[0] and not ranking.improved


class TestRecord:
    @pytest.mark.parametrize(
        "final",
        [
            Final("ab", 100, (times(0.9), times(1.1)), 1e-4),
            Final("ab", 0, stage="drift", message="other code"),
        ],
    )
    def test_it_survives_json(self, final: Final) -> None:
        assert Final.from_json(json.loads(json.dumps(final.to_json()))) == final

    @pytest.mark.parametrize(
        "final",
        [Final("ab", 100), Final("ab", 100, (times(0.9),), stage="hang", message="no")],
    )
    def test_it_has_times_or_a_stage(self, final: Final) -> None:
        with pytest.raises(ValueError, match="either times or the stage"):
            Final.from_json(json.loads(json.dumps(final.to_json())))

    @pytest.mark.parametrize(
        "field", ["trial", "soak_repeats", "shapes", "max_rel_error", "stage", "message"]
    )
    def test_a_missing_field_is_named(self, field: str) -> None:
        fields = replace(Final("ab", 100, (times(0.9),))).to_json()
        del fields[field]
        with pytest.raises(ValueError, match=field):
            Final.from_json(fields)
