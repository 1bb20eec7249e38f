"""Evaluate candidates without a GPU: normalise, lower once a config, assemble once an ACF, score."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from helitune.acfs.errors import MachineError
from helitune.acfs.paths import CACHE_VARIABLE
from helitune.search.candidate import Candidate
from helitune.search.space import Value

from .artifact import Artifact
from .artifacts import Assembler, PtxLost
from .assemble import AssembleFailed, AssembleTimeout
from .bound_shape import LoweredLaunch
from .build import Build, LaunchBuild, ShapeBuild
from .compiled_objectives import Objective, Score
from .elf import CubinError
from .issue_slots import DoesNotFit
from .kernel_host import Description
from .outcomes import Compiled, Failed, Outcome
from .targets import Target
from .worker_pool import CallFailed, WorkerDied, WorkerPool, WorkerTimeout

NORMALISE_TIMEOUT_S = 120.0

_INVALID = ("InvalidConfig", "TileTooLarge")
"""Exceptions of a worker that say the config is invalid, not that compiling it failed."""


class CompiledEvaluator:
    """Outcomes of candidates for one workload, target and objective; safe to use from several threads.

    `description` is the workload's, as the pool's workers gave it.
    """

    def __init__(
        self,
        pool: WorkerPool,
        assembler: Assembler,
        description: Description,
        *,
        target: Target,
        objective: Objective,
        compile_timeout_s: float,
    ) -> None:
        self._pool = pool
        self._assembler = assembler
        self._description = description
        self._target = target
        self._objective = objective
        self._timeout_s = compile_timeout_s
        self._known: dict[str, Future[Compiled | Failed]] = {}
        self._lowered: dict[str, Future[tuple[tuple[LoweredLaunch, ...], ...] | Failed]] = {}
        self._lock = threading.Lock()

    def normalise(self, rows: Sequence[Sequence[Value]]) -> list[dict[str, Any] | Failed]:
        """The normalised config of each row of slot values, or an invalid_config failure."""
        answers = self._pool.call("normalise", [tuple(row) for row in rows], timeout_s=NORMALISE_TIMEOUT_S)
        return [Failed("invalid_config", a) if isinstance(a, str) else a for a in answers]

    def evaluate(self, candidate: Candidate) -> Compiled | Failed:
        """Compile `candidate` on every shape and score it; failures are outcomes, not exceptions.

        Known ones are answered from memory. Raises MachineError where the compile cache cannot be written.
        """
        with self._lock:
            known = self._known.get(candidate.id)
            if known is None:
                mine: Future[Compiled | Failed] = Future()
                self._known[candidate.id] = mine
        if known is not None:
            return known.result()
        try:
            mine.set_result(self._evaluated(candidate))
        except BaseException as error:  # noqa: BLE001  raised again in every thread that waits
            mine.set_exception(error)
        return mine.result()

    def _evaluated(self, candidate: Candidate) -> Compiled | Failed:
        try:
            return self._evaluate(candidate)
        except PtxLost:
            with self._lock:
                self._lowered.pop(candidate.config_json, None)
        try:
            return self._evaluate(candidate)
        except PtxLost as error:
            raise MachineError(
                "the compile cache does not keep what is written to it",
                next_step=f"free some space there, or set {CACHE_VARIABLE} to a folder you can write to",
            ) from error

    def _evaluate(self, candidate: Candidate) -> Compiled | Failed:
        lowered = self._lower_once(candidate)
        if isinstance(lowered, Failed):
            return lowered
        try:
            artifacts = tuple(
                tuple(self._assembler.artifact(launch, candidate.acf) for launch in launches)
                for launches in lowered
            )
            scores = [self._score(shape, index) for index, shape in enumerate(artifacts)]
        except AssembleTimeout as error:
            return Failed("compile_timeout", str(error))
        except (AssembleFailed, CubinError) as error:
            return Failed("compile", str(error))
        except (WorkerTimeout, WorkerDied) as error:
            return Failed("compile", f"the cubin could not be read: {error}")
        except DoesNotFit as error:
            return Failed("launch", str(error))
        return Compiled(
            score=_combined([s.score for s in scores]),
            tie_breaker=_combined([s.tie_breaker for s in scores]),
            values=tuple(s.value for s in scores),
            artifacts=artifacts,
            bounds=tuple(s.bound for s in scores),
            host=tuple(launches[0].host_sha256 for launches in lowered),
        )

    def launches(self, candidate: Candidate) -> tuple[tuple[LoweredLaunch, ...], ...]:
        """The lowered launches of the candidate's config, one tuple a shape; raises ValueError where it has none."""
        lowered = self._lower_once(candidate)
        if isinstance(lowered, Failed):
            raise ValueError(f"{lowered.stage}: {lowered.message}")
        return lowered

    def prepare(self, candidate: Candidate) -> None:
        """Compile a candidate that may be asked for later."""
        self.evaluate(candidate)

    def remember(self, outcome: Outcome) -> None:
        """Nothing: what was compiled before lies in the cache."""

    def build(self, candidate: Candidate) -> Build:
        """What the GPU process needs to run a candidate that `evaluate` has compiled."""
        return tuple(
            ShapeBuild(
                host_path=launches[0].host_path,
                host_name=launches[0].host_name,
                launches=tuple(
                    LaunchBuild(launch.ptx_key, self._assembler.cubin_key(launch, candidate.acf))
                    for launch in launches
                ),
            )
            for launches in self.launches(candidate)
        )

    def _score(self, artifacts: tuple[Artifact, ...], shape: int) -> Score:
        return self._objective.score(artifacts, self._target, self._description.bytes_moved[shape])

    def _lower_once(self, candidate: Candidate) -> tuple[tuple[LoweredLaunch, ...], ...] | Failed:
        """The launches of the candidate's config on each shape; other threads wait for the first that asks."""
        with self._lock:
            known = self._lowered.get(candidate.config_json)
            if known is None:
                mine: Future[tuple[tuple[LoweredLaunch, ...], ...] | Failed] = Future()
                self._lowered[candidate.config_json] = mine
        if known is not None:
            return known.result()
        try:
            mine.set_result(self._lower(candidate))
        except BaseException as error:  # noqa: BLE001  raised again in every thread that waits
            mine.set_exception(error)
        return mine.result()

    def _lower(self, candidate: Candidate) -> tuple[tuple[LoweredLaunch, ...], ...] | Failed:
        shapes = range(len(self._description.record.shapes))
        try:
            return tuple(
                tuple(self._pool.call("build", candidate.config, shape, timeout_s=self._timeout_s))
                for shape in shapes
            )
        except WorkerTimeout:
            return Failed("compile_timeout", f"Triton took more than {self._timeout_s:g} s")
        except WorkerDied as error:
            return Failed("compile", f"the compiler crashed or ran out of memory: {error}")
        except CallFailed as error:
            stage = "invalid_config" if error.kind in _INVALID else "compile"
            stage = "launch" if error.kind == "NeedsTooMuchShared" else stage
            return Failed(stage, f"{error.kind}: {error}")


def read_in_worker(pool: WorkerPool) -> Callable[[LoweredLaunch, str], Artifact]:
    """Reads cubins in the pool's workers, for Assembler."""

    def read(launch: LoweredLaunch, cubin_key: str) -> Artifact:
        try:
            artifact: Artifact = pool.call("read_artifact", launch, cubin_key, timeout_s=NORMALISE_TIMEOUT_S)
        except CallFailed as error:
            raise (PtxLost if error.kind == PtxLost.__name__ else CubinError)(str(error)) from error
        return artifact

    return read


def _combined(values: Sequence[float]) -> float:
    """One number for several shapes: the geometric mean, so that each shape counts alike.

    Scores that can be zero or negative (spills, negated occupancy) are averaged instead.
    """
    if len(values) == 1:
        return values[0]  # exp(log(x)) is not quite x
    if all(value > 0 for value in values):
        return math.exp(math.fsum(math.log(value) for value in values) / len(values))
    return math.fsum(values) / len(values)
