"""The header and the points of a recorded table, to JSON and back; replay_table.py says what they mean."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from helitune.acfs.acf import NO_ACF, Acf
from helitune.search.space import Dimension, Genome, JointSpace, Value

from .json_fields import (
    finite,
    integer,
    integers,
    items,
    mapping,
    number,
    numbers,
    optional,
    sha256,
    text,
    texts,
)
from .outcomes import STAGES, Failed


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A point that ran: `ratios` are its time over the own config's, one a round; `base_ms` is the own config's.

    `features` are numbers about its code (registers, spill_bytes, issue_slots, …) that are known without a GPU.
    `code` names the machine code of its launches, empty where that was not recorded.
    """

    genome: Genome
    config: Mapping[str, Any]
    acf_sha256: str
    ratios: tuple[float, ...]
    base_ms: float
    features: Mapping[str, float] = field(default_factory=dict)
    code: tuple[str, ...] = ()

    @property
    def true_score(self) -> float:
        """The best estimate of its score: the mean of all rounds."""
        return statistics.fmean(self.ratios)

    def to_json(self) -> dict[str, Any]:
        """This point in JSON's types."""
        return {
            "genome": list(self.genome),
            "config": dict(self.config),
            "acf_sha256": self.acf_sha256,
            "outcome": "measured",
            "ratios": list(self.ratios),
            "base_ms": self.base_ms,
            "features": dict(self.features),
            **({"code": list(self.code)} if self.code else {}),
        }


@dataclass(frozen=True, slots=True)
class FailedPoint:
    """A point that failed."""

    genome: Genome
    failed: Failed

    def to_json(self) -> dict[str, Any]:
        """This point in JSON's types."""
        outcome = {"outcome": "failed", "stage": self.failed.stage, "message": self.failed.message}
        return {"genome": list(self.genome), **outcome}


@dataclass(frozen=True, slots=True)
class SamePoint:
    """A genome that normalises to the candidate of an earlier one."""

    genome: Genome
    same_as: Genome

    def to_json(self) -> dict[str, Any]:
        """This point in JSON's types."""
        return {"genome": list(self.genome), "same_as": list(self.same_as)}


Point = MeasuredPoint | FailedPoint | SamePoint


@dataclass(frozen=True)
class TableHeader:
    """What was recorded, on what, and the space that it covers; `baselines` are genomes by name.

    `shapes` and `versions` are kept as they stand in the file.
    """

    kernel: str
    shapes: tuple[Any, ...]
    gpu: str
    versions: Mapping[str, Any]
    date: str
    dimensions: tuple[Dimension, ...]
    acfs: tuple[Acf, ...]
    baselines: Mapping[str, Genome] = field(default_factory=dict)

    @cached_property
    def space(self) -> JointSpace:
        """The joint space of the table; its ACFs have no file."""
        return JointSpace(self.dimensions, (NO_ACF, *self.acfs))

    def to_json(self) -> dict[str, Any]:
        """This header in JSON's types, without the format."""
        return {
            "kernel": self.kernel,
            "shapes": list(self.shapes),
            "gpu": self.gpu,
            "versions": dict(self.versions),
            "date": self.date,
            "dimensions": [
                {
                    "key": d.key,
                    "index": d.index,
                    "slots": list(d.slots),
                    "values": [list(r) for r in d.values],
                }
                for d in self.dimensions
            ],
            "acfs": [
                {"name": a.name, "sha256": a.sha256, "arch": list(a.arch), "toolkit": a.toolkit}
                for a in self.acfs
            ],
            "baselines": [{"name": name, "genome": list(g)} for name, g in self.baselines.items()],
        }

    @classmethod
    def from_json(cls, fields: Any) -> TableHeader:
        """The header that `to_json` gave; ValueError with what is missing or of another type."""
        header = cls(
            kernel=text(fields, "kernel"),
            shapes=tuple(items(fields, "shapes")),
            gpu=text(fields, "gpu"),
            versions=mapping(fields, "versions"),
            date=text(fields, "date"),
            dimensions=tuple(map(_dimension, items(fields, "dimensions"))),
            acfs=tuple(map(_acf, items(fields, "acfs"))),
        )
        slots = [slot for dimension in header.dimensions for slot in dimension.slots]
        if sorted(slots) != list(range(len(slots))):
            raise ValueError(f"dimensions: slots {slots} are not 0 to {len(slots) - 1}, each once")
        if len({acf.sha256 for acf in header.acfs}) != len(header.acfs):
            raise ValueError("acfs: one stands here twice")
        named = {text(b, "name"): _genome(b, "genome", header.space) for b in items(fields, "baselines")}
        return replace(header, baselines=named)

    def point(self, fields: Any) -> Point:
        """The point that its `to_json` gave; ValueError with what is missing, of another type or out of the space."""
        genome = _genome(fields, "genome", self.space)
        if "same_as" in fields:
            same = _genome(fields, "same_as", self.space)
            if same[-1] != genome[-1]:
                raise ValueError("same_as: another ACF is another candidate")
            return SamePoint(genome, same)
        outcome = text(fields, "outcome")
        if outcome not in ("measured", "failed"):
            raise ValueError(f"outcome: {outcome!r} is neither 'measured' nor 'failed'")
        return self._measured(genome, fields) if outcome == "measured" else _failed(genome, fields)

    def _measured(self, genome: Genome, fields: dict[str, Any]) -> MeasuredPoint:
        ratios, base_ms = numbers(fields, "ratios"), number(fields, "base_ms")
        if not ratios or min(ratios) <= 0 or base_ms <= 0:
            raise ValueError("ratios, base_ms: not one or more ratios and a time, all above 0")
        acf_sha256 = text(fields, "acf_sha256")
        if acf_sha256 != self.space.acfs[genome[-1]].sha256:
            raise ValueError(f"acf_sha256: {acf_sha256!r} is not the ACF that the genome names")
        features = {name: finite(value, name) for name, value in mapping(fields, "features").items()}
        return MeasuredPoint(
            genome=genome,
            config=mapping(fields, "config"),
            acf_sha256=acf_sha256,
            ratios=ratios,
            base_ms=base_ms,
            features=features,
            code=texts(fields, "code") if "code" in fields else (),
        )


def _failed(genome: Genome, fields: dict[str, Any]) -> FailedPoint:
    failed = Failed(text(fields, "stage"), text(fields, "message"))
    if failed.stage not in STAGES:
        raise ValueError(f"stage: {failed.stage!r} is none of {', '.join(STAGES)}")
    return FailedPoint(genome, failed)


def _dimension(fields: Any) -> Dimension:
    slots = integers(fields, "slots")
    rows = tuple(_row(row) for row in items(fields, "values"))
    if not rows or any(len(row) != len(slots) for row in rows):
        raise ValueError("values: not one or more rows with a value for each slot")
    return Dimension(text(fields, "key"), optional(integer, fields, "index"), slots, rows)


def _row(row: Any) -> tuple[Value, ...]:
    value = _value(row)
    if not isinstance(value, tuple):
        raise ValueError("values: a row is no list")
    return value


def _value(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(map(_value, value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError("values: an object is no config value")


def _acf(fields: Any) -> Acf:
    return Acf(
        name=text(fields, "name"),
        sha256=sha256(fields, "sha256"),
        path=None,
        arch=texts(fields, "arch"),
        toolkit=text(fields, "toolkit"),
    )


def _genome(fields: Any, key: str, space: JointSpace) -> Genome:
    genome = integers(fields, key)
    space.decode(genome)  # raises ValueError outside the space
    return genome
