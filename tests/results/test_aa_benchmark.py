"""benchmarks/aa_gate.py on stand-ins: the baseline in disguise goes through the whole gate and is not accepted."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from validation_runs import FLOOR, Gpu

from helitune.results.validation_file import read_validations
from helitune.results.validation_verdict import judge
from helitune.results.verdict import Status

FILE = Path(__file__).parents[2] / "benchmarks" / "aa_gate.py"


@pytest.fixture(scope="module")
def aa_gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("aa_gate", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["aa_gate"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def processes(aa_gate: ModuleType, sd: float, gain: float = 0.0) -> list[Any]:
    """Two processes in which every arm of a placement is off by its own offset; candidate 3 is faster by `gain`."""

    class Placed(Gpu):
        def stand_arms(self, builds: Any) -> Any:
            self.offsets = {name: self.rng.gauss(0, sd) for name in builds}
            self.offsets["candidate 3"] -= gain
            return super().stand_arms(builds)

    return [aa_gate.Process(Placed({"own": [0.02]}, number), "own", number) for number in (1, 2)]


def test_the_baseline_in_disguise_is_judged_by_its_times_and_not_accepted(
    aa_gate: ModuleType, tmp_path: Path
) -> None:
    lines: list[Any] = []
    outcome = aa_gate.Outcome("memory bound")
    runs = processes(aa_gate, 0.0007)
    for seed in range(2):
        outcome.add(*aa_gate.family(runs, 8, seed, FLOOR, lines.append))
    assert sum(outcome.statuses.values()) == 16
    assert not outcome.statuses[Status.FASTER] and not outcome.statuses[Status.NO_OP]
    assert outcome.statuses[Status.SAME] > 10 and outcome.row().count("|") == 10
    file = tmp_path / "rounds.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = [finding.whole.status for one in read_validations(file) for finding in judge(one)]
    assert len(again) == 16 and Status.FASTER not in again


def test_one_that_is_faster_would_be_seen(aa_gate: ModuleType) -> None:
    findings, _ = aa_gate.family(processes(aa_gate, 0.0005, gain=0.03), 8, 0, FLOOR, lambda line: None)
    assert [f.finalist.number for f in findings if f.whole.accepted] == [3]
