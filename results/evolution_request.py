"""What `evolve`, and `tune` with a search space, were asked to breed: the part of a request that is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.acfs.search_space import SearchSpace, read_search_space
from helitune.objectives.json_fields import integer, sha256, text

OWN_CONFIG = "own"
"""The kernel's own config, whatever it is in the kernel's file."""


@dataclass(frozen=True, slots=True)
class EvolutionRequest:
    """The search space that ACFs are bred in, for which config, and for how long.

    `given` is what --search-space said, "auto" or a file; `path` and `sha256` are the file it came to. `config` is
    "own", a config as canonical JSON, or "" for all configs of the kernel jointly; `origin` says where a JSON config
    came from. `generations` of `population` valid candidates end the search; `shortlist_after` is how many candidates
    are spent on configs before ACFs are bred for the best of these, 0 to breed both jointly.
    """

    given: str
    path: str
    sha256: str
    config: str
    origin: str
    generations: int
    population: int
    shortlist_after: int = 0

    @classmethod
    def from_json(cls, stored: Any) -> EvolutionRequest:
        """The request that `dataclasses.asdict` gave; ValueError with what is missing or of another type."""
        return cls(
            given=text(stored, "given"),
            path=text(stored, "path"),
            sha256=sha256(stored, "sha256"),
            config=text(stored, "config"),
            origin=text(stored, "origin"),
            generations=integer(stored, "generations"),
            population=integer(stored, "population"),
            shortlist_after=integer(stored, "shortlist_after"),
        )

    @property
    def whole_space(self) -> bool:
        """Whether configs are searched, too."""
        return not self.config

    def search_space(self) -> SearchSpace:
        """The search space itself; InputError where the file is gone or another than at the start."""
        space = read_search_space(Path(self.path))
        if space.sha256 != self.sha256:
            raise InputError(
                f"the search space has changed: {space.sha256[:12]}, at the start {self.sha256[:12]}",
                where=self.path,
                next_step="put the old one back, or start a new run",
            )
        return space
