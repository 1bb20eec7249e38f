"""The options of evolution that `tune` and `evolve` share, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from helitune.acfs.ptxas import find_ptxas
from helitune.acfs.search_space import AUTO, find_search_space
from helitune.results.evolution_request import EvolutionRequest
from helitune.results.run_directory import working_folder
from helitune.results.warm_start import resolve_source

JOINT_POPULATION = 16
ENDLESS = 10**6
"""Generations of a search that its budget ends."""

SearchSpaceOption = Annotated[
    str | None,
    typer.Option(
        "--search-space",
        metavar="FILE.bin|auto",
        help="Evolve ACFs in this space; auto is CompileIQ's for this ptxas.",
    ),
]
WarmStartOption = Annotated[
    list[str] | None,
    typer.Option(
        "--warm-start", metavar="RUN|PACK", help="Try the ACFs of this run or pack first; repeatable."
    ),
]


def warm_sources(given: Sequence[str] | None) -> tuple[str, ...]:
    """The absolute paths of the runs and packs of --warm-start; InputError for what is neither."""
    return tuple(resolve_source(text, working_folder()) for text in given or ())


def evolution(
    given: str,
    ptxas: str | None,
    *,
    config: str,
    origin: str,
    generations: int,
    population: int,
    after: int = 0,
) -> EvolutionRequest:
    """The request to evolve in the space of --search-space; raises UserError where there is none."""
    space = find_search_space(given, find_ptxas(ptxas))
    return EvolutionRequest(
        given=AUTO if given == AUTO else str(Path(given).absolute()),
        path=str(space.path),
        sha256=space.sha256,
        config=config,
        origin=origin,
        generations=generations,
        population=population,
        shortlist_after=after,
    )


def joint_evolution(given: str | None, ptxas: str | None, budget: int) -> EvolutionRequest | None:
    """The request of `tune --search-space`: ACFs beside the configs of the kernel; None without the option."""
    if given is None:
        return None
    return evolution(
        given,
        ptxas,
        config="",
        origin="",
        generations=ENDLESS,
        population=JOINT_POPULATION,
        after=budget // 2,
    )
