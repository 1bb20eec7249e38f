"""`helitune validate`: is what a run found really faster? Independent runs, a gate, and a verdict with its reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helitune.acfs.errors import InputError, Interrupted
from helitune.acfs.paths import sweep_scratch
from helitune.results.request import TuneRequest
from helitune.results.run_directory import RunDirectory, find_run, working_folder
from helitune.results.run_record import require_measured
from helitune.results.thresholds import PRESETS, Thresholds

from . import durations
from .options import Json, Quiet, RunArgument
from .reporters import make_reporter
from .shares import share
from .show_command import find_trial
from .validate_report import FORMATS, report_validated

if TYPE_CHECKING:
    from helitune.results.calibration import Calibration
    from helitune.results.session import Tools
    from helitune.results.validation_record import Validation
    from helitune.results.validation_verdict import Finding

STRICT = "strict"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("validate")(validate)


def validate(
    run: RunArgument = None,
    runs: Annotated[
        int | None,
        typer.Option("--runs", metavar="N", min=1, help="Independent runs; the gate's by default (2)."),
    ] = None,
    gate: Annotated[
        str | None, typer.Option("--gate", metavar="NAME", help="strict (default), article, or quick.")
    ] = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(
            "--thresholds", metavar="FILE", help="Decide by these, as --dump-thresholds prints them."
        ),
    ] = None,
    min_effect: Annotated[
        str | None,
        typer.Option("--min-effect", metavar="SHARE", help="Least gain that counts: 1%, or 0.01."),
    ] = None,
    dump_thresholds: Annotated[
        bool, typer.Option("--dump-thresholds", help="Print the thresholds as JSON, and do nothing else.")
    ] = False,
    trial: Annotated[
        list[str] | None,
        typer.Option(
            "--trial", metavar="TRIAL", help="Validate this trial instead of the finalists; repeatable."
        ),
    ] = None,
    cool_down: Annotated[
        str | None,
        typer.Option("--cool-down", metavar="DURATION", help="Wait so long before each run measures."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", min=0, max=2**63 - 1, help="Decides orders, inputs and placement."
        ),
    ] = 0,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file", metavar="FILE", help="Decide again from a validation.jsonl; measure nothing."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the chain of decisions of each verdict.")
    ] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="NAME", help="Of the table: markdown or csv.")
    ] = FORMATS[0],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Validate the finalists of a run: fresh processes, arms side by side, a verdict for each with its reason.

    Each run is a new process with empty caches that compiles, checks and places every arm anew: the kernel's own
    config, the same built again, the best config without an ACF, and the finalists. All rounds are kept in
    validation.jsonl. Exit 1 where no finalist is FASTER.
    """
    if format_ not in FORMATS:
        raise InputError(
            f"no format {format_!r}", where="--format", next_step=f"choose {' or '.join(FORMATS)}"
        )
    given = any(option is not None for option in (gate, thresholds, min_effect, runs))
    chosen = _thresholds(gate, thresholds, min_effect, runs)
    if dump_thresholds:
        print(chosen.to_json(), end="")
        return
    if from_file is not None:
        validation, findings = _again(from_file, chosen if given else None)
        report_validated(validation, findings, json=json, explain=explain, format_=format_)
        return
    found = find_run(working_folder(), run)
    require_measured(found.run(), str(found.path))
    tell = make_reporter(json=json, quiet=quiet).note
    sweep_scratch()
    found.lock()
    try:
        validation, findings = _measured(
            found,
            chosen,
            named=tuple(trial or ()),
            cool_down_s=durations.seconds(cool_down, "--cool-down") if cool_down else 0.0,
            seed=seed,
            tell=tell,
        )
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted before the verdict; the rounds so far are in validation.jsonl",
            where=str(found.path),
            next_step=f"start again: helitune validate {found.id}",
        ) from None
    finally:
        found.close()
    report_validated(validation, findings, json=json, explain=explain, format_=format_)


def _thresholds(gate: str | None, file: Path | None, min_effect: str | None, runs: int | None) -> Thresholds:
    """The thresholds that the options say."""
    if gate is not None and gate not in PRESETS:
        raise InputError(f"no gate {gate!r}", where="--gate", next_step=f"choose from {', '.join(PRESETS)}")
    chosen = PRESETS[gate or STRICT]
    if file is not None:
        if gate is not None:
            raise InputError(
                "a file of thresholds names its gate", where="--gate", next_step="give one of both"
            )
        chosen = Thresholds.from_json(_read(file), str(file))
    try:
        if min_effect is not None:
            chosen = replace(chosen, min_effect=share(min_effect, "--min-effect"))
        return replace(chosen, runs=runs) if runs is not None else chosen
    except ValueError as error:
        raise InputError(
            f"thresholds do not fit together: {error}",
            where="--runs",
            next_step="give fewer, or another max_runs in --thresholds",
        ) from error


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        what = f"cannot read the thresholds: {getattr(error, 'strerror', None) or error}"
        raise InputError(
            what, where=str(file), next_step="make one: helitune validate --dump-thresholds"
        ) from error


def _again(file: Path, thresholds: Thresholds | None) -> tuple[Validation, list[Finding]]:
    """The last validation of a file, decided again."""
    from helitune.results.validation_file import read_validations
    from helitune.results.validation_verdict import judge

    validation = read_validations(file)[-1]
    if thresholds is not None:
        validation = replace(validation, head=replace(validation.head, thresholds=thresholds))
    return validation, judge(validation)


def _measured(
    run: RunDirectory,
    thresholds: Thresholds,
    *,
    named: tuple[str, ...],
    cool_down_s: float,
    seed: int,
    tell: Callable[[str], None],
) -> tuple[Validation, list[Finding]]:
    """Measure, decide, and write both down. The statistics are imported here: they take a second."""
    from helitune.results import validation_plan as plans
    from helitune.results.finding_record import validation_record, verdict_records
    from helitune.results.validate_run import validate as validate_plan
    from helitune.results.validation_file import FILE, ValidationFile, count_validations

    request = TuneRequest.from_json(run.run()["request"])
    trials = run.trials()
    chosen = plans.chosen_trials(run, [find_trial(trials, name, str(run.path)) for name in named])
    tools = plans.tools_again(run, request)
    when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    number = count_validations(run.path / FILE) + 1
    if number > 1:
        tell(f"validation {number} of this run: each one more is one more chance to be lucky")
    with clocks_held(request, tools):
        plan = plans.make_plan(
            run,
            chosen,
            thresholds,
            calibration_for(request, tools, run.log, tell),
            {"created": when, "clocks": request.lock_clocks or "free"},
            number=number,
            seed=seed,
            cool_down_s=cool_down_s,
        )
        arms = len(plan.head.arms(tuple(one.id for one in plan.finalists)))
        with ValidationFile(run.path / FILE) as file:
            start = plans.fresh_sessions(run, request, tools, arms)
            validation, findings = validate_plan(plan, start, file, tell)
    record = validation_record(validation, findings, file=FILE, when=when)
    verdicts = verdict_records(validation, findings)
    run.write_run({**run.run(), "verdicts": verdicts, "validation": record})
    return validation, findings


def clocks_held(request: TuneRequest, tools: Tools) -> AbstractContextManager[object]:
    """The GPU's clock as the run had it: held where that was asked for, and restored on every way out."""
    from helitune.objectives.gpu.clock_lock import locked_clocks

    if tools.device is None or request.lock_clocks is None:
        return nullcontext()
    wanted = request.lock_clocks
    return locked_clocks(tools.device.uuid, int(wanted) if wanted.isdecimal() else None)


def calibration_for(
    request: TuneRequest, tools: Tools, log: Path, tell: Callable[[str], None]
) -> Calibration:
    """This machine's calibration for the run's way of timing; a short one is made where there is none."""
    from helitune.results.calibrate_run import SHORT, calibrate
    from helitune.results.calibration import load_calibration, save_calibration

    from .calibrate_command import sessions, setting_of

    setting = setting_of(request, tools)
    known = load_calibration(setting)
    if known is not None:
        return known
    tell("this machine is not calibrated: a short calibration first (helitune calibrate makes a longer one)")
    made = calibrate(request, setting, sessions(tools, log), tell, SHORT)
    save_calibration(made)
    return made
