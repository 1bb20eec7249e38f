"""Whether a request is measured or only compiled, and for which GPU."""

from __future__ import annotations

from dataclasses import replace

from helitune.acfs.errors import InputError, MachineError
from helitune.objectives.compiled_objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from helitune.objectives.device import Device, find_device
from helitune.objectives.targets import Target, find_target

from .request import TuneRequest

AUTO = "auto"
TIME = "time"
DEFAULT_TARGET = "sm_90"

COMPILE_S = 30.0
COMPILE_BESIDE_GPU_S = 10.0
"""A few configs of a hundred take minutes to compile, and are then slow. While a GPU waits for the rest of their
batch they are given up sooner."""


def settled(request: TuneRequest, target: Target, device: Device | None) -> TuneRequest:
    """The request as it is kept: what was "auto" is what it came to, so that a resumed run is the same."""
    objective = request.objective
    if objective == AUTO:
        objective = TIME if device is not None else DEFAULT_OBJECTIVE
    where = "none" if device is None else str(device.index)
    timeout_s = request.compile_timeout_s or (COMPILE_S if device is None else COMPILE_BESIDE_GPU_S)
    return replace(
        request, objective=objective, target=target.arch, device=where, compile_timeout_s=timeout_s
    )


def find_target_and_device(request: TuneRequest) -> tuple[Target, Device | None]:
    """What to compile for, and the GPU to measure on, None where there is none or none is wanted.

    A GPU is measured on unless --device none, --target of another architecture, or an objective other than time
    says otherwise. Raises InputError for names that do not exist, MachineError where a GPU is asked for in vain.
    """
    if request.objective not in (AUTO, TIME, *OBJECTIVES):
        raise InputError(
            f"unknown objective {request.objective!r}",
            where="--objective",
            next_step=f"choose from {TIME}, {', '.join(OBJECTIVES)}",
        )
    wanted = find_target(request.target) if request.target != AUTO else None
    device = _device(request.device)
    asked = request.objective == TIME
    if asked and device is None:
        raise MachineError(
            "no GPU to measure on",
            where="--objective time",
            next_step="leave it out to rank by the model, or run helitune doctor",
        )
    if device is None:
        return wanted or find_target(DEFAULT_TARGET), None
    if wanted is not None and wanted.arch != device.arch:
        if asked or request.device not in (AUTO, "none"):
            raise MachineError(
                f"this machine's GPU is {device.arch} ({device.name})",
                where=f"--target {request.target}",
                next_step="leave --target out to measure here, or --device none to compile for it",
            )
        return wanted, None
    return device.target(), device if request.objective in (AUTO, TIME) else None


def _device(text: str) -> Device | None:
    if text == "none":
        return None
    if text == AUTO:
        return find_device(0)
    if not text.isdecimal():
        raise InputError(
            f"{text!r} is no GPU", where="--device", next_step="give auto, none, or a CUDA index: 0"
        )
    device = find_device(int(text))
    if device is None:
        raise MachineError(
            "no GPU on this machine", where=f"--device {text}", next_step="run helitune doctor"
        )
    return device
