"""CompileIQ's engine (amber, NSGA-3) over ptxas's controls, alone or beside axes of indices, by ask and tell.

Its manual mode is used: its own workers do not survive a candidate that crashes. A generation advances when nothing
is pending and as many valid results are in as the population has members; failed candidates come back as a batch of
replacements. A search space file is an opaque input of the engine, and the ACFs that it makes are opaque bytes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError

FAILED = "*"
"""CompileIQ's own mark for a failed candidate."""

LEAST_POPULATION = 6
MOST_POPULATION = 4096


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of indices: its number of choices, and the probability that the first generation leaves it out.

    A knockout of None means that no candidate leaves it out.
    """

    choices: int
    knockout: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One candidate: the index on each axis by name, those left out missing, and the bytes of its ACF."""

    axes: Mapping[str, int]
    controls: bytes


class Amber:
    """The engine on the search space file `controls`; `folder` is for its own files.

    Raises InputError for a file that CompileIQ does not take.
    """

    def __init__(
        self,
        controls: Path,
        axes: Mapping[str, Axis],
        *,
        seed: int,
        population: int,
        options: Mapping[str, float],
        folder: Path,
    ) -> None:
        try:
            self._search = _manual_search(_spaces(controls, axes), seed, population, options, folder)
        except (RuntimeError, OSError) as error:
            raise _refused(controls, error) from error
        self._controls = controls
        self._asked: list[Any] = []

    @property
    def generation(self) -> int:
        """Generations that are complete."""
        return int(self._search.current_generation)

    def ask(self, count: int | None = None) -> list[Asked]:
        """The next batch: a generation, or replacements for the failed ones of the last batch.

        `count` asks for more than the population, which then all count in that generation.
        """
        try:
            self._asked = self._search.ask(count)
        except RuntimeError as error:  # the file is first read here
            raise _refused(self._controls, error) from error
        return [_asked(candidate.params) for candidate in self._asked]

    def tell(self, scores: Sequence[float | None]) -> None:
        """The scores of the batch that was asked, in its order, lower is better; None for a failed candidate."""
        from compileiq.utils.validation import Score

        told = [
            Score(param_id=one.param_id, score=FAILED if score is None else score, num_objectives=1)
            for one, score in zip(self._asked, scores, strict=True)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one line for every batch with a failed candidate
            self._search.tell(told)


def _spaces(controls: Path, axes: Mapping[str, Axis]) -> Any:
    from compileiq.search_spaces.base import choice

    if not axes:
        return controls
    indices = {name: choice(list(range(a.choices)), knockout_prob=a.knockout) for name, a in axes.items()}
    return [indices, controls]


def _manual_search(
    spaces: Any, seed: int, population: int, options: Mapping[str, float], folder: Path
) -> Any:
    # CompileIQ's manual mode sets the start method of multiprocessing; nothing here uses that
    os.environ.setdefault("CIQ_PROCESS_MODE", "forkserver")
    from compileiq.backends import EngineConfig
    from compileiq.ciq import Search
    from compileiq.types import SearchConfiguration, WorkerTypes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Search(
            objective_function=_never_called,
            search_space=spaces,
            search_config=SearchConfiguration(problem_type="min", generations=10**6, pool_size=population),
            worker_type=WorkerTypes.MANUAL,
            engine=EngineConfig(name="amber", options={"seed": seed, **options}),
            exit_on_failure=False,
            cache_folder=folder,
            disable_progress_bar=True,
        )


def _asked(params: Any) -> Asked:
    if isinstance(params, str):
        return Asked({}, bytes.fromhex(params))
    indices, controls = params
    return Asked({name: int(index) for name, index in indices.items()}, bytes.fromhex(controls))


def _refused(controls: Path, error: Exception) -> InputError:
    return InputError(
        f"CompileIQ does not take this search space: {error}",
        where=str(controls),
        next_step="give a file that CompileIQ distributes, for the ptxas in use",
    )


def _never_called(**params: object) -> float:
    raise AssertionError("CompileIQ's manual mode does not call the objective")
