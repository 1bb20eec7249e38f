"""A run that was validated: what run.json then holds, what is shown of it, what may be pinned and packed."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import CHECK, FINGERPRINT, failed, make_run
from pin_runs import OWN as COMPILED_OWN
from pin_runs import trial as compiled_trial
from validation_runs import FLOOR, OWN_TRIAL, PLAIN, WITH_ACF, Gpu, measured, measured_run, sessions

from helitune.acfs.errors import InputError, MachineError, NegativeVerdict
from helitune.cli import validate_command
from helitune.cli.show_command import show
from helitune.objectives.times import Tried
from helitune.results import validation_plan
from helitune.results.finals import Final
from helitune.results.noise_floor import NoiseFloor
from helitune.results.pack_sources import gather
from helitune.results.pin import Pin, pin_text, read_pin
from helitune.results.pin_choice import make_pin
from helitune.results.pin_environment import gpu_name
from helitune.results.pin_evidence import require_allowable, trial_to_pin
from helitune.results.request import TuneRequest
from helitune.results.run_directory import RunDirectory
from helitune.results.run_record import require_measured
from helitune.results.trial import Trial
from helitune.results.validation_plan import chosen_trials, tools_again

NOISE = measured(4, 0.999, acf=True)
"""A trial whose gain is noise."""


class Calibrated:
    """Stands for a calibration of this machine."""

    created = "2026-12-01T09:00:00+0000"
    rebuilt = (None,) * 20

    def floor(self) -> NoiseFloor:
        return NoiseFloor(**FLOOR)  # type: ignore[arg-type]


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: `helitune validate` on a run, with stand-ins for tools, calibration and GPU processes."""

    def run(found: RunDirectory, *trials: str, gpu: dict[str, Any] | None = None, **options: Any) -> None:
        known = found.trials()

        def start(run: RunDirectory, request: TuneRequest, tools: Any, arms: int) -> Any:
            ms = {t.id: [0.02 * t.score] for t in known if t.score is not None}
            return sessions(known, lambda number, seed: Gpu(**{"ms": ms, "seed": seed, **(gpu or {})}))

        monkeypatch.setattr(validation_plan, "tools_again", lambda run, request: None)
        monkeypatch.setattr(validation_plan, "fresh_sessions", start)
        monkeypatch.setattr(validate_command, "clocks_held", lambda request, tools: nullcontext())
        monkeypatch.setattr(validate_command, "calibration_for", lambda *arguments: Calibrated())
        defaults: dict[str, Any] = {"run": str(found.path), "trial": list(trials) or None, "quiet": True}
        validate_command.validate(**{**defaults, "seed": 0, "format_": "markdown", **options})

    return run


def to_pin(run: RunDirectory, *allow: str, number: int | None = None) -> tuple[int, str]:
    trials = run.trials()
    asked = next((t for t in trials if t.number == number), None)
    chosen, evidence = trial_to_pin(run, trials, asked, frozenset(allow))
    return chosen.number, evidence.status


def refusal(run: RunDirectory, *allow: str, number: int | None = None) -> str:
    with pytest.raises(NegativeVerdict) as raised:
        to_pin(run, *allow, number=number)
    assert raised.value.next_step
    return raised.value.line()


def the_pin(run: RunDirectory, *allow: str) -> Pin:
    trials = run.trials()
    chosen, evidence = trial_to_pin(run, trials, None, frozenset(allow))
    now = {**FINGERPRINT, "gpu": {"name": "NVIDIA H200", "driver": "580.1"}}
    return make_pin(run, trials, chosen, now, asked=False, status=evidence.status, verdict=evidence.record)


class TestAFasterFinalist:
    @pytest.fixture
    def run(self, tmp_path: Path, validate: Any) -> RunDirectory:
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN, WITH_ACF, NOISE])
        validate(run)
        return run

    def test_run_json_has_its_verdict_with_all_numbers(self, run: RunDirectory) -> None:
        fields = run.run()
        by_number = {record["number"]: record for record in fields["verdicts"]}
        assert by_number[3]["status"] == "FASTER" and by_number[3]["shape"] == 0
        assert by_number[3]["speedup"] == pytest.approx(1 / 0.93, rel=0.003)
        assert by_number[3]["ms"] == pytest.approx(0.02 * 0.93, rel=0.003)
        assert by_number[3]["over_plain"]["status"] == "FASTER"
        assert by_number[2]["over_plain"] is None
        assert by_number[4]["status"] == "SAME"
        validation = fields["validation"]
        assert (validation["gate"], validation["runs"], validation["plain"]) == ("strict", 2, PLAIN.id)
        assert (validation["number"], validation["floor"]) == (1, FLOOR)
        assert validation["calibration"] == {"created": "2026-12-01T09:00:00+0000", "baselines": 20}

    def test_it_is_pinned_with_its_evidence(self, run: RunDirectory, tmp_path: Path) -> None:
        pin = the_pin(run)
        assert (pin.run["number"], pin.evidence) == (3, "FASTER")
        path = tmp_path / "pin.json"
        path.write_text(pin_text(pin))
        assert pin.acf is not None
        (tmp_path / pin.acf.file).write_bytes((run.acfs / pin.acf.file).read_bytes())
        assert read_pin(path) == pin
        evidence = json.loads(path.read_text())["evidence"]
        assert (evidence["kind"], evidence["status"], evidence["gate"]) == ("measured", "FASTER", "strict")
        assert evidence["low"] < evidence["speedup"] < evidence["high"]
        assert evidence["validated"]["runs"] == 2 and evidence["validated"]["thresholds"]["alpha"] == 0.05
        objective = pin.objective
        assert (objective["name"], objective["unit"], objective["lower_is_better"]) == ("time", "us", True)
        assert objective["pin"]["values"][0] == pytest.approx(18.6, rel=0.003)
        assert objective["own"]["values"][0] == pytest.approx(20.0, rel=0.003)
        # a pin that was measured holds on GPUs of that name
        assert gpu_name(pin) == "NVIDIA H200"
        (winner,), refused = gather([str(path)], tmp_path)
        assert (winner.provenance.status, refused) == ("FASTER", ())

    def test_the_run_itself_can_be_packed(self, run: RunDirectory, tmp_path: Path) -> None:
        winners, refused = gather([str(run.path)], tmp_path)
        assert [(w.provenance.entry.run["number"], w.provenance.status) for w in winners] == [(3, "FASTER")]
        assert {r.reason for r in refused} == {
            "the trial has no ACF",
            "its verdict is SAME, not FASTER",
        }

    def test_a_trial_that_is_not_faster_is_refused_by_name_with_the_reason(self, run: RunDirectory) -> None:
        assert "trial 4 is SAME (within_floor)" in refusal(run, number=4)
        assert to_pin(run, number=2) == (2, "FASTER")

    def test_show_prints_the_table_and_explains(
        self, run: RunDirectory, capsys: pytest.CaptureFixture[str]
    ) -> None:
        show(run=str(run.path))
        shown = capsys.readouterr().out
        rows = [line for line in shown.splitlines() if line.startswith("|")]
        assert len(rows) == 5 and all(line.count("|") == rows[0].count("|") for line in rows)
        assert "FASTER" in rows[2] and "52 % of memory" in rows[2] and "validated" in shown
        show(run=str(run.path), explain="3")
        explained = capsys.readouterr().out
        assert "FASTER: the interval lies above the floor" in explained
        assert "beside the best config without an ACF" in explained
        show(run=str(run.path), json=True)
        assert len(json.loads(capsys.readouterr().out)["verdicts"]) == 3

    def test_a_second_validation_is_counted(self, run: RunDirectory, validate: Any) -> None:
        validate(run)
        assert run.run()["validation"]["number"] == 2

    def test_its_file_is_decided_again_without_a_gpu(
        self, run: RunDirectory, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = run.run()
        file = run.path / "validation.jsonl"
        capsys.readouterr()
        validate_command.validate(from_file=file, json=True, format_="markdown")
        again = json.loads(capsys.readouterr().out)
        assert again["verdicts"] == before["verdicts"] and again["exit_code"] == 0
        with pytest.raises(NegativeVerdict, match="none of 3 finalist"):
            validate_command.validate(from_file=file, min_effect="10%", format_="csv")
        rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
        assert [row["number"] for row in rows] == ["3", "2", "4"]
        assert {row["status"] for row in rows} <= {"SAME", "AMBIGUOUS"}
        assert run.run() == before


class TestNothingFaster:
    def test_a_winner_that_is_only_noise_is_not_pinned(
        self, tmp_path: Path, validate: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, NOISE])
        with pytest.raises(NegativeVerdict, match=r"none of 1 finalist\(s\) is FASTER: 1 SAME"):
            validate(run, json=True)
        answer = json.loads(capsys.readouterr().out)
        assert answer["exit_code"] == 1 and answer["error"]["next_step"]
        line = refusal(run)
        assert "trial 4 is SAME (within_floor)" in line and "keep the kernel's own config" in line
        assert "trial 4 is SAME" in refusal(run, "ambiguous", "compiled")

    def test_an_ambiguous_one_is_pinned_only_where_it_is_allowed_and_says_so(
        self, tmp_path: Path, validate: Any
    ) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, measured(2, 1 / 1.006)])
        with pytest.raises(NegativeVerdict, match="1 AMBIGUOUS"):
            validate(run, gpu={"noise": 0.006})
        assert "--allow ambiguous" in refusal(run) and "--allow ambiguous" in refusal(run, "compiled")
        assert to_pin(run, "ambiguous") == (2, "AMBIGUOUS")
        evidence = json.loads(pin_text(the_pin(run, "ambiguous")))["evidence"]
        assert (evidence["status"], evidence["kind"]) == ("AMBIGUOUS", "measured")

    def test_a_failed_one_is_undecided_and_says_at_what(
        self, tmp_path: Path, validate: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN])
        with pytest.raises(NegativeVerdict, match="1 UNDECIDED"):
            validate(run, gpu={"fails": {PLAIN.id: Tried(stage="hang", message="no answer")}})
        assert "trial 2 failed at hang: no answer" in capsys.readouterr().out
        (record,) = run.run()["verdicts"]
        assert (record["status"], record["detail"]) == ("UNDECIDED", "hang: no answer")
        assert "trial 2 is UNDECIDED (failed)" in refusal(run, "ambiguous")

    def test_a_run_that_was_not_validated_says_what_to_do(self, tmp_path: Path) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN])
        assert f"helitune validate {run.id}" in refusal(run, "ambiguous", "compiled")
        assert f"helitune validate {run.id} --trial 2" in refusal(run, number=2)

    def test_an_interrupted_one_has_no_verdict(
        self, tmp_path: Path, validate: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: Any) -> Any:
            raise KeyboardInterrupt

        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN])
        monkeypatch.setattr(Gpu, "arm_rounds", interrupt)
        with pytest.raises(validate_command.Interrupted, match="before the verdict"):
            validate(run)
        assert "verdicts" not in run.run()
        run.lock()  # it was released
        run.close()


class TestAnAcfIsForWhatAConfigDoesNotGive:
    def chosen(self, folder: Path, validate: Any, *trials: Trial) -> int:
        run = measured_run(folder, [OWN_TRIAL, *trials])
        validate(run)
        return to_pin(run)[0]

    def test_it_is_pinned_where_it_adds_to_the_best_config(self, tmp_path: Path, validate: Any) -> None:
        assert self.chosen(tmp_path, validate, PLAIN, WITH_ACF) == 3

    def test_it_is_not_where_the_config_alone_gives_the_same(self, tmp_path: Path, validate: Any) -> None:
        assert self.chosen(tmp_path, validate, PLAIN, measured(3, 0.9495, acf=True)) == 2

    def test_it_is_where_no_config_gains_anything(self, tmp_path: Path, validate: Any) -> None:
        assert self.chosen(tmp_path, validate, measured(2, 0.999), WITH_ACF) == 3


class TestACompiledRun:
    def test_it_is_pinned_only_where_that_is_allowed(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, [COMPILED_OWN, compiled_trial(2, 100.0, acf=True)])
        assert "--allow compiled" in refusal(run) and "--allow compiled" in refusal(run, number=2)
        assert to_pin(run, "compiled") == (2, "compiled")
        assert to_pin(run, "compiled", number=1) == (1, "compiled")

    def test_why_nothing_is_found_comes_first(self, tmp_path: Path) -> None:
        assert "nothing to pin: none of 1" in refusal(make_run(tmp_path, [COMPILED_OWN]))

    def test_it_cannot_be_validated(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="only compiled"):
            require_measured(make_run(tmp_path, [COMPILED_OWN]).run(), "here")

    def test_nothing_else_can_be_allowed(self) -> None:
        with pytest.raises(InputError, match="unknown status 'faster'"):
            require_allowable({"faster"})


class TestWhatIsValidated:
    def numbers(self, run: RunDirectory, named: Sequence[Trial] = ()) -> tuple[int | None, list[int]]:
        _, plain, found = chosen_trials(run, named)
        return plain.number if plain else None, [trial.number for trial in found]

    def test_finalists_are_those_that_were_measured_again_best_first(self, tmp_path: Path) -> None:
        others = [measured(n, 1 - n / 1000, acf=True) for n in range(5, 15)]
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN, *others])
        plain, found = self.numbers(run)
        assert (plain, found) == (2, [2, 14, 13, 12, 11, 10, 9, 8])

    def test_the_best_without_an_acf_is_always_among_them(self, tmp_path: Path) -> None:
        others = [measured(n, 0.9 - n / 1000, acf=True) for n in range(5, 15)]
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN, *others])
        assert self.numbers(run) == (2, [14, 13, 12, 11, 10, 9, 8, 2])
        assert self.numbers(run, [others[0]]) == (2, [5, 2])

    def test_own_is_the_only_baseline_where_no_config_is_better(self, tmp_path: Path) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, measured(2, 1.01), WITH_ACF])
        assert self.numbers(run)[0] is None

    def test_finalists_that_failed_are_left_out(self, tmp_path: Path) -> None:
        finals = [Final(PLAIN.id, 0, stage="drift", message="other code"), *_finals(WITH_ACF)]
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN, WITH_ACF], finals=[f.to_json() for f in finals])
        assert self.numbers(run) == (None, [3])

    def test_a_run_that_did_not_come_to_finals_has_its_best(self, tmp_path: Path) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN, measured(3, 1.4)], finals=[])
        assert self.numbers(run) == (2, [2])

    def test_what_cannot_be_validated_says_why(self, tmp_path: Path) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, failed(9)])
        with pytest.raises(NegativeVerdict, match="nothing to validate"):
            chosen_trials(run, [])
        for named, why in ((OWN_TRIAL, "the baseline"), (failed(9), "no time")):
            with pytest.raises(InputError, match=why):
                chosen_trials(run, [named])
        nothing = measured_run(tmp_path / "other", [failed(1)])
        with pytest.raises(InputError, match="no times of the kernel's own config"):
            chosen_trials(nothing, [])

    def test_another_kernel_file_is_refused(self, tmp_path: Path) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN])
        request = TuneRequest.from_json(run.run()["request"])
        Path(request.file).write_text("changed")
        with pytest.raises(InputError, match="has changed since the run"):
            tools_again(run, request)

    def test_without_a_gpu_it_is_the_machines_fault(self, tmp_path: Path) -> None:
        run = measured_run(tmp_path, [OWN_TRIAL, PLAIN])
        request = replace(TuneRequest.from_json(run.run()["request"]), device="7")
        with pytest.raises(MachineError, match=r"GPU|ptxas"):
            tools_again(run, request)


@pytest.mark.parametrize(
    "edit",
    [
        {"verdicts": 3},
        {"verdicts": [{}]},
        {"validation": []},
        {"validation": {"whole": [{}]}},
    ],
)
def test_broken_verdicts_are_an_input_error(tmp_path: Path, validate: Any, edit: dict[str, Any]) -> None:
    run = measured_run(tmp_path, [OWN_TRIAL, PLAIN])
    validate(run)
    run.write_run({**run.run(), **edit})
    with pytest.raises(InputError, match="verdicts cannot be read"):
        show(run=str(run.path))
    assert CHECK.agrees
    if "validation" in edit:
        with pytest.raises(InputError, match="verdicts cannot be read"):
            to_pin(run)


def _finals(*trials: Trial) -> list[Final]:
    return [Final(t.id, 100, t.measured.shapes) for t in trials if t.measured]
