"""Every number a gate decides by, in one frozen record with three presets."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from helitune.acfs.errors import InputError

GATES = ("strict", "article")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a gate decides by. Shares and effects are fractions (0.005 is 0.5 %), counts are whole numbers.

    `alpha` is the one-sided family-wise error of FASTER, and of SLOWER, over finalists × shapes. It is split
    over the preplanned `looks` (rounds per run at each) by `spend`, so that looking again costs nothing.
    `shared_share` is the share of the A/A offset variance that new runs are assumed not to average away; up
    to `max_runs` it keeps false FASTER of the best of 24 within 1 % even where runs share all of it
    (benchmarks/gate.py). `runs_above` is the share of runs whose own point must be above the floor.
    `p95_worse` and `spread_wider` bound the candidate over the baseline; `max_pair_sd` is the standard
    deviation of a round's log ratio beyond which the last look ends as UNSTABLE. Where a line needs a test of
    its own (autocorrelation, order), `nuisance_level` is its level. `welch_p` and `cohen_d` are the article's.
    """

    gate: str = "strict"
    alpha: float = 0.05
    min_effect: float = 0.005
    runs: int = 2
    looks: tuple[int, ...] = (10, 20, 40)
    spend: tuple[float, ...] = (0.2, 0.2, 0.6)
    shared_share: float = 0.15
    runs_above: float = 1.0
    min_offsets: int = 20
    nuisance_level: float = 0.01
    p95_worse: float = 0.02
    spread_wider: float = 0.25
    max_throttled: float = 0.2
    max_pair_sd: float = 0.2
    soak_repeats: int = 100
    power: float = 0.95
    max_runs: int = 12
    min_samples: int = 5
    welch_p: float = 0.05
    cohen_d: float = 0.2

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise ValueError(problem)

    def to_json(self) -> str:
        """A JSON object with every field, in the order of the record."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def runs_spared(self, runs: int) -> int:
        """How many of `runs` runs may have their own point within the floor; 0 at `runs_above` of 1."""
        return math.floor(runs * (1 - self.runs_above) + 1e-9)

    @classmethod
    def from_json(cls, text: str, where: str = "") -> Thresholds:
        """The thresholds written in `text`; a field left out keeps the strict value.

        InputError for anything that is not a JSON object of known fields with values of the right kind.
        """
        next_step = "start from what --dump-thresholds prints"
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict):
                raise ValueError("thresholds are a JSON object")
            return cls(**{name: _typed(name, value) for name, value in fields.items()})
        except ValueError as error:
            raise InputError(f"bad thresholds: {error}", where=where, next_step=next_step) from error


def _typed(name: str, value: Any) -> Any:
    """`value` as field `name` holds it; ValueError where the field is unknown or the kind is wrong."""
    defaults = {field.name: field.default for field in dataclasses.fields(Thresholds)}
    if name not in defaults:
        raise ValueError(f"unknown field {name!r}")
    default = defaults[name]
    if isinstance(default, tuple):
        if not isinstance(value, list):
            raise ValueError(f"{name} is a list")
        return tuple(_scalar(name, item, default[0]) for item in value)
    return _scalar(name, value, default)


def _scalar(name: str, value: Any, like: Any) -> Any:
    if isinstance(like, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(like):
        raise ValueError(f"{name} is {value!r}, expected {type(like).__name__}")
    return value


def _problem(t: Thresholds) -> str:
    """What is wrong with the values, or ""."""
    if t.gate not in GATES:
        return f"gate is {t.gate!r}, not one of {', '.join(GATES)}"
    bounds = {
        "alpha": (0, 0.5),
        "power": (0, 1),
        "nuisance_level": (0, 1),
        "runs_above": (0, 1 + 1e-9),
        "welch_p": (0, 1),
        "max_throttled": (-1e-9, 1),
    }
    for name, (low, high) in bounds.items():
        if not low < getattr(t, name) < high:
            return f"{name} is {getattr(t, name)}, not between {max(low, 0):g} and {high:.3g}"
    for name in ("min_effect", "p95_worse", "spread_wider", "max_pair_sd", "cohen_d", "shared_share"):
        if not 0 <= getattr(t, name) < math.inf:
            return f"{name} is {getattr(t, name)}, not a finite number of 0 or more"
    if t.shared_share > 1:
        return f"shared_share is {t.shared_share}, more than 1"
    for name, least in {
        "runs": 1,
        "min_offsets": 2,
        "min_samples": 3,
        "soak_repeats": 0,
        "max_runs": t.runs,
    }.items():
        if getattr(t, name) < least:
            return f"{name} is {getattr(t, name)}, less than {least}"
    return _look_problem(t)


def _look_problem(t: Thresholds) -> str:
    if not t.looks or len(t.looks) != len(t.spend):
        return "looks and spend are of the same length, at least 1"
    if t.looks[0] < 3 or any(b <= a for a, b in zip(t.looks, t.looks[1:], strict=False)):
        return "looks rise, from at least 3 rounds"
    if not all(share > 0 for share in t.spend) or not sum(t.spend) <= 1 + 1e-9:
        return "the shares of spend are above 0 and sum to at most 1"
    return ""


STRICT = Thresholds()
ARTICLE = Thresholds(gate="article")
QUICK = Thresholds(runs=1, looks=(10,), spend=(1.0,))
PRESETS = {"strict": STRICT, "article": ARTICLE, "quick": QUICK}
