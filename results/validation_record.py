"""validation.jsonl: everything that a validation measured, so that any gate can decide again from the file alone.

Format 1 (first version). Lines are appended; each validation of a run begins with a line of kind "validation":

    validation    format, created, run_id, number (how often this run was validated, this time included), seed, timing,
                  cache, clocks, thresholds, floor {quantile95, offset_variance, offset_noise, offsets},
                  calibration (where the floor comes from), shapes, own, finalists and plain: {trial, number, acf,
                  code: {a text for each shape}} each; plain is the best without an ACF, null where that is own;
                  work and limits as in run.json, null where they are not known
    run           run (from 1), seed, created, pads_bytes, built (the arms in the order they were made), standing
                  (how the arms of each shape are timed), soak_repeats, failed {trial: {stage, message}}
    round         run, shape (from 0), look, and results of objectives/arm_times.ArmRound
    end           verdicts: what was decided at the time

A reader takes every format up to its own and refuses newer ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from helitune.objectives.arm_times import ArmRound
from helitune.objectives.json_fields import integer, integers, items, mapping, number, optional, text, texts
from helitune.objectives.outcomes import Failed

from .thresholds import Thresholds

VALIDATION_FORMAT = 1

OWN, AGAIN, PLAIN_AGAIN = "own", "own again", "plain again"
"""Arms that are no finalists: the kernel's own config, the same built again, the best without an ACF built again."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One trial in a validation: its id and number, its ACF's name ("" for none), its code on each shape."""

    trial: str
    number: int
    acf: str
    code: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {"trial": self.trial, "number": self.number, "acf": self.acf, "code": list(self.code)}

    @classmethod
    def from_json(cls, fields: Any) -> Contestant:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        return cls(
            trial=text(fields, "trial"),
            number=integer(fields, "number"),
            acf=text(fields, "acf"),
            code=texts(fields, "code"),
        )


@dataclass(frozen=True, slots=True)
class Head:
    """What was settled before anything was measured; the fields are those of the file.

    `floor` holds the fields of noise_floor.NoiseFloor, or nothing where the floor is not known; `context` holds
    what explains and decides nothing: created, run_id, timing, cache, clocks, calibration, work, limits.
    """

    number: int
    seed: int
    shapes: tuple[str, ...]
    own: Contestant
    plain: Contestant | None
    finalists: tuple[Contestant, ...]
    thresholds: Thresholds
    floor: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)

    def arms(self, open_trials: Sequence[str]) -> tuple[str, ...]:
        """The arms of a round for these finalists: both baselines, each built twice, and the finalists."""
        arms = [OWN, AGAIN]
        if self.plain is not None:
            arms += [self.plain.trial, PLAIN_AGAIN]
        return (*arms, *(trial for trial in open_trials if trial not in arms))

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "kind": "validation",
            "format": VALIDATION_FORMAT,
            **self.context,
            "number": self.number,
            "seed": self.seed,
            "shapes": list(self.shapes),
            "own": self.own.to_json(),
            "plain": self.plain.to_json() if self.plain else None,
            "finalists": [one.to_json() for one in self.finalists],
            "thresholds": json.loads(self.thresholds.to_json()),
            "floor": dict(self.floor),
        }

    @classmethod
    def from_json(cls, fields: Any, where: str) -> Head:
        """The record that `to_json` gave; ValueError or InputError for anything else."""
        known = {
            "kind",
            "format",
            "number",
            "seed",
            "shapes",
            "own",
            "plain",
            "finalists",
            "thresholds",
            "floor",
        }
        head = cls(
            number=integer(fields, "number"),
            seed=integer(fields, "seed"),
            shapes=texts(fields, "shapes"),
            own=Contestant.from_json(mapping(fields, "own")),
            plain=optional(lambda record, key: Contestant.from_json(record[key]), fields, "plain"),
            finalists=tuple(Contestant.from_json(one) for one in items(fields, "finalists")),
            thresholds=Thresholds.from_json(json.dumps(mapping(fields, "thresholds")), where),
            floor=_floor(mapping(fields, "floor")),
            context={key: value for key, value in fields.items() if key not in known},
        )
        contestants = [head.own, *head.finalists, *([head.plain] if head.plain else [])]
        if not head.shapes or any(len(one.code) != len(head.shapes) for one in contestants):
            raise ValueError("code: not one text for each shape")
        return head


def _floor(fields: dict[str, Any]) -> dict[str, Any]:
    if not fields:
        return {}
    floor = {name: number(fields, name) for name in ("quantile95", "offset_variance", "offset_noise")}
    if min(floor.values()) < 0:
        raise ValueError("floor: a number below 0")
    return {**floor, "offsets": integer(fields, "offsets")}


@dataclass(frozen=True, slots=True)
class RunHead:
    """How one run began: its process, what it allocated, and which finalists did not come through its checks."""

    run: int
    seed: int
    soak_repeats: int
    failed: Mapping[str, Failed]
    pads_bytes: tuple[int, ...] = ()
    built: tuple[str, ...] = ()
    standing: tuple[Mapping[str, Any], ...] = ()
    created: str = ""

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        return {
            "kind": "run",
            "run": self.run,
            "seed": self.seed,
            "created": self.created,
            "soak_repeats": self.soak_repeats,
            "pads_bytes": list(self.pads_bytes),
            "built": list(self.built),
            "standing": [dict(one) for one in self.standing],
            "failed": {
                trial: {"stage": one.stage, "message": one.message} for trial, one in self.failed.items()
            },
        }

    @classmethod
    def from_json(cls, fields: Any) -> RunHead:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        failed = mapping(fields, "failed")
        return cls(
            run=integer(fields, "run"),
            seed=integer(fields, "seed"),
            soak_repeats=integer(fields, "soak_repeats"),
            failed={
                trial: Failed(text(mapping(failed, trial), "stage"), text(failed[trial], "message"))
                for trial in failed
            },
            pads_bytes=integers(fields, "pads_bytes"),
            built=texts(fields, "built"),
            standing=tuple(items(fields, "standing")),
            created=text(fields, "created"),
        )


@dataclass(frozen=True, slots=True)
class RoundLine:
    """One round of one run on one shape, measured for the look of that number."""

    run: int
    shape: int
    look: int
    round: ArmRound

    def to_json(self) -> dict[str, Any]:
        """This record in JSON's types."""
        place = {"kind": "round", "run": self.run, "shape": self.shape, "look": self.look}
        return {**place, **self.round.to_json()}

    @classmethod
    def from_json(cls, fields: Any) -> RoundLine:
        """The record that `to_json` gave; ValueError with the field that is missing or of another type."""
        return cls(
            run=integer(fields, "run"),
            shape=integer(fields, "shape"),
            look=integer(fields, "look"),
            round=ArmRound.from_json(fields),
        )


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation as far as it has come: what was settled before, its runs, its rounds in the order measured."""

    head: Head
    runs: tuple[RunHead, ...] = ()
    rounds: tuple[RoundLine, ...] = ()

    def with_run(self, run: RunHead) -> Validation:
        """This validation with one more run."""
        return replace(self, runs=(*self.runs, run))

    def with_rounds(self, rounds: list[RoundLine]) -> Validation:
        """This validation with more rounds."""
        return replace(self, rounds=(*self.rounds, *rounds))

    @property
    def failed(self) -> dict[str, Failed]:
        """The finalists that failed in any run, with what they failed at first."""
        failures: dict[str, Failed] = {}
        for run in self.runs:
            for trial, one in run.failed.items():
                failures.setdefault(trial, one)
        return failures
