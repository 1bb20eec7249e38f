"""Which trial is pinned, and when none is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, CHECK, FINGERPRINT, OWN, failed, make_run, trial

from helitune.acfs.errors import InputError, NegativeVerdict
from helitune.results.pin_choice import acf_content, choose_trial, make_pin


def test_the_best_is_chosen(tmp_path: Path) -> None:
    trials = [OWN, BETTER, trial(3, 150.0)]
    assert choose_trial(make_run(tmp_path, trials), trials, None) == BETTER


def test_without_an_acf_wins_a_tie(tmp_path: Path) -> None:
    trials = [OWN, BETTER, trial(3, 100.0)]
    assert choose_trial(make_run(tmp_path, trials), trials, None).number == 3


@pytest.mark.parametrize("other", [trial(2, 200.0, acf=True), trial(2, 300.0)])
def test_nothing_better_than_the_own_config_is_a_negative_verdict(tmp_path: Path, other: object) -> None:
    trials = [OWN, other]
    with pytest.raises(NegativeVerdict, match="none of 2 candidates ranks above"):
        choose_trial(make_run(tmp_path, trials), trials, None)


def test_nothing_compiled_says_why(tmp_path: Path) -> None:
    trials = [failed(1), failed(2), failed(3, "compile_timeout")]
    with pytest.raises(NegativeVerdict, match="most often compile: ptxas exit"):
        choose_trial(make_run(tmp_path, trials), trials, None)


def test_a_named_trial_needs_no_improvement_and_says_so(tmp_path: Path) -> None:
    worse = trial(2, 300.0)
    run = make_run(tmp_path, [OWN, worse])
    assert choose_trial(run, run.trials(), worse) == worse
    pin = make_pin(run, run.trials(), worse, FINGERPRINT, asked=True)
    assert pin.run["chosen"] == "--trial"
    assert pin.notes == ("trial 2 was named by --trial", "it does not rank above the kernel's own config")


def test_a_named_trial_that_failed_is_refused(tmp_path: Path) -> None:
    trials = [OWN, failed(2)]
    with pytest.raises(InputError, match="trial 2 failed at compile"):
        choose_trial(make_run(tmp_path, trials), trials, trials[1])


def test_a_run_without_a_check_is_not_pinned(tmp_path: Path) -> None:
    run = make_run(tmp_path, [OWN, BETTER], check=None)
    with pytest.raises(NegativeVerdict, match=f"no verdict.*tune --resume {run.id}"):
        choose_trial(run, run.trials(), None)


@pytest.mark.parametrize("agrees", [False, None, "yes"])
def test_a_source_that_disagrees_is_not_pinned(tmp_path: Path, agrees: object) -> None:
    run = make_run(tmp_path, [OWN, BETTER], check={"agrees": agrees, "message": "off by one"})
    with pytest.raises(NegativeVerdict, match="off by one"):
        choose_trial(run, run.trials(), BETTER)


@pytest.mark.parametrize("field", ["shapes", "rounds", "notes"])
def test_a_broken_check_is_an_input_error(tmp_path: Path, field: str) -> None:
    run = make_run(tmp_path, [OWN, BETTER], check={**CHECK.to_json(), field: None})
    with pytest.raises(InputError, match="verdict on the kernel's source is broken"):
        choose_trial(run, run.trials(), None)


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_an_unfinished_run_is_pinned_with_a_note(tmp_path: Path, status: str) -> None:
    run = make_run(tmp_path, [OWN, BETTER], status=status)
    pin = make_pin(run, run.trials(), choose_trial(run, run.trials(), None), FINGERPRINT, asked=False)
    assert len(pin.notes) == 1 and f"not finished ({status})" in pin.notes[0]


def test_a_changed_environment_is_noted(tmp_path: Path) -> None:
    run = make_run(tmp_path, [OWN, BETTER])
    now = {**FINGERPRINT, "ptxas": {"version": "13.3.80", "sha256": "cd" * 32}}
    pin = make_pin(run, run.trials(), BETTER, now, asked=False)
    assert "ptxas.version: 13.3.73 → 13.3.80" in pin.notes[0]
    assert pin.fingerprint == now


def test_an_own_config_that_fails_is_null(tmp_path: Path) -> None:
    own = replace(failed(1), origin="baseline own")
    run = make_run(tmp_path, [own, BETTER])
    pin = make_pin(run, run.trials(), choose_trial(run, run.trials(), None), FINGERPRINT, asked=False)
    assert pin.objective["own"] is None and pin.notes == ()


def test_the_acf_comes_from_the_run_else_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path / "cache"))
    run = make_run(tmp_path, [OWN, BETTER])
    acf = make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False).acf
    assert acf is not None and acf_content(run, acf) == ACF
    stored = run.acfs / f"{ACF_SHA256}.acf"
    stored.write_bytes(b"altered")
    with pytest.raises(InputError, match="first is missing or altered") as raised:
        acf_content(run, acf)
    assert str(stored) in raised.value.line()
    (tmp_path / "cache" / "acfs").mkdir(parents=True)
    (tmp_path / "cache" / "acfs" / f"{ACF_SHA256}.acf").write_bytes(ACF)
    assert acf_content(run, acf) == ACF
