"""The GPU: which, its driver, what can be read of its state, and whether its clocks can be locked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

from helitune.acfs.errors import MachineError
from helitune.objectives.device import Device, find_device
from helitune.objectives.gpu.lock_permission import Permission, lock_permission
from helitune.objectives.gpu.throttle_reasons import throttling
from helitune.objectives.installed_stack import InstalledStack

from .doctor_check import Check

NO_GPU = "no GPU: evidence will be `compiled`"
_NAMES = ("gpu", "driver", "sensors", "clocks")

_OLDEST_DRIVER = Version("580")
"""The first whose minor version compatibility covers CUDA 13, which ptxas 13.3 is of (CUDA Compatibility guide)."""


def visible_device() -> tuple[Device | None, MachineError | None]:
    """The GPU that a tune would use, if any, or the error of its driver."""
    try:
        return find_device(), None
    except MachineError as error:
        return None, error


def gpu_checks(
    device: Device | None, error: MachineError | None, stack: InstalledStack, environment: Mapping[str, str]
) -> Iterator[Check]:
    """The checks of a GPU; on a machine without one they warn, since a tune runs there all the same."""
    if error is not None:
        yield Check("gpu", "fail", error.what, error.next_step)
    elif device is None:
        for name in _NAMES:
            yield Check(name, "warn", NO_GPU, _why_no_gpu(environment) if name == "gpu" else "")
    else:
        yield _gpu(device, stack)
        yield _driver(device)
        yield _sensors(stack)
        yield _clocks()


def _why_no_gpu(environment: Mapping[str, str]) -> str:
    hidden = environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return "unset CUDA_VISIBLE_DEVICES, which hides every GPU"
    return "to measure, use a machine with an NVIDIA GPU and its driver (a container: started with its GPUs)"


def _gpu(device: Device, stack: InstalledStack) -> Check:
    shown = f"{device.name}, {device.arch}, {device.memory_bytes / 2**30:.0f} GiB, {device.uuid}"
    cuda = stack.about("cuda")
    if cuda["error"]:
        fix = f"match torch's CUDA with the driver, {device.driver}: see what torch.cuda.init() says"
        return Check("gpu", "fail", f"{shown}, but torch cannot use it: {cuda['error']}", fix)
    if not cuda["built_for"]:
        fix = "install a torch that is built for CUDA; --target alone needs none"
        return Check("gpu", "fail", f"{shown}, but torch is built without CUDA", fix)
    return Check("gpu", "ok", f"{shown}; torch is built for CUDA {cuda['built_for']}")


def _driver(device: Device) -> Check:
    try:
        old = Version(device.driver) < _OLDEST_DRIVER
    except InvalidVersion:
        return Check("driver", "warn", f"{device.driver}: the driver's version cannot be read")
    if old:
        what = f"{device.driver}: code made by ptxas 13 may not load below {_OLDEST_DRIVER}"
        return Check("driver", "warn", what, "update the driver")
    return Check("driver", "ok", device.driver)


def _sensors(stack: InstalledStack) -> Check:
    state = stack.about("sensors")
    if state["error"] or not state["readable"]:
        what = state["error"] or "NVML cannot be opened"
        fix = "pip install nvidia-ml-py; in a container, give it the driver's capability `utility`"
        return Check("sensors", "warn", f"clock and temperature will not be recorded: {what}", fix)
    values = (("sm_clock_mhz", "MHz SM clock"), ("temperature_c", "°C"), ("power_w", "W"))
    shown = ", ".join(f"{state[key]:g} {unit}" for key, unit in values if state[key] is not None)
    held = throttling(state["throttle_reasons"])
    if held:
        fix = "wait until the GPU is cool and idle, or lock a lower clock: --lock-clocks"
        return Check("sensors", "warn", f"{shown}; throttled now by {', '.join(held)}", fix)
    return Check("sensors", "ok", shown or "readable, but this GPU gives no value")


def _clocks() -> Check:
    if shutil.which("nvidia-smi") is None:
        fix = "install the driver's utilities (a container: the capability `utility`), or do without --lock-clocks"
        return Check("clocks", "warn", "cannot be locked: nvidia-smi is not on the PATH", fix)
    permission = lock_permission()
    if permission is Permission.GRANTED:
        return Check("clocks", "ok", "lockable: this process has CAP_SYS_ADMIN, which the driver asks for")
    if permission is Permission.REFUSED:
        fix = "run as root (a container needs CAP_SYS_ADMIN too), or do without --lock-clocks"
        return Check("clocks", "warn", "cannot be locked: this process lacks CAP_SYS_ADMIN", fix)
    return Check(
        "clocks", "warn", "lockable: unknown", "try --lock-clocks; a refusal says so and ends the command"
    )
