"""What the check of a kernel's source in Helion's interpreter came to: plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .agreement_record import OutputAgreement

EVIDENCE = "interpreter"


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Which kernel to check, in load_workload's terms, and with how many draws of its inputs."""

    file: str
    kernel: str | None = None
    reference: str | None = None
    args: tuple[str, ...] = ()
    seeds: int = 3
    base_seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The request as JSON values."""
        return asdict(self) | {"args": list(self.args)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CheckRequest:
        """The request that `to_json` wrote."""
        return cls(**{**record, "args": tuple(record.get("args", ()))})


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether the source agrees with its reference, on which scaled shapes and in which rounds.

    `shapes` are `--args` texts of what was run, one for each shape of the workload, up to the first that
    fails. `worst` is the output that fails, else the one with the largest relative error. `message` is one
    line for the user. The interpreter sees neither the config nor an ACF: it vouches for the source alone.
    `factors` say by how much large dimensions were divided, one for each of `shapes`; 1 is the full size.
    """

    agrees: bool
    reference: str
    shapes: tuple[str, ...]
    rounds: tuple[str, ...]
    message: str
    worst: OutputAgreement | None = None
    notes: tuple[str, ...] = ()
    evidence: str = EVIDENCE
    factors: tuple[int, ...] = ()

    @property
    def shown_shapes(self) -> str:
        """The shapes that were run, scaled ones marked: "f16[1024,640] (scaled down), f16[64]"."""
        factors = self.factors or (1,) * len(self.shapes)
        return ", ".join(map(marked_shape, self.shapes, factors))

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "agrees": self.agrees,
            "reference": self.reference,
            "shapes": list(self.shapes),
            "rounds": list(self.rounds),
            "message": self.message,
            "worst": self.worst.to_json() if self.worst else None,
            "notes": list(self.notes),
            "evidence": self.evidence,
            "factors": list(self.factors),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CheckResult:
        """The result that `to_json` wrote; KeyError, TypeError or ValueError for anything else."""
        return cls(
            agrees=bool(record["agrees"]),
            reference=str(record["reference"]),
            shapes=tuple(map(str, record["shapes"])),
            rounds=tuple(map(str, record["rounds"])),
            message=str(record["message"]),
            worst=OutputAgreement.from_json(record["worst"]) if record["worst"] else None,
            notes=tuple(map(str, record["notes"])),
            evidence=str(record["evidence"]),
            # older results do not have it
            factors=tuple(map(int, record.get("factors", ()))),
        )


def marked_shape(shape: str, factor: int) -> str:
    """The text of a shape, and whether it is a scaled-down one."""
    return f"{shape} (scaled down)" if factor > 1 else shape
