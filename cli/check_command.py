"""`helitune check`: do the pins still hold? The CI job, with a GPU and without."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.paths import atomic_write, sweep_scratch
from helitune.acfs.ptxas import find_ptxas
from helitune.objectives.device import Device, find_device
from helitune.results.check_history import append_history, read_history
from helitune.results.check_pin import Calibrate, check_pin
from helitune.results.check_request import CheckSetting, settings_for
from helitune.results.check_source import KernelFiles
from helitune.results.checked import Checked
from helitune.results.fingerprint import fingerprint
from helitune.results.pin_files import pin_files
from helitune.results.run_directory import working_folder
from helitune.results.thresholds import PRESETS, Thresholds

from .check_markdown import markdown_text
from .check_report import CheckReport, print_report
from .junit import junit_text
from .options import Json, PtxasOption, Quiet
from .reporters import make_reporter
from .shares import share

if TYPE_CHECKING:
    from helitune.results.calibration import Calibration
    from helitune.results.request import TuneRequest
    from helitune.results.session import Tools

GATES = ("strict", "quick")
JOBS = 2


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("check")(check)


def check(
    pins: Annotated[
        list[Path], typer.Argument(metavar="PINS", help="Folders of helitune pin -o, or pins' JSON files.")
    ],
    drift: Annotated[
        bool, typer.Option("--drift", help="Recompile and compare only; the default without a GPU.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Rewrite each pin that passes, with what was found now.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", metavar="DIR", help="Where the kernel files are; the working folder by default."
        ),
    ] = None,
    kernel_file: Annotated[
        Path | None, typer.Option("--kernel-file", metavar="FILE", help="The kernel file of all these pins.")
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device", metavar="GPU", help="auto, or a CUDA index: then a machine without it is an error."
        ),
    ] = "auto",
    gate: Annotated[
        str, typer.Option("--gate", metavar="NAME", help="strict, or quick: one run of ten rounds.")
    ] = GATES[0],
    runs: Annotated[
        int | None,
        typer.Option("--runs", metavar="N", min=1, help="Independent runs; the gate's by default (2)."),
    ] = None,
    min_effect: Annotated[
        str | None,
        typer.Option("--min-effect", metavar="SHARE", help="Least loss that counts: 1%, or 0.01."),
    ] = None,
    timing: Annotated[
        str | None,
        typer.Option("--timing", metavar="HOW", help="graph or eager; as the pin was validated by default."),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="HOW", help="cold or warm; as the pin was validated by default."),
    ] = None,
    lock_clocks: Annotated[
        str | None,
        typer.Option(
            "--lock-clocks",
            metavar="MHZ",
            help="Hold the SM clock there ('auto' to choose), restored at the end.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", min=0, max=2**63 - 1, help="Decides orders, inputs and placement."
        ),
    ] = 0,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write JUnit XML there, a case for each pin."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write Markdown there, for a pull request."),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", metavar="FILE", help="Add a JSON line for each pin there; show the last ones."
        ),
    ] = None,
    ptxas: PtxasOption = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check pins where they are to be used: is each still right, and still faster?

    With a GPU each pin runs beside the kernel's own config and beside its own config without the ACF: outputs are
    checked first, then all are timed in turn, now and on this machine. Without one, or with --drift, each is
    recompiled for its target, and code, PTX, registers and spills are compared with what it recorded. Either way
    the report says whether the pin, the baseline or the environment moved.

    Exits with 0 where all is fine or ambiguous, 1 for a regression, a wrong output or changed code, 2 for a pin
    that cannot be read, 3 where the environment is not the pin's.
    """
    _require_one_of(gate, GATES, "--gate")
    _require_one_of(timing, (None, "graph", "eager"), "--timing")
    _require_one_of(cache, (None, "cold", "warm"), "--cache")
    if lock_clocks is not None and lock_clocks != "auto" and not lock_clocks.isdecimal():
        raise InputError(f"{lock_clocks!r} is no clock", where="--lock-clocks", next_step="give MHz, or auto")
    if not device.isdecimal() and device != "auto":
        raise InputError(f"{device!r} is no GPU", where="--device", next_step="give auto, or a CUDA index: 0")
    thresholds = _thresholds(gate, runs, min_effect)
    files = _pin_files(pins)
    known = read_history(history) if history is not None else []
    sources = KernelFiles(source or working_folder(), kernel_file)
    tell = make_reporter(json=json, quiet=quiet).note
    sweep_scratch()
    how: CheckSetting | MachineError
    try:
        how = CheckSetting(
            ptxas=find_ptxas(ptxas),
            device=None if drift else _device(device),
            thresholds=thresholds,
            timing=timing,
            cache=cache,
            lock_clocks=lock_clocks,
            update=update,
            seed=seed,
            jobs=min(JOBS, len(os.sched_getaffinity(0))),
        )
    except MachineError as error:
        how = error
    report = _checked(files, how, sources, tell, mode="drift" if drift else "measured")
    report = replace(report, history=known)
    print_report(report, json=json, quiet=quiet)
    _write(report, junit=junit, markdown=markdown, history=history)
    end = report.end()
    if end is not None:
        end.reported = True
        raise end


def _checked(
    files: Sequence[Path],
    how: CheckSetting | MachineError,
    sources: KernelFiles,
    tell: Callable[[str], None],
    *,
    mode: str,
) -> CheckReport:
    """Every pin checked; those so far where the user interrupts."""
    when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    done: list[Checked] = []
    if isinstance(how, CheckSetting):
        mode = "drift" if how.device is None else "measured"
        if how.device is None:
            tell("no GPU is used: pins are recompiled and compared, not measured")
    with tempfile.TemporaryDirectory(prefix="helitune-check-", ignore_cleanup_errors=True) as folder:
        try:
            with _clocks_held(how):
                each = (
                    settings_for(files, how) if isinstance(how, CheckSetting) else dict.fromkeys(files, how)
                )
                for number, file in enumerate(files, start=1):
                    tell(f"pin {number} of {len(files)}: {file}")
                    done.append(check_pin(file, each[file], sources, _calibrate(Path(folder), tell), tell))
        except KeyboardInterrupt:
            pass  # the report says how far it came
    return CheckReport(
        mode=mode,
        checked=tuple(done),
        environment=_environment(how),
        how=_method(how),
        when=when,
        total=len(files),
    )


def _environment(how: CheckSetting | MachineError) -> dict[str, Any]:
    if isinstance(how, MachineError):
        return {}
    return fingerprint(how.ptxas, how.device.arch if how.device else "", how.device)


def _method(how: CheckSetting | MachineError) -> str:
    """How pins are checked, in a clause."""
    if isinstance(how, MachineError):
        return f"nothing could be checked: {how.what}"
    if how.device is None:
        return "recompiled and compared with what each pin recorded; no run time was taken"
    gate, clocks = how.thresholds, how.lock_clocks or "free"
    runs = f"{gate.runs} run(s) of {gate.looks[0]} to {gate.looks[-1]} rounds"
    return f"measured now, side by side with both baselines: {runs}, clocks {clocks}"


def _calibrate(folder: Path, tell: Callable[[str], None]) -> Calibrate:
    """What finds this machine's calibration, and makes a short one where there is none."""

    def calibrate(request: TuneRequest, tools: Tools) -> Calibration:
        from .validate_command import calibration_for

        return calibration_for(request, tools, folder / "workers.log", tell)

    return calibrate


def _clocks_held(how: CheckSetting | MachineError) -> AbstractContextManager[object]:
    """The GPU's clock held where that is asked for, and restored on every way out."""
    if isinstance(how, MachineError) or how.device is None or how.lock_clocks is None:
        return nullcontext()
    from helitune.objectives.gpu.clock_lock import locked_clocks

    return locked_clocks(how.device.uuid, int(how.lock_clocks) if how.lock_clocks.isdecimal() else None)


def _device(text: str) -> Device | None:
    """The GPU to measure on; None without one, unless a certain one is asked for."""
    found = find_device(0 if text == "auto" else int(text))
    if found is None and text != "auto":
        raise MachineError(
            "no GPU on this machine",
            where=f"--device {text}",
            next_step="run helitune doctor, or check with --drift",
        )
    return found


def _pin_files(pins: Sequence[Path]) -> list[Path]:
    """The pins' files, each once; InputError where one of `pins` has none."""
    found: dict[Path, None] = {}
    for path in pins:
        files = pin_files(path)
        if not files:
            raise InputError(
                "no pin there",
                where=str(path),
                next_step="name the folder of helitune pin -o, or a pin's JSON file",
            )
        found |= dict.fromkeys(files)
    return list(found)


def _thresholds(gate: str, runs: int | None, min_effect: str | None) -> Thresholds:
    chosen = PRESETS[gate]
    try:
        if min_effect is not None:
            chosen = replace(chosen, min_effect=share(min_effect, "--min-effect"))
        return replace(chosen, runs=runs) if runs is not None else chosen
    except ValueError as error:
        raise InputError(
            f"the gate does not go with these: {error}", where="--runs", next_step="give fewer runs"
        ) from error


def _write(report: CheckReport, *, junit: Path | None, markdown: Path | None, history: Path | None) -> None:
    """The files that were asked for; MachineError where one cannot be written."""
    if junit is not None:
        atomic_write(junit, junit_text(report).encode())
    if markdown is not None:
        atomic_write(markdown, markdown_text(report).encode())
    if history is not None:
        append_history(
            history, report.checked, when=report.when, mode=report.mode, environment=report.environment
        )


def _require_one_of(text: str | None, allowed: tuple[str | None, ...], option: str) -> None:
    if text not in allowed:
        names = " or ".join(name for name in allowed if name)
        raise InputError(f"{text!r} is neither", where=option, next_step=f"choose {names}")
