"""`helitune show` on runs that exist already: the trial that a name means, and runs of older versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helitune.acfs.errors import InputError
from helitune.cli.show_command import find_trial, show
from helitune.results.run_directory import RunDirectory
from helitune.results.trial import Trial

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "runs" / "format1"


@pytest.fixture
def trials() -> list[Trial]:
    """Three trials of a real run whose ids are easily taken for one another, and for numbers."""
    ids = {1: "99ab34567890abcd", 2: "1234567890123456", 3: "12345678abcdef01"}
    return [replace(t, id=ids[t.number]) for t in RunDirectory(FORMAT_1).trials() if t.number in ids]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("1", 1),
        ("03", 3),
        ("99ab34567890abcd", 1),
        ("99ab", 1),
        ("1234567890123456", 2),
        ("12345678a", 3),
    ],
)
def test_a_trial_is_called_by_its_number_or_the_start_of_its_id(
    trials: list[Trial], name: str, number: int
) -> None:
    assert find_trial(trials, name, "here").number == number


@pytest.mark.parametrize(
    "name", ["99", "1234", "12345678", "", "99a", "99ac", "0", "-1", " 1", "١", "9" * 5000]
)
def test_other_names_are_refused(trials: list[Trial], name: str) -> None:
    with pytest.raises(InputError, match="no trials are called") as raised:
        find_trial(trials, name, "here")
    assert raised.value.where == "here" and "4 characters" in raised.value.next_step


def test_a_start_that_several_have_is_refused(trials: list[Trial]) -> None:
    twin = replace(trials[0], number=8, id="99ab000000000000")
    with pytest.raises(InputError, match="2 trials are called '99ab'"):
        find_trial([*trials, twin], "99ab", "here")


def test_a_run_of_format_1_is_shown_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    show(run=str(FORMAT_1), json=True)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"], shown["target"], shown["objective"]) == ("format1", "sm_90", "issue_slots")
    assert (shown["trials"], shown["improved"]) == (7, True)
    assert (shown["own"]["score"], shown["best"]["number"], shown["best"]["score"]) == (5984.0, 2, 1472.0)
    assert {kind["stage"] for kind in shown["failures"]} == {"compile_timeout", "invalid_config"}


def test_a_run_of_format_1_is_shown_as_text_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    show(run=str(FORMAT_1))
    assert "run format1 for sm_90" in capsys.readouterr().out
    show(run=str(FORMAT_1), explain="5", json=True)
    assert json.loads(capsys.readouterr().out)["stage"] == "compile_timeout"
