"""How a running `tune` shows itself: a live line on a terminal, plain lines in a pipe, silence for --quiet.

Everything here goes to stderr; stdout is for the result.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from helitune.objectives.check_result import CheckResult
from helitune.objectives.compile_environment import ignored_variables
from helitune.objectives.outcomes import Failed
from helitune.results.measured_run import OnGpu
from helitune.results.ranking import rank
from helitune.results.request import TuneRequest
from helitune.results.session import Session, Tools
from helitune.results.trial import Trial

from .pipeline import Reporter
from .tune_report import shown_config, shown_value

PLAIN_INTERVAL_S = 5.0
"""Between two progress lines in a pipe."""


def make_reporter(*, json: bool, quiet: bool) -> Reporter:
    """The reporter for where stderr goes: a terminal, a pipe, or nobody."""
    if quiet or json:
        return Silent()
    return Live() if sys.stderr.isatty() else Plain()


class Silent:
    """Says nothing."""

    def tools(self, request: TuneRequest, tools: Tools) -> None: ...

    def space(self, session: Session) -> None: ...

    def checked(self, result: CheckResult) -> None: ...

    def trial(self, trial: Trial, trials: list[Trial], charged: int) -> None: ...

    def on_gpu(self, session: Session, begun: OnGpu) -> None: ...

    def note(self, text: str) -> None: ...

    def ended(self, reason: str) -> None: ...


class Plain:
    """One line for each step, and one every few seconds while candidates are compiled."""

    def __init__(self) -> None:
        self._budget = 0
        self._objective = ""
        self._last = 0.0

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=sys.stderr, flush=True)

    def tools(self, request: TuneRequest, tools: Tools) -> None:
        self._budget = _expected(request)
        self._objective = request.objective
        used = "measured there" if tools.device else "no GPU is used"
        self.say(f"target {tools.target.arch} ({tools.target.name}), ptxas {tools.ptxas.version}; {used}")
        self.say(f"loading {Path(request.file).name} in {request.jobs} compile process(es)")
        for name in ignored_variables(os.environ):
            self.say(f"note: {name} changes results and is not passed to compile processes")
        for pack in tools.packs:
            self.say(f"pack {pack.name}: {len(pack.accepted)} ACFs accepted, {len(pack.refused)} refused")
            for refusal in pack.refused:
                self.say(f"  refused {refusal.file}: {refusal.reason}")

    def space(self, session: Session) -> None:
        record, space = session.description.record, session.space
        self.say(f"kernel {record.kernel} of {Path(record.file).name}, reference {record.reference}")
        acfs = f" × {len(space.acfs)} ACF choices (one is none)" if len(space.acfs) > 1 else ", no ACF pack"
        evolution = session.request.evolution
        bred = f" × ACFs bred in {evolution.search_space().name}" if evolution is not None else ""
        if evolution is not None and evolution.config:
            self.say(f"ACFs for one config, {evolution.origin}: bred in {evolution.search_space().name}")
        else:
            self.say(f"space: {space.configs:.4g} configs{acfs}{bred}; baselines first")
        self._last = time.monotonic()

    def on_gpu(self, session: Session, begun: OnGpu) -> None:
        self.say(begun.check.message)
        self.say(f"own config: {' / '.join(f'{1e3 * ms:.4g}' for ms in begun.own.ms)} us")

    def note(self, text: str) -> None:
        self.say(text)

    def checked(self, result: CheckResult) -> None:
        verdict = "agrees with the reference" if result.agrees else "DISAGREES with the reference"
        self.say(
            f"source {verdict} in Helion's interpreter ({len(result.rounds)} rounds on {result.shown_shapes})"
        )
        for note in result.notes:
            self.say(f"  note: {note}")

    def trial(self, trial: Trial, trials: list[Trial], charged: int) -> None:
        if trial.origin.startswith("baseline"):
            self.say(f"{trial.origin}: {_outcome(trial, self._objective, trials)}")
        elif time.monotonic() - self._last >= PLAIN_INTERVAL_S:
            self._last = time.monotonic()
            self.say(progress_text(trials, charged, self._budget, self._objective))

    def ended(self, reason: str) -> None:
        self.say(f"search ended: {reason}")


class Live(Plain):
    """As Plain, with one line that keeps moving: share of the budget, ETA, best so far, failures by stage."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            BarColumn(20),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def trial(self, trial: Trial, trials: list[Trial], charged: int) -> None:
        if trial.origin.startswith("baseline"):
            super().trial(trial, trials, charged)
            return
        if not self._progress.live.is_started:
            self._progress.start()
        text = progress_text(trials, charged, self._budget, self._objective)
        self._progress.update(self._task, description=text, completed=charged, total=self._budget)

    def note(self, text: str) -> None:
        self._progress.stop()
        super().note(text)

    def ended(self, reason: str) -> None:
        self._progress.stop()
        super().ended(reason)


def _expected(request: TuneRequest) -> int:
    """Candidates until the search will end, as far as one can know."""
    evolution = request.evolution
    bred = evolution.generations * evolution.population if evolution is not None else request.budget
    return min(request.budget, bred)


def progress_text(trials: list[Trial], charged: int, budget: int, objective: str) -> str:
    """ "12/60 candidates, best 61.2k cycles, failed: 3 compile, 1 launch"."""
    failed: dict[str, int] = {}
    for trial in trials:
        if isinstance(trial.outcome, Failed):
            failed[trial.outcome.stage] = failed.get(trial.outcome.stage, 0) + 1
    best = rank(trials).best
    parts = [f"{charged}/{budget} candidates"]
    if best is not None:
        parts.append(f"best {shown_value(best, objective)}")
    if failed:
        parts.append("failed: " + ", ".join(f"{n} {stage}" for stage, n in sorted(failed.items())))
    return ", ".join(parts)


def _outcome(trial: Trial, objective: str, trials: list[Trial]) -> str:
    if isinstance(trial.outcome, Failed):
        return f"failed at {trial.outcome.stage}: {trial.outcome.message}"
    own = rank(trials).own
    if own is None or own.id == trial.id:
        config = {key: trial.config[key] for key in _TELLING if key in trial.config}
    else:
        config = {key: value for key, value in trial.config.items() if own.config.get(key) != value}
    return f"{shown_value(trial, objective)}, {shown_config(config)}"


_TELLING = ("block_sizes", "reduction_loops", "num_warps", "num_stages", "pid_type")
"""What is shown of the kernel's own config; other baselines show where they differ from it."""
