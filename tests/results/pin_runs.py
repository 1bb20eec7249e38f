"""Runs on disk as `tune` leaves them, made by hand, for tests of pins that compile nothing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from helitune.objectives.artifact import Artifact
from helitune.objectives.check_result import CheckResult
from helitune.objectives.outcomes import Compiled, Failed
from helitune.results.run_directory import RunDirectory
from helitune.results.trial import Trial

ACF = b"an ACF, as far as anybody but ptxas can tell"
ACF_SHA256 = hashlib.sha256(ACF).hexdigest()
SOURCE = b"kernel = 'stands for the kernel file'\n"
FINGERPRINT = {
    "arch": "sm_90",
    "ptxas": {"version": "13.3.73", "sha256": "ab" * 32},
    "packages": {
        "helitune": "0.1.0",
        "torch": "2.13.0+cpu",
        "triton": "3.9.0",
        "helion": "1.5.1",
        "compileiq": "1.1.0",
    },
    "python": "3.11.7",
    "platform": "linux-x86_64",
}
CHECK = CheckResult(
    agrees=True,
    reference="file:softmax_reference",
    shapes=("f16[1024,640]",),
    rounds=("values 0",),
    message="softmax agrees with softmax_reference in Helion's interpreter",
    factors=(4,),
)
X = {"dtype": "f16", "shape": [4096, 2560], "strides": [2560, 1], "values": "normal"}


def artifact(code: str, **fields: Any) -> Artifact:
    """One launch whose code hash is made from `code`."""
    plain = Artifact(
        ptx_sha256=hashlib.sha256(b"ptx" + code.encode()).hexdigest(),
        code_sha256=hashlib.sha256(code.encode()).hexdigest(),
        registers=40,
        stack_bytes=0,
        spill_store_bytes=8,
        spill_load_bytes=16,
        shared_bytes=128,
        instructions=320,
        num_warps=4,
        grid=(4096, 1),
        histogram=((1, 320),),
        weights=((1, 1.0),),
        imbalance=1.0,
        underived=(),
        compile_s=0.2,
    )
    return replace(plain, **fields)


def trial(number: int, score: float, *, acf: bool = False, origin: str = "random", **config: Any) -> Trial:
    """A compiled trial with code of its own."""
    return Trial(
        number=number,
        id=f"{number:016x}",
        origin=origin,
        config={"block_sizes": [number], "num_warps": 4, **config},
        acf_sha256=ACF_SHA256 if acf else "",
        acf_name="first" if acf else "",
        outcome=Compiled(
            score=score, tie_breaker=score, values=(score,), artifacts=((artifact(f"code {number}"),),)
        ),
        elapsed_s=0.5,
        at_s=float(number),
    )


def failed(number: int, stage: str = "compile") -> Trial:
    """A trial that failed."""
    return replace(trial(number, 1.0), outcome=Failed(stage, "ptxas exit 255: it said no"))


OWN = trial(1, 200.0, origin="baseline own")
BETTER = trial(2, 100.0, acf=True)


def make_run(folder: Path, trials: list[Trial], **fields: Any) -> RunDirectory:
    """A finished run of `trials` in `folder`, with its kernel file and its ACF; `fields` replace run.json's."""
    path = folder / "20261201-101500-ab12"
    (path / "acfs").mkdir(parents=True)
    (path / "acfs" / f"{ACF_SHA256}.acf").write_bytes(ACF)
    (path / "trials.jsonl").touch()
    kernel_file = folder / "softmax.py"
    kernel_file.write_bytes(SOURCE)
    run = RunDirectory(path)
    run.write_run(_run_fields(kernel_file) | fields)
    run.lock()
    for one in trials:
        run.append(one)
    run.close()
    return run


def _run_fields(kernel_file: Path) -> dict[str, Any]:
    return {
        "created": "2026-12-01T10:15:00+0000",
        "request": {
            "file": str(kernel_file),
            "kernel": None,
            "reference": None,
            "args": ["f16[4096,2560]"],
            "target": "sm_90",
            "packs": [],
            "force": False,
            "settings": [],
            "strategy": "random",
            "objective": "issue_slots",
            "budget": 10,
            "time_s": None,
            "seed": 0,
            "jobs": 2,
            "compile_timeout_s": 30.0,
            "memory_bytes": 8 << 30,
            "ptxas": None,
        },
        "workload": {
            "file": str(kernel_file),
            "kernel": "softmax",
            "source_sha256": hashlib.sha256(SOURCE).hexdigest(),
            "reference": "file:softmax_reference",
            "inputs": "args",
            "seed": 0,
            "shapes": [[X]],
        },
        "evidence": "compiled",
        "fingerprint": FINGERPRINT,
        "acfs": [{"name": "first", "sha256": ACF_SHA256, "arch": ["sm_90"], "toolkit": "13.3"}],
        "check": CHECK.to_json(),
        "status": "done: the budget of 10 candidates is spent",
    }
