"""What a GPU says of itself while it is measured: clock, temperature, power, and why its clock is held down.

A thin reader over pynvml (package nvidia-ml-py). A machine without NVML, and a value that a GPU does not give,
are None: what is not known must not end a measurement, and must not look like a number either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .throttle_reasons import NOT_READABLE, named

_BARE_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""How torch.cuda.get_device_properties(0).uuid reads: without NVML's "GPU-"."""


@dataclass(frozen=True, slots=True)
class Sensors:
    """One reading. `throttle_reasons` are names of throttle_reasons.py; ("not_readable",) where NVML gives none.

    `power_w` is an average over the last second on Ampere (GA100 aside) and newer GPUs (NVML API Reference Guide,
    nvmlDeviceGetPowerUsage).
    """

    sm_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    throttle_reasons: tuple[str, ...]


def open_nvml(index_or_uuid: int | str) -> GpuSensors | None:
    """The sensors of one GPU, or None where NVML is absent or does not know it.

    An int, or a string of digits, is NVML's own index, in PCI order: CUDA_VISIBLE_DEVICES and CUDA's order do not
    change it. So from CUDA give str(torch.cuda.get_device_properties(i).uuid), "GPU-<uuid>", or a PCI bus id such
    as "0000:0f:00.0".
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001  not installed, no driver, another driver's library: all the same here
        return None
    handle = _ask(_find(pynvml, index_or_uuid))
    if handle is None:
        _ask(pynvml.nvmlShutdown)
        return None
    return GpuSensors(pynvml, handle)


class GpuSensors:
    """Reads one GPU; nothing here raises."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        # which spelling works depends on the driver as much as on pynvml: found out once, not at every reading
        self._reasons = _first_working(
            (
                _call(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle),
                _call(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle),
            )
        )
        sensor = getattr(nvml, "NVML_TEMPERATURE_GPU", 0)
        self._temperature = _first_working(
            (
                _call(nvml, "nvmlDeviceGetTemperature", handle, sensor),
                _call(nvml, "nvmlDeviceGetTemperatureV", handle, sensor),
            )
        )
        self._sm_clock = _call(nvml, "nvmlDeviceGetClockInfo", handle, getattr(nvml, "NVML_CLOCK_SM", 1))
        self._power = _call(nvml, "nvmlDeviceGetPowerUsage", handle)
        self._energy = _call(nvml, "nvmlDeviceGetTotalEnergyConsumption", handle)

    def read(self) -> Sensors:
        """The GPU's state now: four calls of the driver."""
        power_mw = _ask(self._power)
        mask = _ask(self._reasons)
        return Sensors(
            sm_clock_mhz=_ask(self._sm_clock),
            temperature_c=_ask(self._temperature),
            power_w=None if power_mw is None else power_mw / 1000,
            throttle_reasons=(NOT_READABLE,) if mask is None else named(mask),
        )

    def energy_mj(self) -> int | None:
        """Millijoules used since the driver was loaded, or None where the GPU does not count them."""
        energy: int | None = _ask(self._energy)
        return energy

    def driver_version(self) -> str | None:
        """The driver's version, as "580.159.04", or None."""
        version: str | None = _ask(_call(self._nvml, "nvmlSystemGetDriverVersion"))
        return version

    def close(self) -> None:
        """Let go of NVML; it counts how often it was opened."""
        _ask(_call(self._nvml, "nvmlShutdown"))


def _find(nvml: Any, index_or_uuid: int | str) -> Callable[[], Any]:
    """The call that looks up a GPU by what its name looks like."""
    name = str(index_or_uuid)
    if name.isdecimal():
        return _call(nvml, "nvmlDeviceGetHandleByIndex", int(name))
    if name.startswith(("GPU-", "MIG-")):
        return _call(nvml, "nvmlDeviceGetHandleByUUID", name)
    if _BARE_UUID.fullmatch(name):
        return _call(nvml, "nvmlDeviceGetHandleByUUID", f"GPU-{name}")
    return _call(nvml, "nvmlDeviceGetHandleByPciBusId", name)


def _call(nvml: Any, name: str, *arguments: Any) -> Callable[[], Any]:
    """A call of one NVML function; a pynvml without it is an error of the call, as an old driver's would be."""
    return lambda: getattr(nvml, name)(*arguments)


def _first_working(calls: Iterable[Callable[[], Any]]) -> Callable[[], Any]:
    """The first call that answers, or one that never does."""
    return next((call for call in calls if _ask(call) is not None), lambda: None)


def _ask(call: Callable[[], Any]) -> Any:
    """What the call returns, or None where it fails."""
    try:
        return call()
    except Exception:  # noqa: BLE001  NVMLError has a class for each driver's mood, and none may end a measurement
        return None
