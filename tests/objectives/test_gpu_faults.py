"""A search that meets every fault on a real GPU: each ends as its stage, the search ends well, nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import until

from helitune.objectives.device import Device, find_device
from helitune.objectives.gpu.cases import SEED_STEP, SEEDS
from helitune.objectives.inputs_function import call_inputs
from helitune.objectives.kernel_file import load_kernel_file
from helitune.objectives.worker_pool import WorkerPool

HELITUNE = Path(sys.executable).parent / "helitune"
FILE = Path(__file__).parents[1] / "fixtures" / "kernels" / "gpu_faults.py"
WITHIN_S = 280.0
STAGES = {
    0: "",
    1: "",
    2: "illegal_access",
    3: "hang",
    4: "wrong_output",
    5: "wrong_output",
    6: "flaky_output",
    7: "illegal_access",
    8: "worker_died",
    9: "out_of_memory",
}
"""What each value of the kernel's `fault` comes to; 6 and 7 pass the search and fail their soak."""

AFTER_SOAK = {6, 7}
SAME_FOR_ALL = (
    "block_sizes=1024",
    "num_warps=4",
    "num_stages=1",
    "pid_type=flat",
    "num_sm_multiplier=1",
    "maxnreg=null",
    "indexing=pointer",
    "atomic_indexing=pointer",
    'load_eviction_policies=""',
    "host_tensor_descriptors=false",
    "range_unroll_factors=0",
    "range_multi_buffers=null",
    "range_flattens=null",
)
LEFT_BYTES = 32 << 20
"""More GPU memory than before by this much is a leak: a context alone takes hundreds of MB."""


@dataclass(frozen=True)
class Gpu:
    """The GPU under test, and how it was before."""

    device: Device
    used_before_bytes: int

    def is_clean(self) -> bool:
        return used_bytes(self.device) <= self.used_before_bytes + LEFT_BYTES


def used_bytes(device: Device) -> int:
    """Bytes of the GPU's memory that anybody uses, as its driver counts them."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(device.uuid)
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    finally:
        pynvml.nvmlShutdown()


@pytest.fixture
def gpu() -> Gpu:
    device = find_device()
    if device is None:
        pytest.skip("kernels that crash must run: this machine has no NVIDIA GPU")
    return Gpu(device, used_bytes(device))


@dataclass(frozen=True)
class Search:
    """A `helitune tune` of the faulty kernel in a folder of its own, whose processes know each other by it."""

    folder: Path

    def start(self, *faults: int) -> subprocess.Popen[str]:
        settings = [f"fault={','.join(map(str, faults))}", *SAME_FOR_ALL]
        options = [argument for setting in settings for argument in ("--set", setting)]
        return subprocess.Popen(
            [str(HELITUNE), "tune", str(FILE), "--strategy", "grid", *options],
            cwd=self.folder,
            env={**os.environ, "HELITUNE_CACHE_DIR": str(self.folder / "cache")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self) -> list[int]:
        """Everything alive that this search started, whoever its parent is by now."""
        marked = f"HELITUNE_CACHE_DIR={self.folder / 'cache'}\0".encode()
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and marked in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def trials(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in self._files("trials.jsonl") for line in path.open()]

    def run(self) -> dict[str, Any]:
        (path,) = self._files("run.json")
        read: dict[str, Any] = json.loads(path.read_text())
        return read

    def _files(self, name: str) -> list[Path]:
        return list(self.folder.glob(f".helitune/runs/*/{name}"))


@pytest.fixture
def search(tmp_path: Path) -> Iterator[Search]:
    search = Search(tmp_path)
    yield search
    for left in search.processes():
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def stage_of_each_fault(search: Search) -> dict[int, str]:
    """The stage of every candidate by its fault: the one its soak found where it came that far."""
    finals = {final["trial"]: final["stage"] for final in search.run()["finals"]}
    trials = [trial for trial in search.trials() if trial["origin"] in ("baseline own", "grid")]
    return {trial["config"]["fault"]: finals.get(trial["id"]) or trial.get("stage", "") for trial in trials}


@pytest.mark.gpu
class TestOnTheGpu:
    def test_every_fault_ends_as_its_stage_and_costs_one_candidate(self, gpu: Gpu, search: Search) -> None:
        with search.start(*STAGES) as tuning:
            said, _ = tuning.communicate(timeout=WITHIN_S)
        print(said)
        # 1 where the other right candidate is no faster than the own config
        assert tuning.returncode in (0, 1) and "Traceback" not in said
        assert search.run()["status"] == "done: the strategy has nothing left to propose"
        assert stage_of_each_fault(search) == STAGES
        failed_in_search = {t["config"]["fault"] for t in search.trials() if t["outcome"] == "failed"}
        assert failed_in_search == {fault for fault, stage in STAGES.items() if stage} - AFTER_SOAK
        # the store, the loop and the crash: a process each, and no more
        assert search.run()["gpu_process"]["replaced"] == 3
        assert until(lambda: not search.processes(), 10)
        assert until(gpu.is_clean, 20), f"{used_bytes(gpu.device) - gpu.used_before_bytes:,} bytes are left"

    def test_the_right_candidate_is_what_counts_in_the_end(self, gpu: Gpu, search: Search) -> None:
        with search.start(0, 1, 6, 7) as tuning:
            print(tuning.communicate(timeout=WITHIN_S)[0])
        ids = {trial["id"]: trial["config"]["fault"] for trial in search.trials()}
        finals = {ids[final["trial"]]: final for final in search.run()["finals"]}
        assert {fault: final["stage"] for fault, final in finals.items() if fault in AFTER_SOAK} == {
            6: "flaky_output",
            7: "illegal_access",
        }
        assert "repeat 21 of 100" in finals[6]["message"]
        (times,) = finals[1]["shapes"]
        assert len(times["ratios"]) == 16 and 0.8 < times["ratios"][0] < 1.25

    def test_a_search_that_is_killed_in_a_loop_leaves_the_gpu_as_it_was(
        self, gpu: Gpu, search: Search
    ) -> None:
        with search.start(3) as tuning:
            # the own config and Helion's default are timed: what runs then is the loop
            assert until(lambda: len(search.trials()) == 2, 120)
            assert not until(lambda: tuning.poll() is not None, 3)
            started = search.processes()
            tuning.kill()
        assert len(started) >= 3
        assert until(lambda: not search.processes(), 20)
        assert until(gpu.is_clean, 20), f"{used_bytes(gpu.device) - gpu.used_before_bytes:,} bytes are left"


@pytest.mark.slow
class TestTheFaultyKernel:
    """What the tests on a GPU rely on, as far as no GPU is needed for it."""

    def test_every_fault_compiles_and_has_code_of_its_own(
        self, start_pool: Callable[..., WorkerPool]
    ) -> None:
        pool = start_pool(FILE)
        own = pool.call("describe", timeout_s=120.0).baselines[0].config
        assert own["fault"] == 0
        launches = [pool.call("build", {**own, "fault": fault}, 0, timeout_s=60.0) for fault in STAGES]
        assert {len(made) for made in launches} == {1}
        assert len({made[0].ptx_sha256 for made in launches}) == len(STAGES)

    def test_the_rare_value_is_in_the_soak_s_inputs_and_in_none_of_the_check_s(self) -> None:
        module = load_kernel_file(FILE)
        rare = [draw for draw in range(SEEDS + 100) if module.is_rare(SEED_STEP * draw)]
        assert rare == [SEEDS + 20]

        def holds(draw: int) -> bool:
            x: torch.Tensor = call_inputs(module.inputs, device="cpu", seed=SEED_STEP * draw, file=FILE)
            return bool((x == module.RARE).any()) and float(x.abs().max()) == module.RARE

        assert [holds(draw) for draw in (*range(SEEDS), rare[0])] == [False] * SEEDS + [True]
