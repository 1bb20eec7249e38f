"""From a kernel file to a pin that says FASTER, on a real GPU: tune, validate, pin, and decide again from the file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helitune.objectives.device import find_device
from helitune.results.thresholds import STRICT

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

# a GPU host may have the packages on PYTHONPATH alone, without the script
HELITUNE = [sys.executable, "-P", "-c", "from helitune.cli.main import run; run()"]
KERNEL = Path(__file__).parents[1] / "fixtures" / "pins" / "row_softmax.py"
TUNE = ("--args", "f16[4096,2560]", "--budget", "12", "--seed", "1", "--set", "pid_type=flat")
FEW = replace(STRICT, looks=(8, 16), spend=(0.5, 0.5), soak_repeats=20)


class Folder:
    """A folder with the kernel file, and what commands in it answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tuned: dict[str, Any] = {}

    def helitune(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        ended = subprocess.run(
            [*HELITUNE, *arguments, "--json"], cwd=self.path, capture_output=True, text=True, timeout=500
        )
        assert ended.stdout.strip(), ended.stderr
        return ended.returncode, json.loads(ended.stdout), ended.stderr

    @property
    def run(self) -> Path:
        return next(self.path.glob(".helitune/runs/*"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A tuned folder; the kernel's own config is a poor one, so that a search finds a much better one at once."""
    if find_device(0) is None:
        pytest.skip("no NVIDIA GPU here")
    made = Folder(tmp_path_factory.mktemp("validated"))
    shutil.copy(KERNEL, made.path)
    (made.path / "thresholds.json").write_text(FEW.to_json())
    status, made.tuned, errors = made.helitune("tune", "row_softmax.py", *TUNE)
    assert status == 0, errors
    yield made


def test_what_was_tuned_is_validated_and_pinned(folder: Folder) -> None:
    refused, answer, _ = folder.helitune("pin")
    assert refused == 1 and "not validated" in answer["error"]["what"]

    status, validated, errors = folder.helitune("validate", "--runs", "2", "--thresholds", "thresholds.json")
    assert status == 0, errors
    best = validated["validation"]["whole"][0]
    assert (best["status"], best["runs"]) == ("FASTER", 2)
    # what validation measured is what the search had found, within what a search can be wrong
    assert best["speedup"] == pytest.approx(1 / folder.tuned["best"]["score"], rel=0.1)
    lines = [json.loads(line) for line in (folder.run / "validation.jsonl").read_text().splitlines()]
    runs = [line for line in lines if line["kind"] == "run"]
    rounds = [line for line in lines if line["kind"] == "round"]
    assert [run["soak_repeats"] for run in runs] == [20, 10] and not any(run["failed"] for run in runs)
    assert runs[0]["pads_bytes"] != runs[1]["pads_bytes"] and {line["run"] for line in rounds} == {1, 2}
    for line in rounds:
        assert {"own", "own again"} <= set(line["samples_ms"]) == set(line["order"])
        assert all(len(samples) in (6, 10) for samples in line["samples_ms"].values())

    again, from_file, _ = folder.helitune("validate", "--from-file", str(folder.run / "validation.jsonl"))
    assert again == 0 and from_file["verdicts"] == validated["verdicts"]

    status, pin, errors = folder.helitune("pin", "-o", "pins")
    assert status == 0, errors
    assert (pin["evidence"]["status"], pin["verified"]) == ("FASTER", True)
    assert pin["objective"]["name"] == "time" and pin["fingerprint"]["gpu"]["name"]
