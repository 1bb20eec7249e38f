"""How pins are checked, and the request and tools that a pin stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import UserError
from helitune.acfs.paths import cache_root
from helitune.acfs.ptxas import Ptxas
from helitune.acfs.store import AcfStore
from helitune.objectives.compiled_objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from helitune.objectives.device import Device
from helitune.objectives.targets import Target, find_target
from helitune.search.args import format_shape

from .pin import Pin, read_pin
from .request import TuneRequest
from .session import Tools
from .thresholds import STRICT, Thresholds

COMPILE_TIMEOUT_S = 300.0
"""A pin compiled once; what takes this long now does not end."""

MEMORY_BYTES = 16 << 30


@dataclass(frozen=True, slots=True)
class CheckSetting:
    """How every pin of a check is treated.

    `device` is the GPU that pins are measured on, None where they are only recompiled. `timing` and `cache` are as
    in TuneRequest, None for what the pin was validated with. `update` says to rewrite pins that pass. `elsewhere`
    names the architecture of a GPU that is here, but not the pin's.
    """

    ptxas: Ptxas
    device: Device | None = None
    thresholds: Thresholds = STRICT
    timing: str | None = None
    cache: str | None = None
    lock_clocks: str | None = None
    update: bool = False
    seed: int = 0
    jobs: int = 2
    elsewhere: str = ""

    def target(self, pin: Pin) -> Target:
        """What the pin is compiled for: the GPU here, else the product that stands for its architecture."""
        return self.device.target() if self.device is not None else find_target(pin.gpu)


def settings_for(paths: Sequence[Path], how: CheckSetting) -> dict[Path, CheckSetting]:
    """How each pin is treated: those of another architecture than this GPU's are only recompiled.

    Where none is of this GPU's, all are treated as `how` says, and none will fit: a check that measured nothing
    would pass for one that did.
    """
    device = how.device
    gpus = {path: _gpu_of(path) for path in paths}
    if device is None or device.arch not in gpus.values():
        return dict.fromkeys(paths, how)
    recompiled = replace(how, device=None, elsewhere=device.arch)
    return {path: recompiled if gpu not in ("", device.arch) else how for path, gpu in gpus.items()}


def _gpu_of(path: Path) -> str:
    """The architecture of the pin in a file, empty where it cannot be read: the check will say why."""
    try:
        return read_pin(path).gpu
    except UserError:
        return ""


def request_of(pin: Pin, source: Path, how: CheckSetting) -> TuneRequest:
    """The request with which `tune` would load the pin's workload from the kernel file `source`."""
    args = tuple(map(format_shape, pin.shapes)) if pin.inputs == "args" else ()
    objective = pin.objective.get("name")
    return TuneRequest(
        file=str(source),
        kernel=pin.kernel,
        reference=pin.reference,
        args=args,
        target=pin.gpu,
        packs=(),
        force=False,
        settings=(),
        strategy="grid",
        objective=objective if objective in OBJECTIVES else DEFAULT_OBJECTIVE,
        budget=0,
        time_s=None,
        seed=how.seed,
        jobs=how.jobs,
        compile_timeout_s=COMPILE_TIMEOUT_S,
        memory_bytes=MEMORY_BYTES,
        ptxas=str(how.ptxas.path),
        device="none" if how.device is None else str(how.device.index),
        timing=how.timing or _validated_with(pin, "timing", "graph"),
        cache=how.cache or _validated_with(pin, "cache", "cold"),
        lock_clocks=how.lock_clocks,
    )


def tools_of(pin: Pin, acf: Acf, how: CheckSetting, *, measuring: bool) -> Tools:
    """The tools that the pin is compiled with, and measured with where `measuring`."""
    acfs = (acf,) if acf.sha256 else ()
    return Tools(how.ptxas, how.target(pin), acfs, (), how.device if measuring else None)


def stored_acf(path: Path, pin: Pin) -> Acf:
    """The ACF beside the pin's file, kept in the store under a path that its content names; NO_ACF without one."""
    if pin.acf is None:
        return NO_ACF
    beside = Acf(pin.acf.name, pin.acf.sha256, path.with_name(pin.acf.file), (pin.gpu,), pin.acf.toolkit)
    return AcfStore(cache_root() / "acfs").add(beside)


def _validated_with(pin: Pin, name: str, default: str) -> str:
    validated: Any = (pin.verdict or {}).get("validated")
    found = validated.get(name) if isinstance(validated, dict) else None
    return found if isinstance(found, str) else default
