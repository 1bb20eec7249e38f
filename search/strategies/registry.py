"""Strategies by the name that `--strategy` takes. Adding one is a file and a line here."""

from __future__ import annotations

from helitune.acfs.errors import InputError

from . import compileiq, grid, random_search, staged
from .contract import Strategy

STRATEGIES: dict[str, Strategy] = {
    "compileiq": compileiq.search,
    "random": random_search.search,
    "grid": grid.search,
    "staged": staged.search,
}


def find_strategy(name: str) -> Strategy:
    """The strategy called `name`; raises InputError listing the names there are."""
    if name not in STRATEGIES:
        raise InputError(
            f"unknown strategy {name!r}", where="--strategy", next_step=f"choose from {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[name]
