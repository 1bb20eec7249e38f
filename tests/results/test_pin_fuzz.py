"""Ten thousand mutated pins, through every reader of pins: no traceback, no file elsewhere, no memory without end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, FINGERPRINT, OWN, SOURCE, make_run

from helitune.results.pin import pin_text
from helitune.results.pin_choice import make_pin
from helitune.search.args import parse_args

RUNNER = Path(__file__).parents[1] / "fixtures" / "pins" / "fuzz_runner.py"
MUTANTS = 10_000
SEED = 20261129


@pytest.mark.slow
def test_no_mutant_breaks_a_reader(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [OWN, BETTER])
    pin = make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)
    base = tmp_path / "root" / "base"
    base.mkdir(parents=True)
    many = replace(pin, acf=None, shapes=(parse_args("f16[8,4]{1,8} 1e-5 None 'text'"), parse_args("f16[8]")))
    measured = replace(pin, fingerprint={**FINGERPRINT, "gpu": {"name": "NVIDIA H200"}})
    for number, one in enumerate((pin, many, measured)):
        (base / f"{number}.json").write_text(pin_text(one))
    (base / f"{ACF_SHA256}.acf").write_bytes(ACF)
    (base / "softmax.py").write_bytes(SOURCE)
    before = {path.name for path in tmp_path.iterdir()}
    child = subprocess.run(
        [sys.executable, str(RUNNER), str(tmp_path / "root"), str(SEED), str(MUTANTS)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "HELITUNE_CACHE_DIR": str(tmp_path / "root" / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert child.returncode == 0, child.stderr[-2000:]
    answer = json.loads(child.stdout.splitlines()[-1])
    assert answer["broken"] == [] and answer["foreign"] == []
    assert sum(answer["found"].values()) == MUTANTS
    # both ways are worth the name: many mutants are refused, and many get as far as the generated files
    assert answer["found"]["refused"] > MUTANTS / 4 and answer["found"]["accepted"] > MUTANTS / 20
    assert answer["peak_bytes"] < 400 << 20
    assert {path.name for path in tmp_path.iterdir()} == before
