"""`helitune pin` on a real run: what it writes compiles to the run's code, with helitune and without."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from validation_runs import DEVICE

from helitune.acfs.ptxas import Ptxas
from helitune.results.pin import read_pin
from helitune.results.verdict import Numbers, Reason, Status, Verdict

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "pins"
HELITUNE = str(Path(sys.executable).with_name("helitune"))
TUNE = [
    *("--args", "f16[1024,2560]", "--acf-pack", "h200-seed", "--strategy", "random", "--seed", "1"),
    *("--budget", "8", "--set", "num_warps=4,8", "--set", "block_sizes=1", "--set", "pid_type=flat"),
]
PINS = "pins/row_softmax/sm_90"
STEM = "f16_1024x2560_v1p0"


@dataclass
class Workspace:
    """A folder with a kernel file and a finished run."""

    folder: Path

    def helitune(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([HELITUNE, *arguments], cwd=self.folder, capture_output=True, text=True)

    def pin(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.helitune("pin", "--allow", "compiled", *arguments)

    @property
    def run(self) -> Path:
        return next(self.folder.glob(".helitune/runs/*"))

    @property
    def kernel_file(self) -> Path:
        return self.folder / "row_softmax.py"

    def trials(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run / "trials.jsonl").read_text().splitlines()]

    def write_trials(self, trials: list[dict[str, Any]]) -> None:
        (self.run / "trials.jsonl").write_text("".join(json.dumps(t) + "\n" for t in trials))


def tuned(folder: Path) -> Workspace:
    space = Workspace(folder)
    shutil.copy(FIXTURES / "row_softmax.py", space.kernel_file)
    done = space.helitune("tune", "row_softmax.py", "--quiet", *TUNE)
    assert done.returncode == 0, done.stderr
    return space


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A tuned and pinned workspace; not to be changed."""
    space = tuned(tmp_path_factory.mktemp("original"))
    done = space.pin()
    assert done.returncode == 0, done.stderr
    return space


@pytest.fixture
def workspace(original: Workspace, tmp_path: Path) -> Workspace:
    """A copy of the original, without pins, to be spoiled."""
    shutil.copytree(original.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("pins"))
    space = Workspace(tmp_path / "copy")
    run_json = space.run / "run.json"
    run_json.write_text(run_json.read_text().replace(str(original.folder), str(space.folder)))
    return space


@pytest.fixture
def code_without_helitune(ptxas: Ptxas, tmp_path: Path) -> Callable[..., list[list[str]]]:
    """A function: the code hashes of a form, from a process that cannot import helitune."""

    def run(space: Workspace, pin_json: Path, form: Path) -> list[list[str]]:
        script = str(FIXTURES / "plain_helion.py")
        arguments = [str(space.kernel_file), "row_softmax", str(pin_json), str(form)]
        child = subprocess.run(
            [sys.executable, "-I", script, *arguments, str(ROOT / "objectives" / "elf.py")],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "TRITON_PTXAS_PATH": str(ptxas.path),
                "TRITON_PTXAS_BLACKWELL_PATH": str(ptxas.path),
                "TRITON_CACHE_DIR": str(tmp_path / "triton"),
                "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
            },
        )
        assert child.returncode == 0, child.stderr
        hashes: list[list[str]] = json.loads(child.stdout.splitlines()[-1])
        return hashes

    return run


def pinned_code(path: Path) -> list[list[str]]:
    return [[launch.split(":")[0] for launch in shape] for shape in read_pin(path).code]


def test_a_process_without_helitune_gets_the_same_code(
    original: Workspace, code_without_helitune: Callable[..., list[list[str]]]
) -> None:
    folder = original.folder / PINS
    pin = read_pin(folder / f"{STEM}.json")
    assert pin.acf is not None, "the run this test stands on found its best with an ACF"
    expected = pinned_code(folder / f"{STEM}.json")
    assert (
        code_without_helitune(original, folder / f"{STEM}.json", folder / f"{STEM}.helion.json") == expected
    )
    best = next(t for t in original.trials() if t["id"] == pin.run["trial"])
    assert expected == [[a["code_sha256"] for a in shape] for shape in best["artifacts"]]


def test_the_python_form_survives_a_move_into_white_space(
    original: Workspace, tmp_path: Path, code_without_helitune: Callable[..., list[list[str]]]
) -> None:
    moved = tmp_path / "my pins"
    shutil.copytree(original.folder / PINS, moved)
    hashes = code_without_helitune(original, moved / f"{STEM}.json", moved / f"{STEM}.py")
    assert hashes == pinned_code(moved / f"{STEM}.json")


def test_without_its_acf_the_code_would_be_another(
    original: Workspace, tmp_path: Path, code_without_helitune: Callable[..., list[list[str]]]
) -> None:
    folder = original.folder / PINS
    config = json.loads((folder / f"{STEM}.helion.json").read_text())
    del config["advanced_controls_file"]
    (tmp_path / "plain.json").write_text(json.dumps(config))
    hashes = code_without_helitune(original, folder / f"{STEM}.json", tmp_path / "plain.json")
    assert hashes != pinned_code(folder / f"{STEM}.json")


def test_the_helion_form_is_what_helion_writes(original: Workspace, tmp_path: Path) -> None:
    import helion

    form = original.folder / PINS / f"{STEM}.helion.json"
    helion.Config.load(form).save(tmp_path / "again.json")
    assert form.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_it_leaves_nothing_but_the_pin(original: Workspace) -> None:
    acf = read_pin(original.folder / PINS / f"{STEM}.json").acf
    assert acf is not None
    found = {path.name for path in (original.folder / PINS).iterdir()}
    assert found == {f"{STEM}.json", f"{STEM}.helion.json", f"{STEM}.py", acf.file, "NOTICE"}


def test_what_it_prints(workspace: Workspace, ptxas: Ptxas) -> None:
    done = workspace.pin("-o", "out")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"out/row_softmax/sm_90/{STEM}.json"
    identity = read_pin(workspace.folder / lines[0]).identity()
    assert re.search(rf"^  identity +{identity}$", done.stdout, re.MULTILINE)
    assert re.search(r"^  evidence +compiled: issue_slots .* cycles.*no run time", done.stdout, re.MULTILINE)
    assert "speedup" not in done.stdout.lower()
    assert re.search(
        rf"^  needs .* set to a ptxas 13\.\d+\.\d+, here {ptxas.path}$", done.stdout, re.MULTILINE
    )
    assert f"{STEM}.helion.json holds the ACF's absolute path" in done.stdout
    assert "where it differs from the kernel's own: " in done.stdout and "full config in" in done.stdout
    assert "(scaled down)" in done.stdout


def test_the_same_seed_gives_the_same_pin(original: Workspace, tmp_path: Path) -> None:
    again = tuned(tmp_path)
    done = again.pin("--json")
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((s.folder / PINS / f"{STEM}.json").read_text()) for s in (original, again))
    assert json.loads(done.stdout)["identity"] == first["identity"]
    for pin in (first, second):
        del pin["run"]["id"], pin["run"]["created"]
    assert second == first


def test_drift_is_a_negative_verdict_and_leaves_the_older_pin(
    original: Workspace, workspace: Workspace
) -> None:
    shutil.copytree(original.folder / "pins", workspace.folder / "pins")
    before = {p.name: p.read_bytes() for p in (workspace.folder / PINS).iterdir()}
    trials = workspace.trials()
    for trial in trials:
        for shape in trial.get("artifacts", []):
            shape[0]["code_sha256"] = "0" * 64
    workspace.write_trials(trials)
    done = workspace.pin()
    assert done.returncode == 1 and "drift: it compiles to other code than in the run" in done.stderr
    assert {p.name: p.read_bytes() for p in (workspace.folder / PINS).iterdir()} == before
    fresh = workspace.pin("-o", "fresh", "--json")
    assert fresh.returncode == 1 and json.loads(fresh.stdout)["exit_code"] == 1
    assert not (workspace.folder / "fresh").exists()


def test_an_acf_that_changes_nothing_is_not_pinned(workspace: Workspace) -> None:
    trials = workspace.trials()
    plain = next(t for t in trials if t["outcome"] == "compiled" and t["origin"] == "baseline own")
    with_acf = next(t for t in trials if t["outcome"] == "compiled" and t["acf"])
    # the own config's code under an ACF's name: what a NO_OP ACF leaves in a run
    no_op = {
        **with_acf,
        "config": plain["config"],
        "artifacts": plain["artifacts"],
        "score": plain["score"] - 1,
    }
    workspace.write_trials([plain, no_op])
    done = workspace.pin("--json")
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    assert fields["acf"] is None and any("NO_OP" in note for note in fields["notes"])
    assert not list((workspace.folder / PINS).glob("*.acf"))
    assert not (workspace.folder / PINS / "NOTICE").exists()


def test_a_changed_kernel_file_is_refused(workspace: Workspace) -> None:
    workspace.kernel_file.write_text(workspace.kernel_file.read_text() + "\n")
    done = workspace.pin()
    assert done.returncode == 2
    assert "has changed since the run" in done.stderr and str(workspace.kernel_file) in done.stderr
    workspace.kernel_file.unlink()
    done = workspace.pin()
    assert done.returncode == 2 and str(workspace.kernel_file) in done.stderr
    assert not (workspace.folder / "pins").exists()


def test_a_validated_run_is_pinned_for_the_gpu_that_measured_it(workspace: Workspace) -> None:
    as_measured(workspace, "NVIDIA H199")
    done = workspace.helitune("pin", "--json")
    assert done.returncode == 0, done.stderr
    pin = json.loads(done.stdout)
    assert (pin["evidence"]["status"], pin["evidence"]["speedup"]) == ("FASTER", 1.25)
    assert pin["objective"]["pin"]["values"] == [8.0] and pin["objective"]["unit"] == "us"
    assert pin["fingerprint"]["gpu"] == {"name": "NVIDIA H199", "driver": "580.1"} and not pin["notes"]
    # the form compares the GPU's name, and was verified: compiled for that GPU, not for its architecture's table
    assert "NVIDIA H199" in (workspace.folder / PINS / f"{STEM}.py").read_text()


def as_measured(workspace: Workspace, gpu: str) -> None:
    """Make the run one that was measured and validated on a GPU of that name, with one finalist."""
    best = next(t for t in workspace.trials() if t["outcome"] == "compiled" and t["acf"])
    verdict = Verdict(
        Status.FASTER,
        Reason.ABOVE_FLOOR,
        "strict",
        Numbers(speedup=1.25, low=1.24, high=1.26, runs=2, rounds=10),
    ).to_record()
    of_trial = {"trial": best["id"], "number": best["number"], "acf": "acf", **verdict}
    on_shape = {"shape": 0, "ms": 0.008, "base_ms": 0.01, "detail": "", "over_plain": None}
    run_json = workspace.run / "run.json"
    fields = json.loads(run_json.read_text())
    fields |= {
        "evidence": "measured",
        "device": {**DEVICE, "name": gpu},
        "verdicts": [of_trial | on_shape],
        "validation": {
            **{"when": "2026-12-01T10:15:00+0000", "gate": "strict", "number": 1, "runs": 2, "floor": {}},
            **{"shapes": ["f16[1024,2560]"], "calibration": None, "whole": [of_trial | {"over_plain": []}]},
        },
    }
    fields["fingerprint"]["gpu"] = {"name": gpu, "driver": "580.1"}
    run_json.write_text(json.dumps(fields))


def test_an_unfinished_run_is_pinned_and_says_so(workspace: Workspace) -> None:
    fields = json.loads((workspace.run / "run.json").read_text())
    (workspace.run / "run.json").write_text(json.dumps(fields | {"status": "interrupted"}))
    with (workspace.run / "trials.jsonl").open("a") as trials:
        trials.write('{"format": 1, "number": 99, "id')  # a line that a kill left half written
    done = workspace.pin()
    assert done.returncode == 0, done.stderr
    assert "the run is not finished (interrupted)" in done.stdout


def test_another_ptxas_is_drift_not_a_traceback(workspace: Workspace, tmp_path: Path, ptxas: Ptxas) -> None:
    refusing = tmp_path / "ptxas"
    refusing.write_text(
        f'#!/bin/sh\ncase "$*" in\n*--version*) exec {ptxas.path} "$@";;\n'
        "*) echo 'ptxas fatal: Invalid compiler controls file' >&2; exit 255;;\nesac\n"
    )
    refusing.chmod(0o755)
    done = workspace.pin("--ptxas", str(refusing))
    assert done.returncode == 1, done.stderr
    assert "drift: it does not compile" in done.stderr and "Traceback" not in done.stderr
    assert "changed since the run: ptxas.sha256" in done.stderr
    assert not (workspace.folder / "pins").exists()
