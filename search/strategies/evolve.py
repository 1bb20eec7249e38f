"""Evolve ACFs with CompileIQ: for one config, for a shortlist of configs, or jointly with all config axes.

The space must be a BredSpace. For one config the engine searches ptxas's controls alone; for a shortlist one more
axis chooses the config; jointly, every config axis is one more, and another says whether a candidate takes the bred
ACF, a listed one or none. Known points cannot be given to the engine: on an axis that it leaves out, a candidate has
what the best known config has.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helitune.search.evolution import BredSpace
from helitune.search.space import Genome, JointSpace

from .amber import Amber, Asked, Axis
from .contract import Evaluate, Strategy

OPTIONS: dict[str, float] = {}
"""Options of amber for ptxas's controls; none is better than its own (docs/measurements.md)."""

JOINT_OPTIONS = {"mutation_probability": 0.1}
"""As search/strategies/compileiq.py has for config axes."""

CONFIG_KNOCKOUT = 0.8
ACF_KNOCKOUT = 0.5
"""Share of the first generation that takes the bred ACF; the others take a listed one or none."""

SHORTLIST = 4
"""Configs that ACFs are bred for together: the best ones of different scores."""

MOST_REFILLS = 20
"""Batches of replacements in a row that complete no generation; a config that fails with every ACF has no other end."""

_ACF, _CONFIG = "acf", "config"


@dataclass(frozen=True, slots=True)
class Breeding:
    """How ACFs are bred: the search space file, generations at most, and valid candidates in each of them.

    The first generation, which is drawn at random, has `first` candidates where that is more than `population`.
    `options` are amber's own, None for those that are best here.
    """

    controls: Path
    generations: int
    population: int
    first: int = 0
    options: Mapping[str, float] | None = None


def for_configs(
    space: JointSpace,
    evaluate: Evaluate,
    /,
    *,
    seed: int,
    known: Mapping[Genome, float],
    shortlist: Sequence[Genome],
    breeding: Breeding,
    with_listed: bool = False,
) -> None:
    """Breed ACFs for the configs of `shortlist`, all of them in one search.

    With `with_listed` candidates may take a listed ACF, or none, in place of the bred one.
    """
    axes = {_CONFIG: Axis(len(shortlist))} if len(shortlist) > 1 else {}
    if with_listed:
        axes[_ACF] = Axis(space.lengths[-1], ACF_KNOCKOUT)

    def genome(asked: Asked, acf: int) -> Genome:
        return space.with_acf(shortlist[asked.axes.get(_CONFIG, 0)], acf)

    _breed(space, evaluate, seed, breeding, OPTIONS, axes, genome)


def jointly(
    space: JointSpace,
    evaluate: Evaluate,
    /,
    *,
    seed: int,
    known: Mapping[Genome, float],
    breeding: Breeding,
) -> None:
    """Breed configs and ACFs together, around the best of `known`."""
    start = min(known, key=lambda genome: (known[genome], genome), default=(0,) * len(space.lengths))
    knockout = CONFIG_KNOCKOUT if known else None
    axes = {
        _name(number): Axis(length, knockout)
        for number, length in enumerate(space.lengths[:-1])
        if length > 1
    }
    axes[_ACF] = Axis(space.lengths[-1], ACF_KNOCKOUT)

    def genome(asked: Asked, acf: int) -> Genome:
        config = (asked.axes.get(_name(number), index) for number, index in enumerate(start[:-1]))
        return (*config, acf)

    _breed(space, evaluate, seed, breeding, JOINT_OPTIONS, axes, genome)


def shortlisted(
    space: JointSpace,
    evaluate: Evaluate,
    /,
    *,
    seed: int,
    known: Mapping[Genome, float],
    explore: Strategy,
    configs: int,
    breeding: Breeding,
) -> None:
    """Let `explore` propose that many configs without an ACF, then breed ACFs for the best of them."""
    scores = {genome: score for genome, score in known.items() if genome[-1] == 0}
    explored = _Explored(evaluate, configs, scores)
    try:
        explore(JointSpace(space.dimensions, ()), explored, seed=seed, known=dict(scores))
    except _EnoughConfigs:
        pass
    best = {explored.scores[genome]: genome for genome in sorted(explored.scores, reverse=True)}
    shortlist = [best[score] for score in sorted(best)[:SHORTLIST]]
    if shortlist:
        for_configs(
            space,
            evaluate,
            seed=seed,
            known=known,
            shortlist=shortlist,
            breeding=breeding,
            with_listed=len(space.acfs) > 1,
        )


class _EnoughConfigs(Exception):
    """Raised when as many configs were proposed as ACFs are to be bred after."""


class _Explored:
    """The `evaluate` of the configs: `scores` grows until `most` were proposed."""

    def __init__(self, evaluate: Evaluate, most: int, scores: dict[Genome, float]) -> None:
        self._evaluate = evaluate
        self._left = most
        self.scores = scores

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        now = batch[: self._left]
        answers = self._evaluate(now, upcoming)
        self._left -= len(now)
        self.scores.update((g, score) for g, score in zip(now, answers, strict=True) if score is not None)
        if self._left <= 0:
            raise _EnoughConfigs
        return answers


def _breed(
    space: JointSpace,
    evaluate: Evaluate,
    seed: int,
    breeding: Breeding,
    options: Mapping[str, float],
    axes: Mapping[str, Axis],
    genome: Callable[[Asked, int], Genome],
) -> None:
    """Generations, until they are as many as wanted or no replacement is valid; `genome` places a candidate."""
    assert isinstance(space, BredSpace), "nowhere to keep what is bred"
    with tempfile.TemporaryDirectory(prefix="helitune-ciq-") as folder:
        engine = Amber(
            breeding.controls,
            axes,
            seed=seed,
            population=breeding.population,
            options=options if breeding.options is None else breeding.options,
            folder=Path(folder),
        )
        refills = 0
        first: int | None = max(breeding.first, breeding.population)
        while engine.generation < breeding.generations and refills <= MOST_REFILLS:
            before = engine.generation
            asked = engine.ask(first)
            first = None
            engine.tell(evaluate(_genomes(space, asked, before, genome)))
            refills = 0 if engine.generation > before else refills + 1


def _genomes(
    space: BredSpace, asked: Sequence[Asked], generation: int, genome: Callable[[Asked, int], Genome]
) -> list[Genome]:
    """The genome of each candidate; only those that take the bred ACF have it kept."""
    takes_bred = [one for one in asked if _ACF not in one.axes]
    bred = iter(space.breed([one.controls for one in takes_bred], generation=generation))
    return [genome(one, one.axes[_ACF] if _ACF in one.axes else next(bred)) for one in asked]


def _name(axis: int) -> str:
    return f"axis{axis:03d}"
