"""The configs measured before any search: the kernel's own, Helion's default, and Helion's seeds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from helitune.search.candidate import canonical
from helitune.search.space import Value


@dataclass(frozen=True, slots=True)
class Baseline:
    """A config measured before any search: `name` says whose ("own", "helion default", "helion seed 2").

    `slots` are its values in the config space; `acf_path` is the ACF it brings, "" for none.
    """

    name: str
    config: dict[str, Any]
    slots: tuple[Value, ...]
    acf_path: str


def baseline_configs(bound: Any) -> list[tuple[str, Any]]:
    """The kernel's own configs, Helion's default and its seeds, named, without repeats."""
    spec = bound.config_spec
    named = [("own" if i == 0 else f"own {i + 1}", config) for i, config in enumerate(bound.kernel.configs)]
    named.append(("helion default" if named else "own", spec.default_config()))
    seeds = spec.create_config_generation().seed_flat_config_pairs()
    named += [(f"helion seed {i + 1}", config) for i, (_, config) in enumerate(seeds)]
    kept: dict[str, tuple[str, Any]] = {}
    for name, config in named:
        kept.setdefault(canonical(as_json(spec.normalized_config(config))), (name, config))
    return list(kept.values())


def without_acf(config: Any) -> dict[str, Any]:
    """A Helion config as a dict, without the ACF it names."""
    return {key: value for key, value in dict(config).items() if key != "advanced_controls_file"}


def acf_path(config: Any) -> str:
    """The path of the ACF that a Helion config names, "" for none."""
    return str(dict(config).get("advanced_controls_file") or "")


def as_json(config: Any) -> dict[str, Any]:
    """A Helion config as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(config)))
    return plain
