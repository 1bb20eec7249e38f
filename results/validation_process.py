"""One run of a validation: every arm compiled anew, checked, and standing beside the others in a process of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from helitune.acfs.errors import InputError, MachineError, NegativeVerdict
from helitune.objectives.arm_times import ArmRound, Standing
from helitune.objectives.build import Build
from helitune.objectives.gpu_process import GpuProcess
from helitune.objectives.outcomes import Compiled, Failed
from helitune.objectives.times import Race, Tried

from .session import Session
from .trial import Trial
from .validation_record import AGAIN, OWN, PLAIN_AGAIN, RunHead

CHECK = Race(first=1, near=1, replays=1)
"""A candidate is checked on every case; the single round that follows is not looked at."""

LATER_REPEATS = 10
"""Repeats of the soak in the runs after the first, whose soak is the long one."""

ROUNDS_A_CALL = 5
SPARE_TIMES, SPARE_S = 10, 60.0
"""A call that takes so many times what its rounds should take, and so much longer, hangs."""


class RunProcess:
    """A run: `session` is new and has an empty cache, `seed` decides placement, inputs and orders.

    The session is the caller's to end. `prepare` comes first.
    """

    def __init__(self, session: Session, number: int, seed: int) -> None:
        assert session.gpu is not None
        self.number = number
        self._session = session
        self._gpu: GpuProcess = session.gpu
        self._seed = seed
        self._rng = random.Random(f"orders {seed}")
        self._standing: list[Standing] = []

    def prepare(self, own: Trial, plain: Trial | None, finalists: Sequence[Trial], repeats: int) -> RunHead:
        """The record of the run's beginning: arms compiled, compared with what was tuned, checked, soaked, standing.

        A finalist that fails at any of this is in `failed`. Raises InputError where the own config has become
        other code, NegativeVerdict where its output is wrong, MachineError where it does not run.
        """
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        builds, failed = self._compiled([own, *finalists])
        if own.id in failed:
            raise _own_failed(failed[own.id], self._session)
        self._check_own(builds[own.id])
        failed |= self._checked({trial: build for trial, build in builds.items() if trial != own.id})
        sound = {trial: build for trial, build in builds.items() if trial not in failed}
        failed |= self._soaked(sound, own, repeats)
        arms = {trial: build for trial, build in sound.items() if trial not in failed and trial != own.id}
        if plain is not None and plain.id in arms:
            arms[PLAIN_AGAIN] = builds[plain.id]
        begun = RunHead(self.number, self._seed, repeats, failed, created=created)
        return self._stand({OWN: builds[own.id], AGAIN: builds[own.id], **arms}, begun)

    def rounds(self, arms: Sequence[str], count: int) -> Iterator[list[ArmRound]]:
        """`count` rounds of these arms, each one a shape, in orders drawn at random. Raises MachineError."""
        orders = [self._rng.sample(list(arms), len(arms)) for _ in range(count)]
        round_s = sum(standing.round_ms for standing in self._standing) / 1e3
        for start in range(0, count, ROUNDS_A_CALL):
            chunk = orders[start : start + ROUNDS_A_CALL]
            timeout_s = SPARE_S + SPARE_TIMES * len(chunk) * round_s
            for shapes in self._gpu.ask("arm_rounds", chunk, timeout_s=timeout_s):
                if len(shapes) != len(self._standing):
                    raise MachineError(
                        f"the GPU process of run {self.number} was replaced while it measured",
                        next_step="validate again",
                    )
                yield shapes

    def _compiled(self, trials: Sequence[Trial]) -> tuple[dict[str, Build], dict[str, Failed]]:
        """Each trial's build, from an empty cache, or why it has none: other code than was tuned is drift."""
        session = self._session
        candidates = {trial.id: session.candidate(trial) for trial in trials}
        with ThreadPoolExecutor(len(trials), thread_name_prefix="compile") as threads:
            outcomes = dict(
                zip(candidates, threads.map(session.compiled.evaluate, candidates.values()), strict=True)
            )
        builds: dict[str, Build] = {}
        failed: dict[str, Failed] = {}
        for trial in trials:
            outcome = outcomes[trial.id]
            if isinstance(outcome, Failed):
                failed[trial.id] = outcome
            elif trial.compiled is None or not _same(outcome, trial.compiled):
                failed[trial.id] = Failed("drift", "compiled anew it is other code than was tuned")
            else:
                builds[trial.id] = session.compiled.build(candidates[trial.id])
        session.stop_compiling()
        return builds, failed

    def _check_own(self, own: Build) -> None:
        times = self._gpu.use_own(own)
        if isinstance(times, Tried):
            raise _own_failed(Failed(times.stage, times.message), self._session)
        if times.wrong:
            raise _own_failed(Failed("wrong_output", times.wrong), self._session)

    def _checked(self, builds: Mapping[str, Build]) -> dict[str, Failed]:
        tried = {trial: self._gpu.try_build(build, CHECK) for trial, build in builds.items()}
        return {trial: Failed(one.stage, one.message) for trial, one in tried.items() if one.stage}

    def _soaked(self, builds: Mapping[str, Build], own: Trial, repeats: int) -> dict[str, Failed]:
        if not repeats:
            return {}
        soaked = self._gpu.soak(list(builds.values()), repeats)
        failed = {
            trial: Failed(one.stage, one.message)
            for trial, one in zip(builds, soaked, strict=True)
            if one.stage
        }
        if own.id in failed:
            raise _own_failed(failed[own.id], self._session)
        return failed

    def _stand(self, builds: Mapping[str, Build], begun: RunHead) -> RunHead:
        """Place and build every arm, so that the checks before have left nothing behind; `begun` with how it went."""
        names = list(builds)
        random.Random(f"building {self._seed}").shuffle(names)
        pads = self._gpu.ask("place", self._seed)
        self._check_own(builds[OWN])
        self._standing = self._gpu.ask("stand_arms", {name: builds[name] for name in names})
        standing = tuple(one.to_json() for one in self._standing)
        return replace(begun, pads_bytes=tuple(pads), built=tuple(names), standing=standing)


def _same(made: Compiled, tuned: Compiled) -> bool:
    """Whether a trial compiled anew does what was tuned; older records do not say what the host does."""
    return made.code == tuned.code and (not tuned.host or made.host == tuned.host)


def _own_failed(failed: Failed, session: Session) -> InputError | NegativeVerdict | MachineError:
    where, what = session.request.file, f"the kernel's own config: {failed.message}"
    if failed.stage == "drift":
        return InputError(what, where=where, next_step="tune again in this environment")
    if failed.stage in ("wrong_output", "flaky_output"):
        next_step = "correct the kernel or its reference; its candidates are not worth timing"
        return NegativeVerdict(what, where=where, next_step=next_step)
    return MachineError(
        f"the kernel's own config failed at {failed.stage}: {failed.message}",
        where=where,
        next_step="run the kernel once with plain Helion, and helitune doctor",
    )
