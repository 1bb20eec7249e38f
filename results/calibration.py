"""This machine's A/A distribution: how far apart two builds of the same kernel come out, and the file that keeps it.

It belongs to the GPU itself (by UUID), its driver, the versions that make and launch code, and the way of timing.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helitune.acfs.paths import atomic_write, cache_root
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.device import Device
from helitune.objectives.json_fields import integer, items, mapping, numbers, text

if TYPE_CHECKING:
    from .noise_floor import NoiseFloor

CALIBRATION_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """What a calibration belongs to. `clocks` is "free" or the MHz that they were locked to."""

    gpu: str
    gpu_uuid: str
    driver: str
    torch: str
    triton: str
    ptxas: str
    timing: str
    cache: str
    clocks: str

    @classmethod
    def of(cls, device: Device, ptxas: Ptxas, *, timing: str, cache: str, clocks: str) -> Setting:
        """The setting of this GPU with what is installed here."""
        return cls(
            gpu=device.name,
            gpu_uuid=device.uuid,
            driver=device.driver,
            torch=version("torch"),
            triton=version("triton"),
            ptxas=ptxas.version,
            timing=timing,
            cache=cache,
            clocks=clocks,
        )


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """One baseline built twice: which kernel, in which of its processes, and log(base / base again) of each round."""

    kernel: str
    process: int
    log_ratios: tuple[float, ...]

    @property
    def offset(self) -> float:
        """How far the two builds came out apart, in log units."""
        return math.fsum(self.log_ratios) / len(self.log_ratios)

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        ratios = [float(f"{ratio:.6g}") for ratio in self.log_ratios]
        return {"kernel": self.kernel, "process": self.process, "log_ratios": ratios}

    @classmethod
    def from_json(cls, fields: Any) -> Rebuilt:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        ratios = numbers(fields, "log_ratios")
        if len(ratios) < 2:
            raise ValueError("log_ratios: fewer than 2 rounds")
        return cls(kernel=text(fields, "kernel"), process=integer(fields, "process"), log_ratios=ratios)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured of rebuilt baselines in one setting, and when (ISO 8601)."""

    setting: Setting
    created: str
    rebuilt: tuple[Rebuilt, ...]

    def floor(self) -> NoiseFloor:
        """The noise floor of all rebuilt baselines; ValueError where they are too few or do not vary."""
        from .noise_floor import noise_floor  # scipy, which takes a second

        return noise_floor([one.log_ratios for one in self.rebuilt])

    def kernels(self) -> Iterator[tuple[str, Sequence[Rebuilt]]]:
        """The rebuilt baselines kernel by kernel."""
        for kernel in dict.fromkeys(one.kernel for one in self.rebuilt):
            yield kernel, [one for one in self.rebuilt if one.kernel == kernel]

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "format": CALIBRATION_FORMAT,
            "setting": asdict(self.setting),
            "created": self.created,
            "rebuilt": [one.to_json() for one in self.rebuilt],
        }

    @classmethod
    def from_json(cls, fields: Any) -> Calibration:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        if integer(fields, "format") > CALIBRATION_FORMAT:
            raise ValueError("format: from the future")
        setting = mapping(fields, "setting")
        return cls(
            setting=Setting(**{name: text(setting, name) for name in Setting.__dataclass_fields__}),
            created=text(fields, "created"),
            rebuilt=tuple(Rebuilt.from_json(one) for one in items(fields, "rebuilt")),
        )


def save_calibration(calibration: Calibration) -> Path:
    """Where the calibration now lies, instead of an earlier one; MachineError where it cannot be written."""
    path = calibration_path(calibration.setting)
    atomic_write(path, json.dumps(calibration.to_json(), indent=1).encode() + b"\n")
    return path


def load_calibration(setting: Setting) -> Calibration | None:
    """The calibration of this setting; None where there is none, or none that can be believed."""
    try:
        found = Calibration.from_json(json.loads(calibration_path(setting).read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None
    return found if found.setting == setting and found.rebuilt else None


def calibration_path(setting: Setting) -> Path:
    """Where a setting's calibration is kept: the GPU's name for people, a hash of everything for the rest."""
    key = hashlib.sha256(json.dumps(asdict(setting), sort_keys=True).encode()).hexdigest()
    name = re.sub(r"[^a-z0-9]+", "-", setting.gpu.lower())[:60].strip("-")
    return cache_root() / "calibration" / f"{name or 'gpu'}-{key[:16]}.json"
