"""The whole of `tune` on one page: request → tools → kernel → joint space → baselines → search → ranking."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError, NegativeVerdict, UserError
from helitune.acfs.paths import sweep_scratch
from helitune.acfs.store import AcfStore
from helitune.objectives.check_child import CheckHandle, start_check
from helitune.objectives.check_result import CheckRequest, CheckResult
from helitune.objectives.gpu.clock_lock import locked_clocks
from helitune.results import evolve_run, measured_run, peer_search
from helitune.results.bred_acfs import listed_entries
from helitune.results.choose_device import settled
from helitune.results.fingerprint import differences, fingerprint
from helitune.results.ledger import Ledger
from helitune.results.ranking import Ranking, rank
from helitune.results.request import TuneRequest
from helitune.results.run_directory import RunDirectory
from helitune.results.session import Session, Tools, find_tools, stored_acfs
from helitune.results.trial import Trial
from helitune.results.warm_start import WarmTools, with_warm_start
from helitune.results.workload_json import workload_to_json
from helitune.search.space import JointSpace
from helitune.search.strategies.contract import SearchEnded
from helitune.search.strategies.registry import find_strategy

CHECK_TIMEOUT_S = 600.0

WAITING_FOR_GPU = 3
"""Candidates under way for each compile process, where some of them wait for the GPU meanwhile."""


class Reporter(Protocol):
    """What the pipeline tells while it runs; a terminal, a pipe and --json each show it their way."""

    def tools(self, request: TuneRequest, tools: Tools) -> None: ...

    def space(self, session: Session) -> None: ...

    def checked(self, result: CheckResult) -> None: ...

    def trial(self, trial: Trial, trials: list[Trial], charged: int) -> None: ...

    def on_gpu(self, session: Session, begun: measured_run.OnGpu) -> None: ...

    def note(self, text: str) -> None: ...

    def ended(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Tuned:
    """How a run ended: its trials, their ranking, and why the search stopped (or that it was interrupted)."""

    run: RunDirectory
    trials: list[Trial]
    ranking: Ranking
    reason: str
    interrupted: bool


class Timeline:
    """Where the wall time of a session went, for run.json: loading, the own config, the search, the finalists."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._spent: dict[str, float] = {}

    def note(self, what: str) -> None:
        """The time since the last note was spent on `what`."""
        now = time.monotonic()
        self._spent[what] = round(now - self._last, 3)
        self._last = now

    @property
    def fields(self) -> dict[str, Any]:
        """`spent_s` of run.json."""
        return {"spent_s": dict(self._spent)}


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
    timeline = Timeline()
    warm = _tools_of(run, request) if resumed else with_warm_start(find_tools(request), request.warm_start)
    tools = warm.tools
    request = settled(request, tools.target, tools.device)
    _require_strategy(request, tools)
    reporter.tools(request, tools)
    # the GPU judges every candidate, and the own config first: nothing is left to ask of the interpreter
    check = start_check(_check_request(request)) if tools.device is None else None
    try:
        with _clocks(request, tools), Session(request, tools, run.log) as session:
            if request.evolution is not None:
                session.space = evolve_run.bred_space(run, session, request.evolution)
            _record_start(run, request, session, warm, resumed=resumed)
            reporter.space(session)
            verdict = SourceVerdict(run, check, reporter) if check else None
            timeline.note("load")
            if verdict is None:
                _begin_on_gpu(run, session, reporter)
                timeline.note("own")
            ledger = _ledger(run, request, session, reporter, verdict)
            interrupted = False
            try:
                reason = _search(run, request, session, ledger, warm)
                timeline.note("search")
                if verdict is not None:
                    verdict.require()
                else:
                    _finish_on_gpu(run, session, ledger, reporter)
            except KeyboardInterrupt:
                reason, interrupted = "interrupted", True
            except UserError as error:
                run.write_run({**run.run(), "status": f"stopped: {error.what}"})
                raise
            finally:
                ledger.close()
            timeline.note("finals")
            reporter.ended(reason)
            status = reason if interrupted else f"done: {reason}"
            run.write_run({**run.run(), "status": status, "age_s": round(ledger.age_s, 3), **timeline.fields})
            ranking = rank(ledger.trials, run.finals())
            return Tuned(run, ledger.trials, ranking, reason, interrupted)
    finally:
        if check is not None:
            check.cancel()
        run.close()


def _clocks(request: TuneRequest, tools: Tools) -> AbstractContextManager[object]:
    """The GPU's clock held where that was asked for, restored on every way out."""
    if tools.device is None or request.lock_clocks is None:
        return nullcontext()
    wanted = request.lock_clocks
    if wanted != "auto" and not wanted.isdecimal():
        raise InputError(f"{wanted!r} is no clock", where="--lock-clocks", next_step="give MHz, or auto")
    return locked_clocks(tools.device.uuid, None if wanted == "auto" else int(wanted))


def _begin_on_gpu(run: RunDirectory, session: Session, reporter: Reporter) -> None:
    begun = measured_run.begin(session)
    own = {"ms": list(begun.own.ms), "cold": list(begun.own.cold)}
    work = [
        {"bytes": moved, "flops": flops.to_json() if flops else None}
        for moved, flops in zip(session.bytes_moved(begun.own.mutated_bytes), session.flops, strict=True)
    ]
    fields = {"own": own, "work": work, "limits": begun.limits.to_json(), "check": begun.check.to_json()}
    run.write_run({**run.run(), **fields})
    reporter.on_gpu(session, begun)


def _finish_on_gpu(run: RunDirectory, session: Session, ledger: Ledger, reporter: Reporter) -> None:
    assert session.gpu is not None
    use = session.gpu.use_since_own()
    run.write_run({**run.run(), "gpu_process": {**use, "search_s": round(ledger.age_s, 3)}})
    finals = measured_run.measure_finalists(session, ledger.trials, reporter.note)
    run.write_run({**run.run(), "finals": [final.to_json() for final in finals]})


def _search(
    run: RunDirectory, request: TuneRequest, session: Session, ledger: Ledger, warm: WarmTools
) -> str:
    """Why the search ended: baselines first, then the warm start, then the strategy."""
    if request.evolution is not None:
        return evolve_run.search(run, session, ledger, warm.warm)
    baselines = session.baselines
    ledger.baselines([(baseline.name, baseline.candidate) for baseline in baselines])
    trials = {trial.id: trial for trial in ledger.trials}
    known = {
        baseline.genome: score
        for baseline in baselines
        if baseline.genome is not None and (score := trials[baseline.candidate.id].score) is not None
    }
    if request.strategy == peer_search.HELION:
        return _peer(run, session, ledger)
    known |= evolve_run.try_first(session, ledger, baselines[0], warm.warm)
    strategy = find_strategy(request.strategy)
    try:
        strategy(session.space, ledger.proposals(request.strategy), seed=request.seed, known=known)
    except SearchEnded as ended:
        return str(ended)
    return "the strategy has nothing left to propose"


def _require_strategy(request: TuneRequest, tools: Tools) -> None:
    """Raise UserError for a strategy that does not exist, or not here."""
    if request.strategy == peer_search.HELION:
        peer_search.require_possible(request.effort, tools)
    else:
        find_strategy(request.strategy)


def _peer(run: RunDirectory, session: Session, ledger: Ledger) -> str:
    result = peer_search.search(session, ledger, run.path / "helion.log")
    run.write_run({**run.run(), "peer": result.to_json()})
    return (
        f"Helion's autotuner ({result.effort}) tried {result.configs_tried} configs in {result.seconds:.1f} s"
    )


def _ledger(
    run: RunDirectory,
    request: TuneRequest,
    session: Session,
    reporter: Reporter,
    verdict: SourceVerdict | None,
) -> Ledger:
    def on_trial(trial: Trial) -> None:
        reporter.trial(trial, ledger.trials, ledger.charged)
        if verdict is not None:
            verdict.poll()

    ledger = Ledger(
        run,
        session.space,
        session.evaluator,
        jobs=request.jobs * (1 if session.gpu is None else WAITING_FOR_GPU),
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


def _record_start(
    run: RunDirectory, request: TuneRequest, session: Session, warm: WarmTools, *, resumed: bool
) -> None:
    tools = session.tools
    now = fingerprint(tools.ptxas, tools.target.arch, tools.device)
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
            "evidence": "compiled" if tools.device is None else "measured",
            "fingerprint": now,
            "device": tools.device.to_json() if tools.device else None,
            "space": {"size": session.space.size, "configs": session.space.configs},
            "acfs": [
                {"name": a.name, "sha256": a.sha256, "arch": list(a.arch), "toolkit": a.toolkit}
                for a in session.space.acfs[1:]
            ],
            "own_acfs": sorted(own),
            "warm": list(warm.warm),
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


def _tools_of(run: RunDirectory, request: TuneRequest) -> WarmTools:
    """The tools of a resumed run: the ACFs are those it kept, whatever became of packs and other runs since."""
    without_packs = find_tools(replace(request, packs=()))
    fields = run.run()
    acfs = stored_acfs(run.acfs, listed_entries(fields))
    return WarmTools(replace(without_packs, acfs=acfs), tuple(fields.get("warm", ())))


def plan(request: TuneRequest, reporter: Reporter, log: Path) -> Plan:
    """The tools, space and baselines of a request, with nothing compiled."""
    tools = with_warm_start(find_tools(request), request.warm_start).tools
    request = settled(request, tools.target, tools.device)
    _require_strategy(request, tools)
    reporter.tools(request, tools)
    with Session(request, tools, log) as session:
        reporter.space(session)
        baselines = tuple(baseline.name for baseline in session.baselines)
        return Plan(request, tools, session.space, baselines)
