"""What one machine can do at most, as measured, and the file that keeps it: plain data, no torch.

Measured once per machine, which is the GPU itself (by UUID), its driver, and torch: cuBLAS comes with torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helitune.acfs.paths import atomic_write, cache_root

from .json_fields import integer, mapping, number

if TYPE_CHECKING:
    from .device import Device

FORMAT = 1
_RATED_AS = {
    # a kernel may multiply f32 numbers on tensor cores, as Helion does by default
    "f32": ("tf32", "f32"),
    # cuBLAS multiplies two e5m2 matrices nowhere; the hardware takes both formats at one rate
    "f8e5m2": ("f8e4m3",),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What limits belong to: the GPU's name and UUID, its driver's and torch's versions."""

    gpu: str
    gpu_uuid: str
    driver: str
    torch: str

    @classmethod
    def of(cls, device: Device) -> Machine:
        """The machine that `device` is in, with the torch that is installed here."""
        return cls(gpu=device.name, gpu_uuid=device.uuid, driver=device.driver, torch=version("torch"))


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """Bytes per second of large buffers in the GPU's memory, and FLOPs per second of large matrix products.

    A copy counts what it reads and what it writes. `flops_per_s` is keyed by dtype, "tf32" being f32 matrices
    on tensor cores; a dtype that the GPU or this torch does not multiply is absent.
    """

    copy_bytes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    flops_per_s: Mapping[str, float]

    def __post_init__(self) -> None:
        rates = (
            self.copy_bytes_per_s,
            self.read_bytes_per_s,
            self.write_bytes_per_s,
            *self.flops_per_s.values(),
        )
        if not all(math.isfinite(rate) and rate > 0 for rate in rates):
            raise ValueError("a machine's rates are finite and above 0")

    @property
    def fastest_bytes_per_s(self) -> float:
        """The highest of the three rates: no mixture of reads and writes went faster."""
        return max(self.copy_bytes_per_s, self.read_bytes_per_s, self.write_bytes_per_s)

    def rate(self, dtype: str) -> float | None:
        """FLOP/s of the fastest products of `dtype` ("f16", as search/dtypes.py writes it); None if not measured."""
        measured = [
            self.flops_per_s[name] for name in _RATED_AS.get(dtype, (dtype,)) if name in self.flops_per_s
        ]
        return max(measured, default=None)

    def to_json(self) -> dict[str, Any]:
        """The limits in JSON's types."""
        return {
            "copy_bytes_per_s": self.copy_bytes_per_s,
            "read_bytes_per_s": self.read_bytes_per_s,
            "write_bytes_per_s": self.write_bytes_per_s,
            "flops_per_s": dict(self.flops_per_s),
        }

    @classmethod
    def from_json(cls, record: Any) -> MachineLimits:
        """The limits that `to_json` gave; ValueError names what is missing, of another type, or no rate."""
        rates = mapping(record, "flops_per_s")
        return cls(
            copy_bytes_per_s=number(record, "copy_bytes_per_s"),
            read_bytes_per_s=number(record, "read_bytes_per_s"),
            write_bytes_per_s=number(record, "write_bytes_per_s"),
            flops_per_s={dtype: number(rates, dtype) for dtype in rates},
        )


def save_limits(machine: Machine, limits: MachineLimits) -> None:
    """Keep `limits` in the cache for `load_limits`; MachineError where it cannot be written."""
    record = {"format": FORMAT, "machine": asdict(machine), "limits": limits.to_json()}
    atomic_write(limits_path(machine), (json.dumps(record, indent=2) + "\n").encode())


def load_limits(machine: Machine) -> MachineLimits | None:
    """The limits that were measured on `machine`; None where there are none, or none that can be believed."""
    try:
        record = json.loads(limits_path(machine).read_bytes())
        if integer(record, "format") != FORMAT or mapping(record, "machine") != asdict(machine):
            return None
        return MachineLimits.from_json(mapping(record, "limits"))
    except (OSError, ValueError, RecursionError):
        return None


def limits_path(machine: Machine) -> Path:
    """Where the limits of `machine` are kept: the GPU's name for people, a hash of everything for the rest."""
    key = hashlib.sha256(json.dumps(asdict(machine), sort_keys=True).encode()).hexdigest()
    name = re.sub(r"[^a-z0-9]+", "-", machine.gpu.lower())[:60].strip("-")
    return cache_root() / "limits" / f"{name or 'gpu'}-{key[:16]}.json"
