"""`helitune validate` and `calibrate` before they measure: thresholds, wrong options, machines without a GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helitune_cli import helitune

from helitune.acfs.errors import InputError
from helitune.cli.shares import share
from helitune.cli.validate_command import validate
from helitune.results.thresholds import PRESETS, STRICT, Thresholds

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "runs" / "format1"


def dumped(capsys: pytest.CaptureFixture[str], **options: Any) -> Thresholds:
    validate(**{"seed": 0, "format_": "markdown", **options}, dump_thresholds=True)
    return Thresholds.from_json(capsys.readouterr().out)


def refusal(**options: Any) -> str:
    with pytest.raises(InputError) as raised:
        validate(**{"seed": 0, "format_": "markdown", "dump_thresholds": True, **options})
    assert raised.value.next_step
    return raised.value.line()


@pytest.mark.parametrize("name", PRESETS)
def test_thresholds_are_the_gates(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert dumped(capsys, gate=name) == PRESETS[name]


def test_thresholds_are_strict_by_default_and_options_change_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert dumped(capsys) == STRICT
    assert dumped(capsys, runs=4, min_effect="1%") == replace(STRICT, runs=4, min_effect=0.01)


def test_a_file_of_thresholds_is_taken_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "thresholds.json"
    own = replace(STRICT, alpha=0.01, looks=(5, 10), spend=(0.5, 0.5))
    file.write_text(own.to_json())
    assert dumped(capsys, thresholds=file) == own
    assert "names its gate" in refusal(thresholds=file, gate="strict")
    file.write_text('{"alhpa": 1}')
    assert "alhpa" in refusal(thresholds=file) and str(file) in refusal(thresholds=file)
    assert "cannot read the thresholds" in refusal(thresholds=tmp_path)


def test_wrong_options_say_what_is_right() -> None:
    assert "choose from strict, article, quick" in refusal(gate="lenient")
    assert "max_runs" in refusal(runs=99)
    assert "markdown or csv" in refusal(format_="html")
    assert "1% or 0.01" in refusal(min_effect="much")


@pytest.mark.parametrize(("text", "value"), [("1%", 0.01), ("0.5 %", 0.005), ("0.02", 0.02), (" 0 ", 0.0)])
def test_shares_are_read(text: str, value: float) -> None:
    assert share(text, "--min-effect") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "1", "100%", "-1%", "1 percent", "nan", "1e-2", "%", "1٪"])
def test_other_texts_are_no_share(text: str) -> None:
    with pytest.raises(InputError, match="cannot read the share"):
        share(text, "--min-effect")


def test_a_run_that_only_compiled_cannot_be_validated() -> None:
    with pytest.raises(InputError, match="only compiled") as raised:
        validate(run=str(FORMAT_1), seed=0, format_="markdown", quiet=True)
    assert "machine with a GPU" in raised.value.next_step


def test_without_that_gpu_nothing_is_calibrated(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "calibrate", "--device", "99", "--json")
    assert ended.returncode == 3, ended.stderr
    assert json.loads(ended.stdout)["exit_code"] == 3 and "Traceback" not in ended.stderr


def test_a_compiled_run_is_pinned_only_where_that_is_allowed(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "pin", FORMAT_1, "--json")
    assert ended.returncode == 1, ended.stderr
    assert "--allow compiled" in json.loads(ended.stdout)["error"]["next_step"]
    ended = helitune(tmp_path, "pin", FORMAT_1, "--allow", "everything")
    assert ended.returncode == 2 and "ambiguous, compiled" in ended.stderr
