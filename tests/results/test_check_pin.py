"""The check of a pin, on stand-ins for compiling and for the GPU: how it comes out, and what it says has moved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from checked_pins import GPU, PTXAS, Rig, compiled_of

from helitune.acfs.errors import MachineError
from helitune.objectives.outcomes import Failed
from helitune.objectives.times import Tried
from helitune.results import check_update
from helitune.results.check_request import CheckSetting, settings_for
from helitune.results.checked import Checked, Result, exit_code
from helitune.results.pin import Pin, pin_text
from helitune.results.verdict import Status


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def outcome(checked: Checked) -> tuple[Result, int]:
    return checked.result, checked.exit_code


# measured


def test_a_pin_that_is_faster_than_both_baselines_is_fine(rig: Rig) -> None:
    checked = rig.measured()
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.times is not None
    (shape,) = checked.times.shapes
    assert shape.over_own.numbers.speedup == pytest.approx(0.02 / 0.018, rel=0.003)
    assert shape.over_no_acf is not None
    assert shape.over_no_acf.numbers.speedup == pytest.approx(0.019 / 0.018, rel=0.003)
    assert checked.moved.words() == "nothing"
    # own, own again, pin, its config without the ACF, that again
    assert rig.asked == ["recompile for NVIDIA H200", "5 arms"]


def test_a_pin_that_is_slower_than_the_own_config_is_a_regression(rig: Rig) -> None:
    rig.ms = (0.0206, 0.02, 0.0206)
    checked = rig.measured()
    assert outcome(checked) == (Result.REGRESSION, 1)
    assert checked.message == "slower than the kernel's own config"
    assert checked.next_step


def test_an_acf_that_makes_its_config_slower_is_a_regression(rig: Rig) -> None:
    rig.ms = (0.019, 0.02, 0.018)
    checked = rig.measured()
    assert outcome(checked) == (Result.REGRESSION, 1)
    assert "its own config without the ACF" in checked.message


def test_where_the_own_config_is_the_pins_without_its_acf_there_is_one_baseline(rig: Rig) -> None:
    rig.without_acf = rig.own
    checked = rig.measured()
    assert checked.times is not None
    assert checked.times.shapes[0].over_no_acf == checked.times.shapes[0].over_own
    assert rig.asked[-1] == "3 arms"


def test_as_fast_as_the_own_config_is_no_gain_and_no_failure(rig: Rig) -> None:
    rig.ms = (0.02, 0.02, 0.0201)
    assert outcome(rig.measured()) == (Result.NO_GAIN, 0)


def test_noise_is_ambiguous_and_no_failure(rig: Rig) -> None:
    # field case: CI noise of 5-20 %
    rig.ms, rig.noise = (0.02, 0.02, 0.02), 0.08
    for seed in range(3):
        checked = rig.measured(seed=seed)
        assert outcome(checked) == (Result.AMBIGUOUS, 0)
        assert checked.times is not None
        (numbers,) = (shape.over_own.numbers for shape in checked.times.shapes)
        assert numbers.delta == max(numbers.min_effect, numbers.calibrated_aa, numbers.largest_aa)


@pytest.mark.parametrize(
    ("fails", "result"),
    [
        ({"pin": Tried(stage="wrong_output", message="values 0: output")}, Result.WRONG_OUTPUT),
        ({"soak pin": Tried(stage="flaky_output", message="repeat 21 of 100")}, Result.WRONG_OUTPUT),
        ({"pin": Tried(stage="illegal_access", message="CUDA error")}, Result.FAILED),
        ({"pin": Tried(stage="hang", message="no answer within 20 s")}, Result.FAILED),
    ],
)
def test_correctness_comes_before_any_time(rig: Rig, fails: dict[str, Tried], result: Result) -> None:
    rig.fails = fails
    checked = rig.measured()
    assert outcome(checked) == (result, 1)
    (tried,) = fails.values()
    assert tried.message in checked.message
    assert checked.times is not None and checked.times.shapes[0].pin_ms is None


def test_a_pins_config_that_fails_without_its_acf_is_no_baseline(rig: Rig) -> None:
    rig.fails = {"plain": Tried(stage="wrong_output", message="values 0: output")}
    checked = rig.measured()
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.times is not None and checked.times.shapes[0].over_no_acf is None


def test_a_baseline_with_wrong_output_is_said_to_be_that(rig: Rig) -> None:
    rig.wrong_own = "values 0: output"
    checked = rig.measured()
    assert outcome(checked) == (Result.WRONG_OUTPUT, 1)
    assert "the kernel's own config" in checked.message


def test_a_pin_that_is_the_own_configs_code_is_not_measured(rig: Rig) -> None:
    rig.pin = rig.own
    checked = rig.measured()
    assert outcome(checked) == (Result.NO_GAIN, 0)
    assert rig.calibrations == 0 and checked.moved.pin.moved


def test_the_recorded_times_decide_nothing_and_are_told_at_a_regression(rig: Rig) -> None:
    # recorded as twice as fast as the own config; measured now as slower
    objective = {
        **rig.written.objective,
        "name": "time",
        "unit": "us",
        "pin": {"score": 0.5, "values": [10.0]},
        "own": {**rig.written.objective["own"], "values": [20.0]},
    }
    rig.write(replace(rig.written, objective=objective))
    rig.ms = (0.021, 0.02, 0.021)
    checked = rig.measured()
    assert checked.result is Result.REGRESSION
    assert "which decide nothing: pin 10 → 21 us; own config 20 → 2" in checked.message
    rig.ms = (0.019, 0.02, 0.0195)  # half as fast as recorded, and still faster than both baselines
    assert rig.measured().result is Result.FINE


# recompiled


def test_recompiled_to_the_same_code_is_fine(rig: Rig) -> None:
    checked = rig.recompiled()
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.times is None and checked.moved.words() == "nothing"
    assert rig.calibrations == 0


@pytest.mark.parametrize("name", ["registers", "spill_store_bytes", "shared_bytes"])
def test_other_numbers_of_a_launch_are_drift(rig: Rig, name: str) -> None:
    rig.pin = compiled_of(2, **{name: 200})
    checked = rig.recompiled()
    assert outcome(checked) == (Result.DRIFT, 1)
    assert "→ 2" in checked.message and checked.moved.words().startswith("pin (")


def test_other_code_is_drift_of_the_pin_and_of_the_baseline(rig: Rig) -> None:
    rig.pin, rig.own = compiled_of(12), compiled_of(11)
    checked = rig.recompiled()
    assert outcome(checked) == (Result.DRIFT, 1)
    assert checked.moved.words() == "baseline (code), pin (code, PTX)"


def test_other_ptx_with_the_same_code_is_told_and_no_drift(rig: Rig) -> None:
    rig.pin = compiled_of(2, ptx_sha256="0" * 64)
    checked = rig.recompiled()
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.message == "it compiles to the pinned code, from other PTX"


def test_a_pin_that_no_longer_compiles_fails(rig: Rig) -> None:
    rig.pin = Failed("compile", "ptxas exit 255")
    for checked in (rig.recompiled(), rig.measured()):
        assert outcome(checked) == (Result.FAILED, 1)
        assert "ptxas exit 255" in checked.message
        assert checked.moved.pin.why == "it does not compile: compile"


def test_a_baseline_that_was_not_recorded_is_unknown(rig: Rig) -> None:
    own = {"score": 200.0, "values": [200.0]}
    rig.write(replace(rig.written, objective={**rig.written.objective, "own": own}))
    assert rig.recompiled().moved.words() == "baseline unknown"


# the environment


def test_another_triton_is_reported_beside_the_verdict_and_ends_with_3(rig: Rig) -> None:
    rig.installed["packages"] = {**rig.installed["packages"], "triton": "3.10.0"}
    checked = rig.measured()
    assert outcome(checked) == (Result.ENVIRONMENT, 3)
    assert checked.message.startswith(
        "faster than the kernel's own config, but it is not used here: triton 3.9.0"
    )
    assert checked.times is not None and checked.times.whole.status is Status.FASTER
    # on the newer stack it is slower than the default (helion 2044): that is worse than not being used
    rig.ms = (0.022, 0.02, 0.022)
    checked = rig.measured()
    assert outcome(checked) == (Result.REGRESSION, 1)
    assert checked.moved.words() == "environment (triton 3.9.0 → 3.10.0)"


def test_a_build_tag_of_torch_does_not_count(rig: Rig) -> None:
    rig.installed["packages"] = {**rig.installed["packages"], "torch": "2.13.0+cu130"}
    assert outcome(rig.recompiled()) == (Result.FINE, 0)


@pytest.mark.parametrize("measured", [True, False])
def test_an_acf_is_for_one_ptxas_and_nothing_is_measured_with_another(rig: Rig, measured: bool) -> None:
    rig.installed["ptxas"] = {"version": "13.10.2", "sha256": "cd" * 32}
    checked = rig.measured() if measured else rig.recompiled()
    assert outcome(checked) == (Result.ENVIRONMENT, 3)
    assert "ptxas 13.3.73 → 13.10.2; its PTX is as it was" in checked.message
    assert rig.calibrations == 0 and checked.moved.pin.moved is None


def test_another_file_of_the_same_version_is_another_ptxas(rig: Rig) -> None:
    rig.installed["ptxas"] = {"version": "13.3.73", "sha256": "cd" * 32}
    assert "ptxas 13.3.73 → another file of that version" in rig.recompiled().message


def test_a_config_alone_holds_with_any_ptxas(rig: Rig) -> None:
    rig.write(replace(rig.written, acf=None))
    rig.installed["ptxas"] = {"version": "13.10.2", "sha256": "cd" * 32}
    checked = rig.recompiled()
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.moved.words() == "environment (ptxas 13.3.73 → 13.10.2)"


def test_a_measured_pin_holds_on_its_gpu_only(rig: Rig) -> None:
    gpu = {"name": "NVIDIA H100", "driver": "580.1"}
    rig.write(replace(rig.written, fingerprint={**rig.written.fingerprint, "gpu": gpu}))
    checked = rig.measured()
    assert outcome(checked) == (Result.ENVIRONMENT, 3)
    assert "GPU NVIDIA H100 → NVIDIA H200" in checked.message and rig.asked == []


def test_another_driver_is_noted_and_no_more(rig: Rig) -> None:
    gpu = {"name": "NVIDIA H200", "driver": "570.1"}
    rig.write(replace(rig.written, fingerprint={**rig.written.fingerprint, "gpu": gpu}))
    checked = rig.measured()
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.moved.words() == "environment (driver 570.1 → 580.1)"


def test_a_machine_that_can_check_nothing_is_the_environment(rig: Rig) -> None:
    checked = rig.check(MachineError("no ptxas at /gone", where="--ptxas", next_step="give another"))
    assert outcome(checked) == (Result.ENVIRONMENT, 3)
    assert checked.message == "no ptxas at /gone (--ptxas)" and checked.next_step == "give another"


def test_pins_of_another_architecture_are_recompiled_only(rig: Rig, tmp_path: Path) -> None:
    other = tmp_path / "pins" / "softmax" / "sm_80" / "f16.json"
    other.parent.mkdir()
    fields = json.loads(rig.path.read_text())
    mine = rig.written
    rig.path.write_text(json.dumps(fields))
    (other.parent / mine.acf.file).write_bytes((rig.path.parent / mine.acf.file).read_bytes())
    rig.path = other
    rig.write(replace(mine, gpu="sm_80"))
    how = CheckSetting(PTXAS, GPU)
    each = settings_for([other, tmp_path / "pins" / "softmax" / "sm_90" / "f16.json"], how)
    checked = rig.check(each[other])
    assert outcome(checked) == (Result.FINE, 0)
    assert checked.message.endswith("not measured: it is for sm_80, and this GPU is sm_90")
    assert rig.asked == ["recompile for NVIDIA A100 80GB SXM"]
    # where none is of this GPU nothing would be measured, and that must not pass
    assert rig.check(settings_for([other], how)[other]).exit_code == 3


# the kernel file


def test_an_edited_kernel_file_is_a_moved_baseline(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text("kernel = 'another'\n")
    checked = rig.measured()
    assert outcome(checked) == (Result.ENVIRONMENT, 3)
    assert checked.moved.words().startswith("baseline (the kernel file was edited since it was pinned)")
    assert rig.asked == []


def test_a_missing_or_altered_acf_is_an_error_that_names_it(rig: Rig) -> None:
    acf = rig.path.parent / rig.written.acf.file
    acf.write_bytes(b"altered")
    checked = rig.measured()
    assert outcome(checked) == (Result.INPUT, 2) and "was altered" in checked.message
    assert str(acf) in checked.message
    acf.unlink()
    assert str(acf) in rig.measured().message and rig.asked == []


def test_a_negative_verdict_is_the_exit_code_of_the_whole(rig: Rig) -> None:
    fine = rig.recompiled()
    codes = {result: replace(fine, result=result) for result in Result}
    assert exit_code([fine]) == 0
    assert exit_code([fine, codes[Result.ENVIRONMENT]]) == 3
    assert exit_code([codes[Result.ENVIRONMENT], codes[Result.INPUT]]) == 2
    assert exit_code([codes[Result.ENVIRONMENT], codes[Result.INPUT], codes[Result.REGRESSION]]) == 1
    assert exit_code([codes[Result.AMBIGUOUS], codes[Result.NO_GAIN]]) == 0


# --update


@pytest.fixture
def written(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Pin]:
    """The pins that an update writes: verifying them takes the real toolchain (test_drift.py)."""
    pins: list[Pin] = []
    monkeypatch.setattr(check_update, "_write", lambda path, pin, *_: pins.append(pin))
    return pins


def test_an_update_on_a_gpu_makes_the_evidence_a_verdict(rig: Rig, written: list[Pin]) -> None:
    rig.installed["packages"] = {**rig.installed["packages"], "triton": "3.10.0"}
    rig.pin = compiled_of(12, registers=48)
    checked = rig.measured(update=True)
    assert outcome(checked) == (Result.FINE, 0) and checked.updated
    (pin,) = written
    assert pin == checked.pin == Pin.from_json(json.loads(pin_text(pin)))
    assert pin.evidence == "FASTER" and pin.verdict is not None
    assert pin.verdict["validated"]["timing"] == "graph" and pin.verdict["verdicts"][0]["shape"] == 0
    assert pin.objective["unit"] == "us"
    assert pin.objective["pin"]["values"] == [pytest.approx(18, rel=0.01)]
    assert pin.artifacts[0][0]["registers"] == 48
    assert pin.fingerprint["packages"]["triton"] == "3.10.0"
    assert pin.fingerprint["gpu"] == {"name": "NVIDIA H200", "driver": "580.1"}
    assert pin.notes[-1].startswith("updated by helitune check --update")
    # what was written now is what the next check finds: nothing has moved, and the baseline is known
    rig.write(pin)
    assert rig.measured().moved.words() == "nothing"


def test_an_update_takes_an_edited_kernel_file(rig: Rig, written: list[Pin], tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text("kernel = 'another'\n")
    assert rig.measured(update=True).updated
    assert written[0].source_sha256 != rig.written.source_sha256


@pytest.mark.parametrize(
    ("ms", "result"),
    [
        ((0.02, 0.02, 0.0201), Result.NOT_UPDATED),
        ((0.0206, 0.02, 0.0206), Result.REGRESSION),
        ((0.019, 0.02, 0.018), Result.REGRESSION),
    ],
)
def test_what_is_not_faster_stays_as_it_is(
    rig: Rig, written: list[Pin], ms: tuple[float, float, float], result: Result
) -> None:
    rig.ms = ms
    checked = rig.measured(update=True)
    assert outcome(checked) == (result, 1)
    assert checked.message.endswith("it was not rewritten") and written == []


def test_a_measured_pin_is_not_updated_without_a_gpu(rig: Rig, written: list[Pin]) -> None:
    rig.write(replace(rig.written, evidence="FASTER", verdict={"kind": "measured", "status": "FASTER"}))
    checked = rig.recompiled(update=True)
    assert outcome(checked) == (Result.ENVIRONMENT, 3)
    assert "cannot be validated again without a GPU" in checked.message and written == []


def test_a_compiled_pin_that_no_longer_ranks_above_the_own_config_is_not_updated(
    rig: Rig, written: list[Pin]
) -> None:
    rig.pin = replace(compiled_of(12), score=100.0)
    rig.own = replace(compiled_of(1), score=90.0)
    checked = rig.recompiled(update=True)
    assert outcome(checked) == (Result.NOT_UPDATED, 1)
    assert "does not rank above" in checked.message and written == []


def test_an_update_of_what_still_holds_writes_nothing(
    rig: Rig, written: list[Pin], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_update, "_source_check", lambda request: {"agrees": True})
    rig.pin = replace(compiled_of(12), score=90.0)
    checked = rig.recompiled(update=True)
    assert outcome(checked) == (Result.FINE, 0) and checked.updated
    assert checked.message.startswith("it compiles to other code") and checked.message.endswith("; rewritten")
    (pin,) = written
    assert pin.evidence == "compiled" and pin.check == {"agrees": True}
    rig.write(pin)
    assert not rig.recompiled(update=True).updated and len(written) == 1
