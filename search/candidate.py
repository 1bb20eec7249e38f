"""A candidate: one kernel config with one ACF or none, and the name that both give it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helitune.acfs.acf import NO_ACF, Acf

Config = Mapping[str, Any]
"""A normalised Helion config as plain JSON values, without advanced_controls_file."""


def canonical(config: Config) -> str:
    """The config as JSON with sorted keys: equal configs give equal text."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is compiled, checked and measured: `config` as canonical JSON text, and the ACF."""

    config_json: str
    acf: Acf = NO_ACF

    @classmethod
    def of(cls, config: Config, acf: Acf = NO_ACF) -> Candidate:
        """The candidate of a normalised config and an ACF."""
        return cls(canonical(config), acf)

    @property
    def config(self) -> dict[str, Any]:
        """A fresh copy of the config."""
        loaded: dict[str, Any] = json.loads(self.config_json)
        return loaded

    @property
    def id(self) -> str:
        """16 hex digits that name config and ACF content, the same in every run and on every machine."""
        return hashlib.sha256(f"{self.config_json}\0{self.acf.sha256}".encode()).hexdigest()[:16]
