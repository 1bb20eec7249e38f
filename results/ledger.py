"""The ledger of a search: what was evaluated, what it may still cost, and answers for what is known.

It stands between a strategy, which proposes genomes, and the evaluator: genomes that normalise to a known
candidate are answered from memory, new ones are evaluated on all cores and recorded as they finish. A resumed
run starts with the recorded trials in memory, so that the strategy, a pure function of what it is told, goes
through the same proposals and ends where the uninterrupted run ends.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from helitune.acfs.acf import Acf
from helitune.objectives.outcomes import Failed, Outcome
from helitune.search.candidate import Candidate, canonical
from helitune.search.space import Genome, JointSpace, Value
from helitune.search.strategies.contract import Evaluate, SearchEnded

from .run_directory import RunDirectory
from .trial import Trial

STALLED_BATCHES = 60
"""Batches without one new candidate after which the space counts as exhausted."""


class Evaluator(Protocol):
    """What turns candidates into outcomes: objectives.evaluate without a GPU, objectives.measured on one."""

    def normalise(self, rows: Sequence[Sequence[Value]]) -> list[dict[str, Any] | Failed]: ...

    def evaluate(self, candidate: Candidate) -> Outcome: ...

    def prepare(self, candidate: Candidate) -> None: ...

    def remember(self, outcome: Outcome) -> None: ...


class Ledger:
    """Evaluates batches within a budget and a time, and keeps every trial.

    `jobs` candidates are under way at a time. `on_trial` is called with each new trial, in the main thread,
    after it was written to disk.
    """

    def __init__(
        self,
        run: RunDirectory,
        space: JointSpace,
        evaluator: Evaluator,
        *,
        jobs: int,
        budget: int,
        time_s: float | None,
        on_trial: Callable[[Trial], None],
    ) -> None:
        self._run = run
        self._space = space
        self._evaluator = evaluator
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="compile")
        self._budget = budget
        self._on_trial = on_trial
        self._replayed = {trial.id: trial for trial in run.trials()}
        for trial in self._replayed.values():
            evaluator.remember(trial.outcome)
        self._prepared: set[str] = set()
        self._age_before = max((t.at_s for t in self._replayed.values()), default=0.0)
        self._started = time.monotonic()
        self._time_s = time_s
        self._trials: dict[str, Trial] = {}
        self._charged = 0
        self._stalled = 0
        self._generation = 0

    @property
    def trials(self) -> list[Trial]:
        """Every trial so far, in the order of proposal."""
        return sorted(self._trials.values(), key=lambda trial: trial.number)

    @property
    def charged(self) -> int:
        """Candidates charged to the budget."""
        return self._charged

    @property
    def age_s(self) -> float:
        """Seconds that the run has taken, over all its sessions."""
        return self._age_before + time.monotonic() - self._started

    def baselines(self, named: Sequence[tuple[str, Candidate]]) -> list[Trial]:
        """Trials of named baselines, in their order, outside budget and time."""
        return self.outside([(f"baseline {name}", candidate) for name, candidate in named])

    def outside(self, named: Sequence[tuple[str, Candidate]]) -> list[Trial]:
        """Trials of candidates with their origins, in their order, outside budget and time."""
        origins = {candidate.id: origin for origin, candidate in reversed(named)}
        new = list({c.id: c for _, c in named if c.id not in self._trials}.values())
        for trial in self._evaluated(new, origins, bounded=False):
            self._keep(trial)
        return [self._trials[candidate.id] for _, candidate in named]

    def proposals(self, origin: str) -> Evaluate:
        """The `evaluate` that a strategy named `origin` is given."""

        def evaluate(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
            return self._evaluate(batch, upcoming, origin)

        return evaluate

    def close(self) -> None:
        """Drop what has not started; what runs ends with the workers."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _evaluate(
        self, batch: Sequence[Genome], upcoming: Sequence[Genome], origin: str
    ) -> list[float | None]:
        if self._charged >= self._budget:
            raise SearchEnded(f"the budget of {self._budget} candidates is spent")
        self._generation += 1
        ids = self._identify(batch, origin)
        new = {c.id: c for c in ids if isinstance(c, Candidate) and c.id not in self._trials}
        before = self._charged
        self._spend(list(new.values()), upcoming, origin)
        self._stalled = 0 if self._charged > before else self._stalled + 1
        if self._stalled >= STALLED_BATCHES:
            raise SearchEnded(f"{STALLED_BATCHES} batches in a row held no new valid candidate")
        return [self._score(entry) for entry in ids]

    def _identify(self, batch: Sequence[Genome], origin: str) -> list[Candidate | None]:
        """The candidate of each genome; None for a config that does not exist, which is recorded as such."""
        decoded = [self._space.decode(genome) for genome in batch]
        configs = self._evaluator.normalise([slots for slots, _ in decoded]) if decoded else []
        found: list[Candidate | None] = []
        for (slots, acf), config in zip(decoded, configs, strict=True):
            if isinstance(config, Failed):
                self._record_invalid(slots, acf, config, origin)
                found.append(None)
            else:
                found.append(Candidate.of(config, acf))
        return found

    def _record_invalid(self, slots: Sequence[Any], acf: Acf, outcome: Failed, origin: str) -> None:
        fields = {d.label: [slots[s] for s in d.slots] for d in self._space.dimensions}
        trial_id = hashlib.sha256(f"invalid\0{canonical(fields)}".encode()).hexdigest()[:16]
        if trial_id not in self._trials:
            trial = self._trial(trial_id, fields, acf, origin, outcome, 0.0)
            self._keep(self._replayed.get(trial_id) or self._written(trial))

    def _prepare(self, upcoming: Sequence[Genome]) -> None:
        """Have what may come next compiled once the batch has begun: it costs no budget, and may never come."""
        decoded = [self._space.decode(genome) for genome in upcoming[: self._budget - self._charged]]
        configs = self._evaluator.normalise([slots for slots, _ in decoded]) if decoded else []
        for (_, acf), config in zip(decoded, configs, strict=True):
            if isinstance(config, Failed):
                continue
            candidate = Candidate.of(config, acf)
            if candidate.id not in self._replayed and candidate.id not in self._prepared:
                self._prepared.add(candidate.id)
                self._threads.submit(self._evaluator.prepare, candidate)

    def _spend(self, candidates: list[Candidate], upcoming: Sequence[Genome], origin: str) -> None:
        """Evaluate new candidates in order until the budget or the time ends; then raise SearchEnded."""
        waiting = list(candidates)
        while waiting:
            allowed = self._budget - self._charged
            if allowed <= 0:
                raise SearchEnded(f"the budget of {self._budget} candidates is spent")
            now, waiting = waiting[:allowed], waiting[allowed:]
            origins = dict.fromkeys((c.id for c in now), origin)
            for trial in self._evaluated(now, origins, bounded=True, upcoming=upcoming):
                self._keep(trial)
                self._charged += _is_charged(trial.outcome)

    def _evaluated(
        self,
        candidates: Sequence[Candidate],
        origins: Mapping[str, str],
        *,
        bounded: bool,
        upcoming: Sequence[Genome] = (),
    ) -> Iterable[Trial]:
        """A trial for each candidate as they finish: replayed ones first, then in parallel."""
        numbered = list(enumerate(candidates, start=len(self._trials) + 1))
        yield from [self._replayed[c.id] for _, c in numbered if c.id in self._replayed]
        running: dict[Future[tuple[Outcome, float]], tuple[int, Candidate]] = {}
        fresh = [(number, c) for number, c in numbered if c.id not in self._replayed]
        if bounded and fresh and self._time_is_up():
            raise SearchEnded(f"the time of {self._time_s:g} s is up")
        for number, candidate in fresh:
            running[self._threads.submit(self._timed, candidate, bounded)] = (number, candidate)
        if running:
            self._prepare(upcoming)
        out_of_time = False
        while running:
            finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in sorted(finished, key=lambda f: running[f][0]):
                number, candidate = running.pop(future)
                try:
                    outcome, elapsed = future.result()
                except _TimeIsUp:
                    out_of_time = True
                    continue
                trial = self._trial(
                    candidate.id,
                    candidate.config,
                    candidate.acf,
                    origins[candidate.id],
                    outcome,
                    elapsed,
                    number,
                )
                yield self._written(trial)
        if out_of_time:
            raise SearchEnded(f"the time of {self._time_s:g} s is up")

    def _timed(self, candidate: Candidate, bounded: bool) -> tuple[Outcome, float]:
        if bounded and self._time_is_up():
            raise _TimeIsUp
        started = time.monotonic()
        return self._evaluator.evaluate(candidate), time.monotonic() - started

    def _time_is_up(self) -> bool:
        return self._time_s is not None and self.age_s >= self._time_s

    def _trial(
        self,
        trial_id: str,
        config: dict[str, Any],
        acf: Acf,
        origin: str,
        outcome: Outcome,
        elapsed_s: float,
        number: int | None = None,
    ) -> Trial:
        return Trial(
            number=number if number is not None else len(self._trials) + 1,
            id=trial_id,
            origin=origin,
            config=config,
            acf_sha256=acf.sha256,
            acf_name=acf.name,
            outcome=outcome,
            elapsed_s=elapsed_s,
            at_s=self.age_s,
            generation=self._generation,
        )

    def _written(self, trial: Trial) -> Trial:
        self._run.append(trial)
        return trial

    def _keep(self, trial: Trial) -> None:
        self._trials[trial.id] = trial
        self._on_trial(trial)

    def _score(self, candidate: Candidate | None) -> float | None:
        if candidate is None:
            return None
        return self._trials[candidate.id].score


class _TimeIsUp(Exception):
    """Raised in a worker thread instead of starting a candidate after the deadline."""


def _is_charged(outcome: Outcome) -> bool:
    """Whether a candidate reached the compiler: an invalid config costs next to nothing and is only counted."""
    return not (isinstance(outcome, Failed) and outcome.stage == "invalid_config")
