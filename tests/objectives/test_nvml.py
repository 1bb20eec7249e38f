"""The GPU's sensors: bits in words, what is missing is None, and nothing raises."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from helitune.objectives.gpu.nvml import Sensors, open_nvml
from helitune.objectives.gpu.throttle_reasons import NOT_READABLE, REASONS, THROTTLING, named, throttling

UUID = "3f1c2b4a-0d5e-4f60-8a7b-9c0d1e2f3a4b"


class FakeError(Exception):
    """Stands for pynvml.NVMLError."""


def refuse(*arguments: object) -> Any:
    raise FakeError("Not Supported")


def fake_pynvml(monkeypatch: pytest.MonkeyPatch, **functions: Callable[..., Any]) -> list[tuple[str, object]]:
    """Puts a pynvml in place that knows one H200; what was looked up is in the list."""
    asked: list[tuple[str, object]] = []

    def look_up(how: str) -> Callable[[object], str]:
        def found(name: object) -> str:
            asked.append((how, name))
            return "handle"

        return found

    working: dict[str, Callable[..., Any]] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: asked.append(("shutdown", None)),
        "nvmlDeviceGetHandleByIndex": look_up("index"),
        "nvmlDeviceGetHandleByUUID": look_up("uuid"),
        "nvmlDeviceGetHandleByPciBusId": look_up("pci"),
        "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1980}[kind],
        "nvmlDeviceGetTemperature": lambda handle, sensor: {0: 41}[sensor],
        "nvmlDeviceGetPowerUsage": lambda handle: 351_500,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x24,
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 123_456_789,
        "nvmlSystemGetDriverVersion": lambda: "580.159.04",
    }
    module = types.ModuleType("pynvml")
    module.__dict__.update(working | functions)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return asked


def test_the_bits_are_those_of_the_installed_nvml() -> None:
    import pynvml

    constants = {
        value: name.removeprefix("nvmlClocksThrottleReason")
        for name, value in vars(pynvml).items()
        if name.startswith("nvmlClocksThrottleReason") and value and value.bit_count() == 1
        if not name.endswith("UserDefinedClocks")
    }
    camel = {bit: "".join(part.capitalize() for part in name.split("_")) for bit, name in REASONS.items()}
    assert constants and constants.items() <= camel.items()


@pytest.mark.parametrize(
    ("mask", "names", "held"),
    [
        (0x0, (), ()),
        (0x1, ("gpu_idle",), ()),
        (0x2, ("applications_clocks_setting",), ()),
        (0x24, ("sw_power_cap", "sw_thermal_slowdown"), ("sw_thermal_slowdown",)),
        (0x18, ("hw_slowdown", "sync_boost"), ("hw_slowdown",)),
        (0xC0, ("hw_thermal_slowdown", "hw_power_brake_slowdown"), None),
        (0x801, ("gpu_idle", "bit_0x800"), ()),
    ],
)
def test_a_mask_in_words(mask: int, names: tuple[str, ...], held: tuple[str, ...] | None) -> None:
    assert named(mask) == names
    assert throttling(named(mask)) == (names if held is None else held)


def test_every_reason_that_counts_is_one_there_is() -> None:
    assert set(REASONS.values()) > THROTTLING
    assert throttling([NOT_READABLE]) == ()


def test_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pynvml(monkeypatch)
    opened = open_nvml(0)
    assert opened is not None
    assert opened.read() == Sensors(1980, 41, 351.5, ("sw_power_cap", "sw_thermal_slowdown"))
    assert (opened.energy_mj(), opened.driver_version()) == (123_456_789, "580.159.04")


@pytest.mark.parametrize(
    ("name", "looked_up"),
    [
        (3, ("index", 3)),
        ("3", ("index", 3)),
        (f"GPU-{UUID}", ("uuid", f"GPU-{UUID}")),
        (UUID, ("uuid", f"GPU-{UUID}")),
        (f"MIG-{UUID}", ("uuid", f"MIG-{UUID}")),
        ("0000:0F:00.0", ("pci", "0000:0F:00.0")),
    ],
)
def test_a_gpu_is_found_by_what_its_name_looks_like(
    monkeypatch: pytest.MonkeyPatch, name: int | str, looked_up: tuple[str, object]
) -> None:
    asked = fake_pynvml(monkeypatch)
    assert open_nvml(name) is not None
    assert asked == [looked_up]


def test_what_a_gpu_does_not_give_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ClockInfo", "Temperature", "PowerUsage", "CurrentClocksEventReasons", "TotalEnergyConsumption")
    fake_pynvml(monkeypatch, **{f"nvmlDeviceGet{name}": refuse for name in names})
    opened = open_nvml(0)
    assert opened is not None
    assert opened.read() == Sensors(None, None, None, (NOT_READABLE,))
    assert opened.energy_mj() is None


def test_an_older_driver_is_asked_the_older_way(monkeypatch: pytest.MonkeyPatch) -> None:
    older = {"nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x8}
    fake_pynvml(monkeypatch, nvmlDeviceGetCurrentClocksEventReasons=refuse, **older)
    opened = open_nvml(0)
    assert opened is not None and opened.read().throttle_reasons == ("hw_slowdown",)


def test_a_gpu_that_falls_off_the_bus_later_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pynvml(monkeypatch)
    opened = open_nvml(0)
    assert opened is not None
    for name in [name for name in vars(sys.modules["pynvml"]) if name.startswith("nvml")]:
        monkeypatch.setattr(sys.modules["pynvml"], name, refuse)
    assert opened.read() == Sensors(None, None, None, (NOT_READABLE,))
    opened.close()


def test_an_unknown_gpu_is_none_and_nvml_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_pynvml(monkeypatch, nvmlDeviceGetHandleByIndex=refuse)
    assert open_nvml(9) is None
    assert asked == [("shutdown", None)]


def test_without_the_package_or_the_driver_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pynvml(monkeypatch, nvmlInit=refuse)
    assert open_nvml(0) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_nvml(0) is None


@pytest.mark.gpu
def test_a_real_gpu_tells_its_state() -> None:
    opened = open_nvml(0)
    if opened is None:
        pytest.skip("no NVML here")
    state = opened.read()
    assert state.sm_clock_mhz and 0 < state.sm_clock_mhz < 5000
    assert state.temperature_c and 0 < state.temperature_c < 120
    assert state.throttle_reasons != (NOT_READABLE,)
