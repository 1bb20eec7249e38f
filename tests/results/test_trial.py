"""Trials: that they read back as they were, those of older versions too, and how they rank."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from pin_runs import BETTER, OWN, failed, trial

from helitune.acfs.errors import InputError
from helitune.objectives.outcomes import Compiled
from helitune.results.trial import TRIAL_FORMAT, Trial


def through_json(one: Trial, **fields: Any) -> Trial:
    return Trial.from_json(json.loads(json.dumps(one.to_json() | fields)))


@pytest.mark.parametrize("one", [OWN, BETTER, failed(3), replace(BETTER, generation=7)])
def test_it_reads_back_as_it_was(one: Trial) -> None:
    assert through_json(one) == one


def test_the_first_trials_of_format_1_have_no_bounds() -> None:
    fields = OWN.to_json()
    del fields["bounds"]
    compiled = Trial.from_json(fields).compiled
    assert compiled is not None and compiled.bounds == ("",)


def test_bounds_are_one_for_each_shape() -> None:
    assert isinstance(OWN.outcome, Compiled)
    bound = replace(OWN, outcome=replace(OWN.outcome, bounds=("memory",)))
    assert through_json(bound) == bound
    with pytest.raises(ValueError, match="one for each shape"):
        through_json(bound, bounds=["memory", "issue"])


def test_fields_of_a_later_version_of_this_format_are_passed_over() -> None:
    assert through_json(OWN, measured=[1.0]) == OWN


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(InputError, match="upgrade helitune"):
        through_json(OWN, format=TRIAL_FORMAT + 1, outcome="of a kind that this version does not know")


def test_rank_goes_by_score_own_acf_tie_breaker_number() -> None:
    own = trial(9, 100.0, origin="baseline own")
    best = [
        trial(8, 90.0, acf=True),
        own,
        with_tie_breaker(trial(7, 100.0), 1.0),
        with_tie_breaker(trial(3, 100.0), 2.0),
        with_tie_breaker(trial(4, 100.0), 2.0),
        with_tie_breaker(trial(1, 100.0, acf=True), 0.5),
        trial(2, 110.0),
    ]
    for order in itertools.islice(itertools.permutations(best), 0, None, 97):
        assert sorted([*order, failed(5)], key=lambda t: t.rank)[:-1] == best


def with_tie_breaker(one: Trial, value: float) -> Trial:
    assert isinstance(one.outcome, Compiled)
    return replace(one, outcome=replace(one.outcome, tie_breaker=value))
