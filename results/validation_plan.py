"""What of a run is validated: the finalists of its search, and the baselines they are compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, NegativeVerdict
from helitune.search.args import format_shape

from .calibration import Calibration
from .finals import MOST_FINALISTS, finalists, measured_again
from .fingerprint import differences, fingerprint
from .pin_verify import require_source
from .ranking import rank
from .request import TuneRequest
from .run_directory import RunDirectory
from .session import Session, Tools, find_tools, stored_acfs
from .thresholds import Thresholds
from .trial import OWN, Trial
from .validate_run import Plan, contestant
from .validation_record import Head
from .workload_json import workload_from_json


def tools_again(run: RunDirectory, request: TuneRequest) -> Tools:
    """The ptxas, target, GPU and ACFs that the run was tuned with.

    Raises InputError where the kernel file or anything in the environment has changed since, MachineError where
    there is no GPU.
    """
    fields = run.run()
    require_source(Path(request.file), fields["workload"]["source_sha256"])
    tools = replace(find_tools(replace(request, packs=())), acfs=stored_acfs(run.acfs, fields["acfs"]))
    changed = differences(fields["fingerprint"], fingerprint(tools.ptxas, tools.target.arch, tools.device))
    if changed:
        raise InputError(
            f"the environment has changed since the run: {', '.join(changed)}",
            where=str(run.path),
            next_step="tune again: what is cached is not compiled again",
        )
    return tools


def chosen_trials(run: RunDirectory, named: Sequence[Trial]) -> tuple[Trial, Trial | None, tuple[Trial, ...]]:
    """The own config, the best without an ACF (None where that is the own), and the finalists, best first.

    The finalists are `named`, else those that the run itself measured again, at most MOST_FINALISTS; the best
    without an ACF is always one of them. Raises NegativeVerdict where there is none.
    """
    trials = run.trials()
    own = next((trial for trial in trials if trial.origin == OWN), None)
    if own is None or own.compiled is None:
        raise InputError(
            "the run has no times of the kernel's own config",
            where=str(run.path),
            next_step=f"finish it: helitune tune --resume {run.id}",
        )
    finals = run.finals()
    standing = measured_again(trials, finals)
    found = list(named) or _ranked(standing if finals else finalists(trials), own)[:MOST_FINALISTS]
    _require_measured(found, own)
    plain = rank(standing).without_acf
    if plain is None or plain.compiled is None or plain.compiled.identity == own.compiled.identity:
        plain = None
    elif plain.id not in {trial.id for trial in found}:
        found = [*found[: MOST_FINALISTS - 1], plain] if not named else [*found, plain]
    if not found:
        raise NegativeVerdict(
            "nothing to validate: no candidate of other code than the kernel's own config was measured near it",
            where=str(run.path),
            next_step="keep the kernel's own config, or search more",
        )
    return own, plain, tuple(found)


def _ranked(trials: Sequence[Trial], own: Trial) -> list[Trial]:
    """Measured trials of other code than the own config's, best first."""
    assert own.compiled is not None
    known = own.compiled.identity
    measured = [t for t in trials if t.measured and t.compiled and t.compiled.identity != known]
    return sorted(measured, key=lambda trial: trial.rank)


def _require_measured(trials: Sequence[Trial], own: Trial) -> None:
    for trial in trials:
        if trial.id == own.id:
            what, next_step = "trial is the kernel's own config, the baseline", "name others"
        elif trial.measured is None:
            what, next_step = "trial has no time", "choose one that was measured: helitune show"
        else:
            continue
        raise InputError(f"{what} ({trial.number})", where="--trial", next_step=next_step)


def make_plan(
    run: RunDirectory,
    chosen: tuple[Trial, Trial | None, tuple[Trial, ...]],
    thresholds: Thresholds,
    calibration: Calibration,
    context: Mapping[str, Any],
    *,
    number: int,
    seed: int,
    cool_down_s: float,
) -> Plan:
    """The plan of the validation of that number. `context` goes into the record as it is."""
    fields = run.run()
    own, plain, found = chosen
    offsets = len(calibration.rebuilt)
    head = Head(
        number=number,
        seed=seed,
        shapes=tuple(
            format_shape(shape).replace("~given", "")
            for shape in workload_from_json(fields["workload"]).shapes
        ),
        own=contestant(own),
        plain=contestant(plain) if plain else None,
        finalists=tuple(map(contestant, found)),
        thresholds=thresholds,
        floor=asdict(calibration.floor()),
        context={
            "run_id": run.id,
            **context,
            "timing": fields["request"].get("timing"),
            "cache": fields["request"].get("cache"),
            "calibration": {"created": calibration.created, "baselines": offsets},
            "work": fields.get("work"),
            "limits": fields.get("limits"),
        },
    )
    return Plan(head, own, plain, found, cool_down_s)


def fresh_sessions(
    run: RunDirectory, request: TuneRequest, tools: Tools, arms: int
) -> Callable[[int, int], AbstractContextManager[Session]]:
    """What starts a run: a session with compile processes and a GPU process of its own, and nothing cached."""

    @contextmanager
    def start(number: int, seed: int) -> Iterator[Session]:
        jobs = max(1, min(request.jobs, arms))
        with (
            tempfile.TemporaryDirectory(prefix="helitune-validate-", ignore_cleanup_errors=True) as folder,
            Session(replace(request, seed=seed, jobs=jobs), tools, run.log, compiled=Path(folder)) as session,
        ):
            yield session

    return start
