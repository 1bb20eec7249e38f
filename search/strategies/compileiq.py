"""CompileIQ's evolutionary search (engine amber, NSGA-3) over the joint space, through ask and tell.

Each dimension is a choice over its indices: CompileIQ coerces mixed types and takes no lists. A generation
advances only when nothing is pending, so each is drained; failed candidates are told as "*", and amber
replaces them before it moves on.

The engine cannot be given known points, and in a joint space of 10^12 and more, evolution from uniform draws
spends any budget on configs that nobody would write. Its knockout does what seeding would: a parameter that is
knocked out of a candidate takes the value that the best known config (a baseline) has there. The first
generation is thus a set of variations of that config, and evolution turns further axes on and off.

In a space that holds little more than a generation, or once it has converged, the engine finds no untried
candidate: what it left is drawn at random.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helitune.search.space import Genome, JointSpace

from . import random_search
from .contract import Evaluate

POOL_SIZE = 16
MUTATION_PROBABILITY = 0.1
"""amber's default converges too early on joint problems: median gap to the optimum .200 against .108 with 0.1
on synthetic joint problems of 200 evaluations."""

CONFIG_KNOCKOUT = 0.8
ACF_KNOCKOUT = 0.5
"""Share of the first generation that keeps the best known config's value, for each axis: of 20 config axes
about 4 vary at once, and half of the candidates try an ACF."""

FAILED = "*"
"""CompileIQ's own mark for a failed candidate."""


def search(space: JointSpace, evaluate: Evaluate, /, *, seed: int, known: Mapping[Genome, float]) -> None:
    """Evolve genomes until `evaluate` ends the search or the space is exhausted."""
    tried = dict(known)

    def evaluate_and_note(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        scores = evaluate(batch, upcoming)
        tried.update(dict.fromkeys(batch, 0.0))  # random search only asks what was tried
        return scores

    if space.size > 1:
        _evolve(space, evaluate_and_note, seed, known)
    random_search.search(space, evaluate, seed=seed, known=tried)


def _evolve(space: JointSpace, evaluate: Evaluate, seed: int, known: Mapping[Genome, float]) -> None:
    """Generations of amber around the best of `known`, until it finds no untried candidate."""
    with tempfile.TemporaryDirectory(prefix="helitune-ciq-") as folder:
        start = min(known, key=lambda genome: (known[genome], genome), default=(0,) * len(space.lengths))
        evolution = Evolution(space, seed, Path(folder), start=start, seeded=bool(known))
        while asked := evolution.ask():
            evolution.tell(evaluate(asked))


class Evolution:
    """Generations of amber on a space: `ask` for one, `tell` the scores of all of it, and again.

    `folder` is scratch space. `seeded` makes the first generation variations of `start`.
    """

    def __init__(
        self,
        space: JointSpace,
        seed: int,
        folder: Path,
        *,
        start: Genome,
        seeded: bool,
        pool_size: int = POOL_SIZE,
    ) -> None:
        self._start = start
        self._engine = _engine(space, seed, folder, seeded=seeded, pool_size=pool_size)
        self._asked: list[Any] = []

    def ask(self) -> list[Genome]:
        """The genomes of the next generation, or of what replaces its failed ones; empty once none are left."""
        from compileiq.backends import SearchSpaceExhaustedError

        try:
            self._asked = self._engine.ask()
        except (SearchSpaceExhaustedError, ValueError) as error:
            if "nique candidates" in str(error) or isinstance(error, SearchSpaceExhaustedError):
                return []
            raise
        return [_genome(self._start, candidate.params) for candidate in self._asked]

    def tell(self, scores: Sequence[float | None]) -> None:
        """The scores of the genomes that `ask` gave, in their order; None for a failed one."""
        from compileiq.utils.validation import Score

        told = [
            Score(param_id=c.param_id, score=FAILED if score is None else score, num_objectives=1)
            for c, score in zip(self._asked, scores, strict=True)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one line for every batch with a failed candidate
            self._engine.tell(told)


def _engine(space: JointSpace, seed: int, folder: Path, *, seeded: bool, pool_size: int) -> Any:
    # CompileIQ's manual mode sets the start method of multiprocessing; nothing here uses that
    os.environ.setdefault("CIQ_PROCESS_MODE", "forkserver")
    from compileiq.backends import EngineConfig
    from compileiq.ciq import Search
    from compileiq.search_spaces.base import choice
    from compileiq.types import SearchConfiguration, WorkerTypes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Search(
            objective_function=_never_called,
            search_space={
                _name(axis): choice(
                    list(range(length)), knockout_prob=_knockout(space, axis) if seeded else None
                )
                for axis, length in enumerate(space.lengths)
                if length > 1
            },
            search_config=SearchConfiguration(problem_type="min", generations=10**6, pool_size=pool_size),
            worker_type=WorkerTypes.MANUAL,
            engine=EngineConfig(
                name="amber", options={"seed": seed, "mutation_probability": MUTATION_PROBABILITY}
            ),
            exit_on_failure=False,
            cache_folder=folder,
            disable_progress_bar=True,
        )


def _never_called(**params: object) -> float:
    raise AssertionError("CompileIQ's manual mode does not call the objective")


def _name(axis: int) -> str:
    return f"axis{axis:03d}"


def _knockout(space: JointSpace, axis: int) -> float:
    return ACF_KNOCKOUT if axis == len(space.dimensions) else CONFIG_KNOCKOUT


def _genome(start: Genome, params: Any) -> Genome:
    """The genome of one asked candidate: axes that were knocked out are those of `start`."""
    return tuple(int(params.get(_name(axis), index)) for axis, index in enumerate(start))
