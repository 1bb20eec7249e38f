"""Kernels checked against their references in Helion's interpreter: the right ones pass, the wrong ones fail.

Wrong kernels run in this process, one import of Helion for all; the examples and whatever misbehaves run in
the child process as in production.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helitune.acfs.errors import InputError, MachineError
from helitune.objectives.agreement_record import OutputAgreement
from helitune.objectives.agreement_words import LONGEST_SHAPE, circumstances, shortened
from helitune.objectives.check_child import run_check, start_check
from helitune.objectives.check_result import CheckRequest, CheckResult
from helitune.objectives.check_rounds import rounds

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "fixtures" / "kernels"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
X = "f32[256,2048]"


def request(
    fixture: str, *args: str, kernel: str | None = None, reference: str | None = None
) -> CheckRequest:
    return CheckRequest(str(KERNELS / f"check_{fixture}.py"), kernel, reference, args, seeds=2)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    # read when the kernel file is imported
    monkeypatch.setenv("HELION_INTERPRET", "1")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    from helitune.objectives.interpreter_check import check

    return check


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_agrees_in_the_child(path: Path) -> None:
    started = time.monotonic()
    result = run_check(CheckRequest(str(path)))
    assert result.agrees, result.message
    assert len(result.rounds) == 8
    assert not result.notes
    assert result.worst is not None
    assert time.monotonic() - started < 120


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixture", "found_in", "reason", "words"),
    [
        ("off_by_one", "values 0", "value", "with random inputs (draw 1): "),
        ("missing_gelu_term", "values 0", "value", "with random inputs (draw 1): "),
        ("missing_rescale", "tiles in halves", "value", "with tiles of half the size: "),
        ("missing_eps", "zeros", "nan", "with zeros: "),
        ("softmax_without_max", "large values", "nan", "with inputs × 64: "),
    ],
)
def test_a_wrong_kernel_is_caught(check, fixture: str, found_in: str, reason: str, words: str) -> None:  # type: ignore[no-untyped-def]
    result = check(request(fixture))
    assert not result.agrees
    assert result.rounds[-1] == found_in
    assert words in result.message and len(result.message) < 200
    assert result.worst is not None and result.worst.reason == reason
    assert CheckResult.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result


@pytest.mark.slow
def test_a_missing_eps_is_caught_by_small_values_alone(check) -> None:  # type: ignore[no-untyped-def]
    # no zeros here: the values are limited, so nothing is put in their place
    kind = "f32[256,1024]=0.0005..0.001 1e-5"
    result = check(request("missing_eps", kind))
    assert not result.agrees and result.rounds == ("values 0",)
    assert check(request("missing_eps", "f32[256,1024]=5..6 1e-12")).agrees


@pytest.mark.slow
def test_arguments_changed_in_place_are_compared(check) -> None:  # type: ignore[no-untyped-def]
    wrong = check(request("in_place"))
    assert wrong.worst is not None and wrong.worst.name == "argument x (mutated)"
    assert not wrong.agrees
    assert check(request("in_place", reference="right")).agrees
    assert check(request("in_place", reference="returning")).agrees


@pytest.mark.slow
def test_values_that_the_workload_limits_are_not_altered(check) -> None:  # type: ignore[no-untyped-def]
    limited = check(request("softmax_without_max", "bf16[256,1024]=0..1"))
    assert limited.agrees
    assert limited.rounds == ("values 0", "values 1", "tiles in halves")


@pytest.mark.slow
def test_every_shape_is_checked(check) -> None:  # type: ignore[no-untyped-def]
    result = check(request("fixed_size", X, "f16[1024,4096]", kernel="double", reference="plain"))
    assert result.agrees
    assert result.shapes == (X, "f16[512,2048]")
    assert result.factors == (1, 2)
    assert result.shown_shapes == f"{X}, f16[512,2048] (scaled down)"


@pytest.mark.slow
def test_a_factor_at_which_the_reference_fails_is_skipped_and_noted(check) -> None:  # type: ignore[no-untyped-def]
    case = request("fixed_size", "f32[1024,2048]", kernel="double", reference="only_full_size")
    result = check(case)
    assert result.agrees
    assert result.shapes == ("f32[1024,2048]",)
    (note,) = result.notes
    assert "made for 2048 columns" in note and "scaled down 1x" in note


@pytest.mark.slow
def test_a_reference_that_never_runs_is_an_input_error_with_its_line(check) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as error:
        check(request("fixed_size", X, kernel="double", reference="raising"))
    assert "not implemented yet" in error.value.what
    assert "check_fixed_size.py:" in error.value.where
    assert "raised at" not in error.value.what


@pytest.mark.slow
def test_a_call_that_fails_in_our_own_file_names_no_place_there(check) -> None:  # type: ignore[no-untyped-def]
    # a builtin has no signature to compare, and no frame of its own
    with pytest.raises(InputError) as error:
        check(request("fixed_size", X, kernel="double", reference="torch:add"))
    assert "TypeError: add()" in error.value.what and "raised at" not in error.value.what
    assert error.value.where == str(KERNELS / "check_fixed_size.py")


@pytest.mark.slow
def test_a_kernel_that_never_runs_is_a_failed_check_with_its_line(check) -> None:  # type: ignore[no-untyped-def]
    result = check(request("fixed_size", X, kernel="misshapen", reference="plain"))
    assert not result.agrees and result.worst is None
    assert "the kernel's source fails in Helion's interpreter" in result.message
    assert "check_fixed_size.py:" in result.message


@pytest.mark.slow
def test_without_a_reference_the_kernel_must_agree_with_itself(check) -> None:  # type: ignore[no-untyped-def]
    result = check(request("missing_gelu_term", reference="self"))
    assert result.agrees and result.reference == "self"
    # it gives one result in one tile, another in two
    assert not check(request("missing_rescale", reference="self")).agrees


@pytest.mark.slow
def test_what_the_file_prints_does_not_reach_the_result() -> None:
    assert run_check(request("misbehaving", X, reference="chatty")).agrees


@pytest.mark.slow
def test_errors_of_the_child_arrive_as_they_were_raised() -> None:
    with pytest.raises(InputError, match="no kernel 'nothing'"):
        run_check(request("fixed_size", X, kernel="nothing"))


@pytest.mark.slow
def test_a_crash_is_a_machine_error_with_the_last_line_of_stderr() -> None:
    with pytest.raises(MachineError) as error:
        run_check(request("misbehaving", X, reference="crashing"))
    assert "SIGABRT" in error.value.what


@pytest.mark.slow
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_check_that_hangs_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("CHECK_TEST_PID_FILE", str(pid_file))
    handle = start_check(request("misbehaving", X, reference="hanging"))
    deadline = time.monotonic() + 100
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline and not handle.done
        time.sleep(0.1)
    if how == "cancel":
        handle.cancel()
    with pytest.raises(MachineError, match="took more than" if how == "timeout" else "SIGKILL"):
        handle.result(0.2)
    assert handle.done
    assert _ends(int(pid_file.read_text()))


@pytest.mark.slow
def test_a_check_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    case = json.dumps(request("misbehaving", X, reference="hanging").to_json())
    code = (
        "import json, os, sys, time\n"
        "from helitune.objectives.check_child import start_check\n"
        "from helitune.objectives.check_result import CheckRequest\n"
        "handle = start_check(CheckRequest.from_json(json.loads(sys.argv[1])))\n"
        "print(handle._child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = os.environ | {"CHECK_TEST_PID_FILE": str(pid_file)}
    with subprocess.Popen(
        [sys.executable, "-c", code, case], stdout=subprocess.PIPE, env=environment
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(1)
        parent.send_signal(signal.SIGKILL)
    assert _ends(child)


def test_garbage_instead_of_a_result_is_a_machine_error(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho \'{"result": {"agrees": true}}\'\necho broken install >&2\n')
    fake.chmod(0o755)
    with pytest.raises(MachineError, match="ended with status 0: broken install"):
        run_check(request("fixed_size", X), python=str(fake))
    with pytest.raises(MachineError, match="did not start"):
        run_check(request("fixed_size", X), python=str(tmp_path / "absent"))


def test_request_and_result_survive_json() -> None:
    case = request("fixed_size", X, "f16[8] 2", kernel="double")
    assert CheckRequest.from_json(json.loads(json.dumps(case.to_json()))) == case
    worst = OutputAgreement("output", "value", 1.0, 2.0, 3.0, (1,), "off")
    result = CheckResult(False, "file:plain", (X,), ("values 0",), "wrong", worst, ("a note",))
    assert CheckResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert result.evidence == "interpreter"


def test_a_result_without_factors_is_an_older_one() -> None:
    result = CheckResult(True, "self", (X, "f16[8]"), (), "agrees", factors=(4, 1))
    assert result.shown_shapes == f"{X} (scaled down), f16[8]"
    record = result.to_json()
    assert CheckResult.from_json(json.loads(json.dumps(record))) == result
    del record["factors"]
    older = CheckResult.from_json(record)
    assert (older.factors, older.shown_shapes) == ((), f"{X}, f16[8]")


@pytest.mark.parametrize("alterable", [True, False])
def test_every_round_has_words_of_its_own(alterable: bool) -> None:
    names = [plan.name for plan in rounds(2, alterable=alterable)]
    words = [circumstances(name) for name in names]
    assert len({*words}) == len(names) and all(text.startswith("with ") for text in words)
    assert words[1] == "with random inputs (draw 2)"


def test_a_long_shape_does_not_make_a_long_message() -> None:
    assert shortened(X) == X
    assert len(shortened(" ".join([X] * 9))) == LONGEST_SHAPE


def test_the_main_process_side_does_not_import_torch() -> None:
    code = "import sys, helitune.objectives.check_child; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _ends(process_id: int) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False
