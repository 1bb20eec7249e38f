"""Measured or compiled, and for what: what a request comes to on machines with and without a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_request import REQUEST

from helitune.acfs.errors import InputError, MachineError
from helitune.objectives.device import Device
from helitune.objectives.targets import TARGETS, Target, read_target, spelled
from helitune.results import choose_device
from helitune.results.request import TuneRequest

H200 = Device(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-0693a898-61f3-addf-9417-1b309323e2ef",
    driver="580.159.04",
    capability=(9, 0),
    sms=132,
    memory_bytes=150109880320,
    l2_bytes=62914560,
    max_threads_per_sm=2048,
    max_blocks_per_sm=32,
    registers_per_sm=65536,
    shared_per_sm_bytes=233472,
    shared_per_block_reserved_bytes=1024,
    sm_clock_khz=1980000,
    memory_clock_khz=3201000,
    memory_bus_bits=6016,
)
"""As the probe described one."""

ASKED = replace(REQUEST, device="auto", target="auto", objective="auto", compile_timeout_s=0.0)


def came_to(request: TuneRequest, gpu: Device | None, monkeypatch: pytest.MonkeyPatch) -> TuneRequest:
    monkeypatch.setattr(choose_device, "find_device", lambda index: gpu)
    return choose_device.settled(request, *choose_device.find_target_and_device(request))


def test_with_a_gpu_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    request = came_to(ASKED, H200, monkeypatch)
    assert (request.objective, request.target, request.device) == ("time", "sm_90", "0")
    assert 0 < request.compile_timeout_s < came_to(ASKED, None, monkeypatch).compile_timeout_s


def test_without_one_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    request = came_to(ASKED, None, monkeypatch)
    assert (request.objective, request.target, request.device) == ("issue_slots", "sm_90", "none")


@pytest.mark.parametrize(
    "change", [{"device": "none"}, {"target": "sm_100"}, {"objective": "registers"}], ids=str
)
def test_a_gpu_may_be_left_alone(change: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    request = came_to(replace(ASKED, **change), H200, monkeypatch)  # type: ignore[arg-type]
    assert request.device == "none" and request.objective != "time"
    assert request.target == change.get("target", "sm_90")


def test_what_a_run_keeps_comes_to_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpu in (H200, None):
        once = came_to(ASKED, gpu, monkeypatch)
        assert came_to(once, gpu, monkeypatch) == once


@pytest.mark.parametrize("change", [{"objective": "time"}, {"device": "0"}], ids=str)
def test_a_gpu_that_is_not_there(change: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match="no GPU"):
        came_to(replace(ASKED, **change), None, monkeypatch)  # type: ignore[arg-type]


def test_another_architecture_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match="sm_90"):
        came_to(replace(ASKED, target="sm_100", objective="time"), H200, monkeypatch)


@pytest.mark.parametrize("change", [{"device": "first"}, {"objective": "speed"}, {"target": "sm_1"}], ids=str)
def test_names_that_do_not_exist(change: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        came_to(replace(ASKED, **change), H200, monkeypatch)  # type: ignore[arg-type]


def test_the_target_is_the_gpu_that_is_there() -> None:
    target = replace(H200, sms=114).target()
    assert target.sms == 114 and target.l2_bytes == H200.l2_bytes
    assert target.shared_per_block_optin_bytes == 227 * 1024
    assert read_target(spelled(target)) == target


def test_a_gpu_that_no_table_knows_is_described_by_itself() -> None:
    target: Target = replace(H200, capability=(9, 9)).target()
    assert target.arch == "sm_99" and "sm_99" not in TARGETS
    assert target.sm_clock_hz == 1.98e9 and 4.5e12 < target.memory_bandwidth_bytes_per_s < 5.1e12


def test_a_device_reads_back_as_it_was() -> None:
    assert Device.from_json(H200.to_json()) == H200
