"""A search that meets every fault on a real GPU: each ends as its stage, the search ends well, nothing is left."""

from __future__ import annotations

import json
import os
import signal
import statistics
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

# a GPU host may have the packages on PYTHONPATH alone, without the script
HELITUNE = [sys.executable, "-P", "-c", "from helitune.cli.main import run; run()"]
FILE = Path(__file__).parents[1] / "fixtures" / "kernels" / "gpu_faults.py"
WITHIN_S = 400.0
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


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    device = find_device()
    if device is None:
        pytest.skip("kernels that crash must run: this machine has no NVIDIA GPU")
    return Gpu(device, used_bytes(device))


@dataclass(frozen=True)
class Search:
    """A `helitune tune` of the faulty kernel in a folder of its own, by which all its processes are known."""

    folder: Path

    def start(self, *faults: int) -> subprocess.Popen[str]:
        settings = [f"fault={','.join(map(str, faults))}", *SAME_FOR_ALL]
        options = [argument for setting in settings for argument in ("--set", setting)]
        return subprocess.Popen(
            [*HELITUNE, "tune", str(FILE), "--strategy", "grid", *options],
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
        """Those on disk; a last line may be half written."""
        lines = [line for path in self._files("trials.jsonl") for line in path.read_text().split("\n")[:-1]]
        return list(map(json.loads, lines))

    def run(self) -> dict[str, Any]:
        (path,) = self._files("run.json")
        read: dict[str, Any] = json.loads(path.read_text())
        return read

    def faults(self) -> dict[str, int]:
        """The `fault` of the own config and of each candidate, by its trial's id."""
        return {
            t["id"]: t["config"]["fault"] for t in self.trials() if t["origin"] in ("baseline own", "grid")
        }

    def finals(self) -> dict[int, dict[str, Any]]:
        """What the finalists came to, by their `fault`."""
        faults = self.faults()
        return {faults[final["trial"]]: final for final in self.run()["finals"] if final["trial"] in faults}

    def kill(self) -> None:
        for left in self.processes():
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)

    def _files(self, name: str) -> list[Path]:
        return list(self.folder.glob(f".helitune/runs/*/{name}"))


@pytest.fixture
def search(tmp_path: Path) -> Iterator[Search]:
    search = Search(tmp_path)
    yield search
    search.kill()


@dataclass(frozen=True)
class Ended:
    """A search of every fault that has ended, and what it said."""

    search: Search
    returncode: int
    said: str


@pytest.fixture(scope="module")
def ended(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    search = Search(tmp_path_factory.mktemp("faults"))
    try:
        tuning = search.start(*STAGES)
        said, _ = tuning.communicate(timeout=WITHIN_S)
        print(said)
        yield Ended(search, tuning.returncode, said)
    finally:
        search.kill()


@pytest.mark.gpu
@pytest.mark.timeout(WITHIN_S + 60)
class TestASearchOfAllFaults:
    def test_it_ends_well(self, ended: Ended) -> None:
        # 1 where the other right candidate is no faster than the own config
        assert ended.returncode in (0, 1), ended.said
        assert "Traceback" not in ended.said
        assert ended.search.run()["status"] == "done: the strategy has nothing left to propose"

    def test_nothing_is_left_of_it(self, ended: Ended, gpu: Gpu) -> None:
        assert until(lambda: not ended.search.processes(), 10)
        assert until(gpu.is_clean, 20), f"{used_bytes(gpu.device) - gpu.used_before_bytes:,} bytes are left"

    def test_each_fault_ends_as_its_stage(self, ended: Ended) -> None:
        trials = {trial["id"]: trial for trial in ended.search.trials()}
        stages = {fault: trials[id_].get("stage", "") for id_, fault in ended.search.faults().items()}
        assert stages == {**STAGES, **dict.fromkeys(AFTER_SOAK, "")}
        finals = ended.search.finals()
        assert {fault: finals[fault]["stage"] for fault in AFTER_SOAK} == {
            fault: STAGES[fault] for fault in AFTER_SOAK
        }

    def test_only_what_ends_a_process_costs_one(self, ended: Ended) -> None:
        # the store, the loop and the crash, in the search; the soak comes later
        assert ended.search.run()["gpu_process"]["replaced"] == 3

    def test_what_is_wrong_sometimes_is_found_where_it_is(self, ended: Ended) -> None:
        assert "repeat 21 of 100" in ended.search.finals()[6]["message"]

    def test_the_right_candidate_is_soaked_and_measured_beside_them(self, ended: Ended) -> None:
        right = ended.search.finals()[1]
        (times,) = right["shapes"]
        assert right["soak_repeats"] == 100 and len(times["ratios"]) == 16
        # it does the own config's work: the processes lost before it did not spoil its times
        assert 0.8 < statistics.median(times["ratios"]) < 1.25


@pytest.mark.gpu
@pytest.mark.timeout(WITHIN_S)
def test_a_search_that_is_killed_in_a_loop_leaves_the_gpu_as_it_was(gpu: Gpu, search: Search) -> None:
    tuning = search.start(3)
    # the own config and Helion's default are timed: what runs then is the loop
    assert until(lambda: len(search.trials()) == 2, 120)
    assert not until(lambda: tuning.poll() is not None, 3)
    assert len(search.processes()) >= 3
    tuning.kill()
    tuning.communicate()
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
