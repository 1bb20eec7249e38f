"""Which GPU this machine has, asked of the CUDA driver by a short-lived child: this process never touches CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from helitune.acfs.errors import MachineError

from .json_fields import integer, text
from .targets import GB, TARGETS, Target

PROBE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as its driver describes it; `index` counts as CUDA does, `capability` is (major, minor)."""

    index: int
    name: str
    uuid: str
    driver: str
    capability: tuple[int, int]
    sms: int
    memory_bytes: int
    l2_bytes: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    shared_per_sm_bytes: int
    shared_per_block_reserved_bytes: int
    sm_clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int

    @property
    def arch(self) -> str:
        """The architecture's name, as "sm_90"."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def target(self) -> Target:
        """What to compile for so that the code is this GPU's: its own properties, on top of the known table's."""
        rate = 2.0 * self.memory_clock_khz * 1e3 * self.memory_bus_bits / 8
        known = TARGETS.get(self.arch)
        described: dict[str, Any] = {
            "name": self.name,
            "sms": self.sms,
            "max_warps_per_sm": self.max_threads_per_sm // 32,
            "max_blocks_per_sm": self.max_blocks_per_sm,
            "shared_per_sm_bytes": self.shared_per_sm_bytes,
            "shared_per_block_reserved_bytes": self.shared_per_block_reserved_bytes,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": self.memory_bytes,
            "registers_per_sm": self.registers_per_sm,
        }
        if known is not None:
            # newer drivers report neither clock: then the table's rates stand
            clock = self.sm_clock_khz * 1e3 or known.sm_clock_hz
            rate = rate or known.memory_bandwidth_bytes_per_s
            return replace(known, sm_clock_hz=clock, memory_bandwidth_bytes_per_s=rate, **described)
        return Target(
            arch=self.arch,
            capability=self.capability,
            sm_clock_hz=self.sm_clock_khz * 1e3 or 1.5e9,
            memory_bandwidth_bytes_per_s=rate or 1000.0 * GB,
            **described,
        )

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {**asdict(self), "capability": list(self.capability)}

    @classmethod
    def from_json(cls, fields: Any) -> Device:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        major, minor = (int(part) for part in fields["capability"])
        names = [name for name in cls.__dataclass_fields__ if name not in ("capability",)]
        texts = {name: text(fields, name) for name in names if name in ("name", "uuid", "driver")}
        numbers = {name: integer(fields, name) for name in names if name not in texts}
        return cls(capability=(major, minor), **texts, **numbers)  # type: ignore[arg-type]


def find_device(index: int = 0, environment: Mapping[str, str] | None = None) -> Device | None:
    """GPU number `index` of this machine, or None where there is no CUDA driver or no GPU.

    Raises MachineError where GPUs exist but not this one, or the driver answers with an error.
    """
    command = [sys.executable, "-P", "-m", "helitune.objectives.gpu.probe", str(index)]
    try:
        asked = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            env=dict(os.environ if environment is None else environment),
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"the CUDA driver did not answer within {PROBE_TIMEOUT_S:g} s",
            next_step="see whether nvidia-smi answers; or tune with --device none",
        ) from error
    answer = _answer(asked.stdout)
    if "error" in answer:
        raise MachineError(str(answer["error"]), where=f"GPU {index}", next_step=str(answer["next_step"]))
    return Device.from_json(answer["device"]) if answer.get("device") else None


def _answer(stdout: str) -> dict[str, Any]:
    try:
        answer = json.loads(stdout)
    except ValueError:
        answer = None
    # a driver that crashes its client is no GPU to tune on
    return answer if isinstance(answer, dict) else {"device": None}
