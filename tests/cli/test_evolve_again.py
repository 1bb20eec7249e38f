"""The same search again, on another toolchain."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from helitune.acfs.errors import InputError
from helitune.acfs.ptxas import Ptxas, toolkit
from helitune.acfs.search_space import FOLDER_VARIABLE
from helitune.cli.evolve_command import same_search
from helitune.results.evolution_request import EvolutionRequest
from helitune.results.request import TuneRequest
from helitune.results.run_directory import RUNS

BEFORE = EvolutionRequest("auto", "/old/ptxas13.2.bin", "ab" * 32, '{"num_warps":4}', "a file", 3, 9)
REQUEST = TuneRequest(
    file="/kernels/softmax.py",
    kernel="softmax",
    reference=None,
    args=("f16[8,8]",),
    target="sm_90",
    packs=(),
    force=False,
    settings=(),
    strategy="compileiq",
    objective="time",
    budget=81,
    time_s=None,
    seed=3,
    jobs=64,
    compile_timeout_s=10.0,
    memory_bytes=8 << 30,
    ptxas="/old/ptxas",
    device="0",
    warm_start=("/runs/old",),
    evolution=BEFORE,
)
CHANGES: dict[str, Any] = {"ptxas": None, "target": "auto", "device": "auto", "jobs": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ptxas: Ptxas) -> Path:
    """A working folder with a run, and CompileIQ's space for the ptxas in use in a mirror."""
    content = b"opaque"
    entry = {
        "compiler": "ptxas",
        "compiler_version": toolkit(ptxas.version),
        "filename": "new.bin",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }
    manifest = {"manifest_format": "1.0.0", "tag": "t", "generated_at": "now", "entries": [entry]}
    (tmp_path / "new.bin").write_bytes(content)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def leave_run(folder: Path, request: TuneRequest) -> None:
    path = folder / RUNS / "20261201-101500-ab12"
    path.mkdir(parents=True)
    fields = {
        "format": 1,
        "created": "then",
        "evidence": "measured",
        "status": "done",
        "request": request.to_json(),
        "workload": {
            "file": request.file,
            "kernel": "softmax",
            "source_sha256": "ab" * 32,
            "reference": "self",
            "inputs": "args",
            "seed": 0,
            "shapes": [[{"dtype": "f16", "shape": [8], "strides": [1], "values": "normal"}]],
        },
        "fingerprint": {
            "arch": "sm_90",
            "packages": {},
            "ptxas": {"version": "13.2.1", "sha256": "ab" * 32},
        },
        "acfs": [],
    }
    (path / "run.json").write_text(json.dumps(fields))


def test_the_search_is_the_same_in_the_space_of_this_ptxas(folder: Path) -> None:
    leave_run(folder, REQUEST)
    again = same_search("", None, CHANGES)
    assert again.evolution is not None
    new = asdict(again.evolution)
    changed = {key for key, value in asdict(BEFORE).items() if new[key] != value}
    assert changed == {"path", "sha256"} and new["path"] == str(folder / "new.bin")
    assert (again.file, again.args, again.seed, again.budget) == (REQUEST.file, REQUEST.args, 3, 81)
    # what belonged to the old machine is found out anew
    assert (again.ptxas, again.target, again.device, again.objective) == (None, "auto", "auto", "auto")
    assert (again.compile_timeout_s, again.warm_start) == (0.0, ())


def test_a_space_may_be_named(folder: Path) -> None:
    leave_run(folder, REQUEST)
    (folder / "named.bin").write_bytes(b"another")
    again = same_search("", "named.bin", CHANGES)
    assert again.evolution is not None and again.evolution.path == str(folder / "named.bin")


def test_a_run_that_bred_nothing_cannot_be_evolved_again(folder: Path) -> None:
    leave_run(folder, replace(REQUEST, evolution=None))
    with pytest.raises(InputError, match="did not evolve"):
        same_search("", None, CHANGES)
