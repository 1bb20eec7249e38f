"""The whole of `tune` on one page: request → tools → kernel → joint space → baselines → search → ranking."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError, NegativeVerdict, UserError
from helitune.acfs.paths import sweep_scratch
from helitune.acfs.store import AcfStore
from helitune.objectives.check_child import CheckHandle, start_check
from helitune.objectives.check_result import CheckRequest, CheckResult
from helitune.results.fingerprint import differences, fingerprint
from helitune.results.ledger import Ledger
from helitune.results.ranking import Ranking, rank
from helitune.results.request import TuneRequest
from helitune.results.run_directory import RunDirectory
from helitune.results.session import Session, Tools, find_tools, stored_acfs
from helitune.results.trial import Trial
from helitune.results.workload_json import workload_to_json
from helitune.search.space import JointSpace
from helitune.search.strategies.contract import SearchEnded
from helitune.search.strategies.registry import find_strategy

CHECK_TIMEOUT_S = 600.0


class Reporter(Protocol):
    """What the pipeline tells while it runs; a terminal, a pipe and --json each show it their way."""

    def tools(self, request: TuneRequest, tools: Tools) -> None: ...

    def space(self, session: Session) -> None: ...

    def checked(self, result: CheckResult) -> None: ...

    def trial(self, trial: Trial, trials: list[Trial], charged: int) -> None: ...

    def ended(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Tuned:
    """How a run ended: its trials, their ranking, and why the search stopped (or that it was interrupted)."""

    run: RunDirectory
    trials: list[Trial]
    ranking: Ranking
    reason: str
    interrupted: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What a request would do: the space it would search, and the baselines it would measure first."""

    request: TuneRequest
    tools: Tools
    space: JointSpace
    baselines: tuple[str, ...]


def tune(request: TuneRequest, run: RunDirectory, reporter: Reporter, *, resumed: bool) -> Tuned:
    """The ranking of a new or resumed run, written to `run` as it grows; an interrupted one is resumable.

    Raises NegativeVerdict when the kernel's source disagrees with its reference, UserError for everything that
    the input or the machine is at fault for, KeyboardInterrupt before there is anything to keep.
    """
    sweep_scratch()
    tools = _tools_of(run, request) if resumed else find_tools(request)
    find_strategy(request.strategy)
    reporter.tools(request, tools)
    check = start_check(_check_request(request))
    try:
        with Session(request, tools, run.log) as session:
            _record_start(run, request, session, resumed=resumed)
            reporter.space(session)
            verdict = SourceVerdict(run, check, reporter)
            ledger = _ledger(run, request, session, reporter, verdict)
            interrupted = False
            try:
                reason = _search(request, session, ledger)
                verdict.require()
            except KeyboardInterrupt:
                reason, interrupted = "interrupted", True
            except UserError as error:
                run.write_run({**run.run(), "status": f"stopped: {error.what}"})
                raise
            finally:
                ledger.close()
            reporter.ended(reason)
            status = reason if interrupted else f"done: {reason}"
            run.write_run({**run.run(), "status": status, "age_s": round(ledger.age_s, 3)})
            return Tuned(run, ledger.trials, rank(ledger.trials), reason, interrupted)
    finally:
        check.cancel()
        run.close()


def _search(request: TuneRequest, session: Session, ledger: Ledger) -> str:
    """Why the search ended: baselines first, then the strategy."""
    baselines = session.baselines
    for baseline in baselines:
        ledger.baseline(baseline.name, [baseline.candidate])
    trials = {trial.id: trial for trial in ledger.trials}
    known = {
        baseline.genome: compiled.score
        for baseline in baselines
        if baseline.genome is not None and (compiled := trials[baseline.candidate.id].compiled) is not None
    }
    strategy = find_strategy(request.strategy)
    try:
        strategy(session.space, ledger.proposals(request.strategy), seed=request.seed, known=known)
    except SearchEnded as ended:
        return str(ended)
    return "the strategy has nothing left to propose"


def _ledger(
    run: RunDirectory, request: TuneRequest, session: Session, reporter: Reporter, verdict: SourceVerdict
) -> Ledger:
    def on_trial(trial: Trial) -> None:
        reporter.trial(trial, ledger.trials, ledger.charged)
        verdict.poll()

    ledger = Ledger(
        run,
        session.space,
        session.evaluator,
        jobs=request.jobs,
        budget=request.budget,
        time_s=request.time_s,
        on_trial=on_trial,
    )
    return ledger


def _check_request(request: TuneRequest) -> CheckRequest:
    return CheckRequest(
        file=request.file,
        kernel=request.kernel,
        reference=request.reference,
        args=request.args,
        base_seed=request.seed,
    )


class SourceVerdict:
    """The verdict of Helion's interpreter on the kernel's source, which forms while candidates compile."""

    def __init__(self, run: RunDirectory, check: CheckHandle, reporter: Reporter) -> None:
        self._run = run
        self._check = check
        self._reporter = reporter
        self._given = False

    def poll(self) -> None:
        """As `require`, when the verdict is there; nothing before."""
        if self._check.done:
            self.require()

    def require(self) -> None:
        """Wait for the verdict, record it in run.json, and raise NegativeVerdict where the source is wrong."""
        if self._given:
            return
        result = self._check.result(CHECK_TIMEOUT_S)
        self._given = True
        self._run.write_run({**self._run.run(), "check": result.to_json()})
        self._reporter.checked(result)
        if not result.agrees:
            raise NegativeVerdict(
                result.message,
                where="Helion's interpreter",
                next_step="correct the kernel or its reference; its candidates are not worth ranking",
            )


def _record_start(run: RunDirectory, request: TuneRequest, session: Session, *, resumed: bool) -> None:
    now = fingerprint(session.tools.ptxas, session.tools.target.arch)
    if resumed:
        _require_same(run, session, now)
        run.write_run({**run.run(), "request": request.to_json(), "status": "running"})
        return
    own = _own_acfs(session)
    kept = AcfStore(run.acfs, for_triton=False)
    for acf in (*session.space.acfs[1:], *own.values()):
        kept.add(acf)
    run.write_run(
        {
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "request": request.to_json(),
            "workload": workload_to_json(session.description.record),
            "evidence": "compiled",
            "fingerprint": now,
            "space": {"size": session.space.size, "configs": session.space.configs},
            "acfs": [
                {"name": a.name, "sha256": a.sha256, "arch": list(a.arch), "toolkit": a.toolkit}
                for a in session.space.acfs[1:]
            ],
            "own_acfs": sorted(own),
            "status": "running",
        }
    )


def _own_acfs(session: Session) -> dict[str, Acf]:
    """The ACFs that the kernel's own configs name, by sha256."""
    acfs = [baseline.candidate.acf for baseline in session.baselines]
    return {acf.sha256: acf for acf in acfs if acf.sha256}


def _require_same(run: RunDirectory, session: Session, now: dict[str, object]) -> None:
    stored = run.run()
    changed = differences(stored["fingerprint"], now)
    if stored["workload"]["source_sha256"] != session.description.record.source_sha256:
        changed.append(f"kernel file {session.description.record.file}")
    own = sorted(_own_acfs(session))
    if stored.get("own_acfs", own) != own:
        changed.append("the ACF that the kernel's own config names")
    if changed:
        raise InputError(
            f"cannot resume, since these changed: {', '.join(changed)}",
            where=str(run.path),
            next_step="start a new run: what is cached is not compiled again",
        )


def _tools_of(run: RunDirectory, request: TuneRequest) -> Tools:
    """The tools of a resumed run: the ACFs are those it kept, whatever became of the packs since."""
    without_packs = find_tools(replace(request, packs=()))
    return replace(without_packs, acfs=stored_acfs(run.acfs, run.run()["acfs"]))


def plan(request: TuneRequest, reporter: Reporter, log: Path) -> Plan:
    """The tools, space and baselines of a request, with nothing compiled."""
    tools = find_tools(request)
    find_strategy(request.strategy)
    reporter.tools(request, tools)
    with Session(request, tools, log) as session:
        reporter.space(session)
        baselines = tuple(baseline.name for baseline in session.baselines)
        return Plan(request, tools, session.space, baselines)
