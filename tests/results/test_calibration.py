"""The machine's A/A distribution: measured on stand-ins, kept by what it belongs to, read back or not believed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from validation_runs import DEVICE, OWN_TRIAL, Gpu

from helitune.acfs.errors import MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.calibration_kernels import KERNELS
from helitune.objectives.device import Device
from helitune.objectives.outcomes import Failed
from helitune.objectives.times import Tried
from helitune.results.calibrate_run import FULL, SHORT, Amount, calibrate
from helitune.results.calibration import (
    Calibration,
    Rebuilt,
    Setting,
    calibration_path,
    load_calibration,
    save_calibration,
)
from helitune.results.request import TuneRequest
from helitune.results.thresholds import STRICT

SETTING = Setting.of(
    Device.from_json(DEVICE),
    Ptxas(Path("ptxas"), "13.3.73", "ab" * 32),
    timing="graph",
    cache="cold",
    clocks="free",
)
REQUEST = TuneRequest(
    file="",
    kernel=None,
    reference=None,
    args=("f16[8]",),
    target="auto",
    packs=("pack",),
    force=False,
    settings=("num_warps=4",),
    strategy="grid",
    objective="time",
    budget=0,
    time_s=None,
    seed=3,
    jobs=2,
    compile_timeout_s=30.0,
    memory_bytes=8 << 30,
    ptxas=None,
)


class Machine:
    """Starts sessions of calibration kernels on stand-ins, whose offsets are drawn anew for every placement."""

    def __init__(self, offset_sd: float = 0.0, **gpu: Any) -> None:
        self.requests: list[TuneRequest] = []
        self.gpus: list[Gpu] = []
        self.compiled: Any = OWN_TRIAL.compiled
        self._offset_sd, self._gpu = offset_sd, gpu

    @contextmanager
    def start(self, request: TuneRequest) -> Iterator[Any]:
        class Placed(Gpu):
            def place(self, seed: int) -> tuple[int, ...]:
                self.offsets = {"own again": self.rng.gauss(0, offset_sd)}
                return super().place(seed)

        offset_sd = self._offset_sd
        self.requests.append(request)
        self.gpus.append(Placed(**{"ms": {"own": [0.02]}, "seed": len(self.gpus), **self._gpu}))
        yield SimpleNamespace(
            gpu=self.gpus[-1],
            request=request,
            baselines=[SimpleNamespace(candidate="own")],
            compiled=SimpleNamespace(evaluate=lambda one: self.compiled, build=lambda one: "own"),
            stop_compiling=lambda: None,
        )


def made(machine: Machine, amount: Amount = SHORT) -> Calibration:
    return calibrate(REQUEST, SETTING, machine.start, lambda text: None, amount)


def test_every_kernel_is_rebuilt_and_placed_anew_each_time() -> None:
    machine = Machine()
    calibration = made(machine)
    assert [Path(request.file) for request in machine.requests] == list(KERNELS)
    assert all(not (r.args or r.packs or r.settings) and r.seed == 3 for r in machine.requests)
    assert [gpu.asked.count("place") for gpu in machine.gpus] == [7, 7, 7]
    assert [gpu.asked.count("stand_arms") for gpu in machine.gpus] == [7, 7, 7]
    assert {name: len(rebuilt) for name, rebuilt in calibration.kernels()} == {
        path.stem: 7 for path in KERNELS
    }
    assert {len(one.log_ratios) for one in calibration.rebuilt} == {SHORT.rounds}


def test_a_full_one_takes_several_processes_and_enough_baselines_for_the_gate() -> None:
    machine = Machine()
    calibration = made(machine, replace(FULL, rounds=4))
    assert len(machine.gpus) == 2 * len(KERNELS)
    assert {one.process for one in calibration.rebuilt} == {1, 2}
    assert len(calibration.rebuilt) == FULL.offsets == 30
    assert SHORT.offsets >= STRICT.min_offsets


def test_the_floor_is_that_of_the_offsets_and_not_of_the_rounds() -> None:
    floor = made(Machine(offset_sd=0.004), Amount(30, 1, 16)).floor()
    assert floor.offsets == 90 and math.sqrt(floor.offset_variance) == pytest.approx(0.004, rel=0.3)
    assert floor.quantile95 == pytest.approx(1.96 * 0.004, rel=0.3)
    quiet = made(Machine(offset_sd=0.0), Amount(30, 1, 16)).floor()
    assert math.sqrt(quiet.offset_variance) < 0.0005


@pytest.mark.parametrize("fails", ["compile", "wrong", "launch"])
def test_a_kernel_that_does_not_run_is_the_machines_fault(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(wrong="off by one" if fails == "wrong" else "")
    if fails == "compile":
        machine.compiled = Failed("compile", "ptxas said no")
    if fails == "launch":
        monkeypatch.setattr(Gpu, "use_own", lambda self, own: Tried(stage="launch", message="no"))
    with pytest.raises(MachineError, match="a calibration kernel"):
        made(machine)


CALIBRATION = Calibration(
    SETTING,
    "2026-12-01T10:15:00+0000",
    (Rebuilt("memory_bound", 1, (0.001, -0.002)), Rebuilt("memory_bound", 1, (0.003, 0.001))),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_it_is_kept_and_found_again(cache: Path) -> None:
    assert load_calibration(SETTING) is None
    path = save_calibration(CALIBRATION)
    assert path == calibration_path(SETTING) and path.is_relative_to(cache) and "h200" in path.name
    assert load_calibration(SETTING) == CALIBRATION


@pytest.mark.parametrize("field", list(Setting.__dataclass_fields__))
def test_it_holds_for_its_own_setting_only(field: str) -> None:
    save_calibration(CALIBRATION)
    assert load_calibration(replace(SETTING, **{field: "another"})) is None


@pytest.mark.parametrize(
    "edit",
    [
        {"format": 99},
        {"rebuilt": []},
        {"rebuilt": [{"kernel": "x", "process": 1, "log_ratios": [0.1]}]},
        {"rebuilt": [{"kernel": "x", "process": 1, "log_ratios": [0.1, float("inf")]}]},
        {"setting": {}},
        None,
    ],
)
def test_a_broken_one_is_not_believed(edit: dict[str, Any] | None) -> None:
    path = save_calibration(CALIBRATION)
    path.write_text("[" if edit is None else json.dumps({**CALIBRATION.to_json(), **edit}))
    assert load_calibration(SETTING) is None
