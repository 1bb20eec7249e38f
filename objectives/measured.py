"""Evaluate candidates on a GPU: compile as without one, recognise known code, then check and time it."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from helitune.search.candidate import Candidate
from helitune.search.space import Value

from .build import Build
from .evaluate import CompiledEvaluator
from .gpu_process import GpuProcess
from .outcomes import Compiled, Failed, Measured, Outcome
from .times import OwnTimes, Race, ShapeTimes, Tried

REACH = 1.03
"""A candidate within this of the best so far gets all rounds of a search; 3 % is beyond what noise can hide."""


class MeasuredEvaluator:
    """Outcomes of candidates on this machine's GPU; safe to use from several threads.

    `compiled` compiles, `gpu` runs, `race` says in how many rounds (its reach follows the best so far). `use_own`
    comes first: every time is beside the own config's.
    """

    def __init__(self, compiled: CompiledEvaluator, gpu: GpuProcess, race: Race | None = None) -> None:
        self._compiled = compiled
        self._gpu = gpu
        self._race = race or Race()
        self._best = math.inf
        self._floors: tuple[float | None, ...] = ()
        self._by_identity: dict[tuple[str, ...], Future[Measured | Failed]] = {}
        self._lock = threading.Lock()

    def normalise(self, rows: Sequence[Sequence[Value]]) -> list[dict[str, Any] | Failed]:
        """The normalised config of each row of slot values, or an invalid_config failure."""
        return self._compiled.normalise(rows)

    def prepare(self, candidate: Candidate) -> None:
        """Compile a candidate that may be asked for later."""
        self._compiled.evaluate(candidate)

    def build(self, candidate: Candidate) -> Build:
        """What the GPU process needs to run a candidate that `evaluate` has compiled."""
        return self._compiled.build(candidate)

    def use_own(self, candidate: Candidate) -> OwnTimes | Failed:
        """The own config's times on the GPU, or why it has none."""
        compiled = self._compiled.evaluate(candidate)
        if isinstance(compiled, Failed):
            return compiled
        own = self._compiled.build(candidate)
        times = self._gpu.use_own(own)
        if isinstance(times, Tried):
            return Failed(times.stage, times.message)
        if times.wrong:
            return Failed("wrong_output", times.wrong)
        shapes = tuple(ShapeTimes(ms, ms, (1.0,)) for ms in times.ms)
        # every time is beside the own config's: its own is 1, and so is that of whoever has its code
        self.remember(Measured.of(compiled, shapes, times.max_rel_error))
        return times

    def refuse_below(self, floors: Sequence[float | None]) -> None:
        """Refuse candidates faster than these milliseconds, one a shape, as impossible; None for no floor."""
        self._floors = tuple(floors)

    def remember(self, outcome: Outcome) -> None:
        """Recognise the code of an outcome that an earlier session measured."""
        if isinstance(outcome, Measured):
            known: Future[Measured | Failed] = Future()
            known.set_result(outcome)
            self._by_identity.setdefault(outcome.compiled.identity, known)
            self._best = min(self._best, outcome.score)

    def evaluate(self, candidate: Candidate) -> Outcome:
        """Compile, check and time `candidate`; failures are outcomes, not exceptions."""
        compiled = self._compiled.evaluate(candidate)
        if isinstance(compiled, Failed):
            return compiled
        with self._lock:
            known = self._by_identity.get(compiled.identity)
            if known is None:
                mine: Future[Measured | Failed] = Future()
                self._by_identity[compiled.identity] = mine
        if known is not None:
            return _recognised(known.result(), compiled)
        try:
            mine.set_result(self._measured(candidate, compiled))
        except BaseException as error:  # noqa: BLE001  raised again in every thread that waits
            mine.set_exception(error)
        return mine.result()

    def _measured(self, candidate: Candidate, compiled: Compiled) -> Measured | Failed:
        tried = self._gpu.try_build(
            self._compiled.build(candidate), replace(self._race, reach=self._best * REACH)
        )
        if tried.stage:
            return Failed(tried.stage, tried.message)
        impossible = self._impossible(tried.shapes)
        if impossible:
            return Failed("impossible", impossible)
        measured = Measured.of(compiled, tried.shapes, tried.max_rel_error)
        self._best = min(self._best, measured.score)
        return measured

    def _impossible(self, shapes: Sequence[ShapeTimes]) -> str:
        for shape, floor in zip(shapes, self._floors, strict=False):
            if floor is not None and shape.ms < floor:
                return (
                    f"{shape.ms * 1e3:.3g} us is less than this GPU needs to move the workload's bytes "
                    f"({floor * 1e3:.3g} us)"
                )
        return ""


def _recognised(known: Measured | Failed, compiled: Compiled) -> Outcome:
    """The outcome of a candidate whose code an earlier one had."""
    if isinstance(known, Failed):
        return Failed(known.stage, f"the same code as an earlier candidate: {known.message}")
    return replace(known, compiled=compiled, same_code=True)
