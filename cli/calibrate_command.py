"""`helitune calibrate`: how far apart two builds of the same kernel come out on this machine."""

from __future__ import annotations

import json as json_text
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helitune.acfs.errors import InputError, Interrupted, MachineError
from helitune.results.request import TuneRequest

from .options import Json, PtxasOption, Quiet
from .reporters import make_reporter

if TYPE_CHECKING:
    from helitune.results.calibration import Calibration, Rebuilt, Setting
    from helitune.results.session import Session, Tools

LEAST_BASELINES = 20


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("calibrate")(calibrate)


def calibrate(
    device: Annotated[
        str, typer.Option("--device", metavar="GPU", help="GPU to measure: auto, or a CUDA index.")
    ] = "auto",
    timing: Annotated[
        str, typer.Option("--timing", metavar="HOW", help="graph or eager, as the runs to be validated.")
    ] = "graph",
    cache: Annotated[
        str, typer.Option("--cache", metavar="HOW", help="cold or warm, as the runs to be validated.")
    ] = "cold",
    lock_clocks: Annotated[
        str | None,
        typer.Option("--lock-clocks", metavar="MHZ", help="As the runs to be validated: MHz, or auto."),
    ] = None,
    baselines: Annotated[
        int,
        typer.Option("--baselines", metavar="N", min=LEAST_BASELINES, max=600, help="Baselines built twice."),
    ] = 30,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=3, max=400, help="Rounds of each.")
    ] = 40,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Decides orders and placement.")
    ] = 0,
    ptxas: PtxasOption = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure this machine's A/A distribution: how far apart two builds of the same kernel come out.

    A memory-bound, a compute-bound and a launch-bound kernel are built twice, again and again, each time with code
    and buffers elsewhere. What validate calls faster must exceed the 95th percentile of these differences.
    """
    from helitune.objectives.calibration_kernels import KERNELS
    from helitune.results import calibrate_run
    from helitune.results.calibration import save_calibration
    from helitune.results.session import find_tools

    from .validate_command import clocks_held

    _require_one_of(timing, ("graph", "eager"), "--timing")
    _require_one_of(cache, ("cold", "warm"), "--cache")
    if lock_clocks is not None and lock_clocks != "auto" and not lock_clocks.isdecimal():
        raise InputError(f"{lock_clocks!r} is no clock", where="--lock-clocks", next_step="give MHz, or auto")
    request = kernels_request(device, timing, cache, lock_clocks, seed, ptxas)
    tools = find_tools(request)
    if tools.device is None:
        raise MachineError("no GPU to calibrate", where="calibrate", next_step="run helitune doctor")
    tell = make_reporter(json=json, quiet=quiet).note
    amount = calibrate_run.Amount(
        rebuilt=math.ceil(baselines / len(KERNELS)), processes=calibrate_run.FULL.processes, rounds=rounds
    )
    setting = setting_of(request, tools)
    with tempfile.TemporaryDirectory(prefix="helitune-calibrate-", ignore_cleanup_errors=True) as folder:
        try:
            with clocks_held(request, tools):
                start = sessions(tools, Path(folder) / "workers.log")
                made = calibrate_run.calibrate(request, setting, start, tell, amount)
        except KeyboardInterrupt:
            raise Interrupted(
                "interrupted: nothing is calibrated", where="calibrate", next_step="start it again"
            ) from None
    path = save_calibration(made)
    if json:
        print(json_text.dumps(_fields(made, path)))
    elif quiet:
        print(path)
    else:
        _print(made, path)


def setting_of(request: TuneRequest, tools: Tools) -> Setting:
    """What a calibration for this request's way of timing belongs to; MachineError without a GPU."""
    from helitune.results.calibration import Setting

    if tools.device is None:
        raise MachineError("no GPU to measure on", where="calibration", next_step="run helitune doctor")
    clocks = request.lock_clocks or "free"
    return Setting.of(tools.device, tools.ptxas, timing=request.timing, cache=request.cache, clocks=clocks)


def sessions(tools: Tools, log: Path) -> Callable[[TuneRequest], AbstractContextManager[Session]]:
    """What starts the session of a calibration kernel; what its processes say is added to `log`."""
    from helitune.results.session import Session

    @contextmanager
    def start(request: TuneRequest) -> Iterator[Session]:
        with Session(request, replace(tools, acfs=(), packs=()), log) as session:
            yield session

    return start


def kernels_request(
    device: str, timing: str, cache: str, lock_clocks: str | None, seed: int, ptxas: str | None
) -> TuneRequest:
    """A request for the calibration kernels; calibrate_run names the file of each."""
    return TuneRequest(
        file="",
        kernel=None,
        reference=None,
        args=(),
        target="auto",
        packs=(),
        force=False,
        settings=(),
        strategy="grid",
        objective="auto",
        budget=0,
        time_s=None,
        seed=seed,
        jobs=min(2, len(os.sched_getaffinity(0))),
        compile_timeout_s=120.0,
        memory_bytes=8 << 30,
        ptxas=str(Path(ptxas).absolute()) if ptxas else None,
        device=device,
        timing=timing,
        cache=cache,
        lock_clocks=lock_clocks,
    )


def _require_one_of(text: str, allowed: tuple[str, ...], option: str) -> None:
    if text not in allowed:
        raise InputError(f"{text!r} is neither", where=option, next_step=f"choose {' or '.join(allowed)}")


def _print(made: Calibration, path: Path) -> None:
    setting, floor = made.setting, made.floor()
    print(
        f"{setting.gpu}, driver {setting.driver}, torch {setting.torch}, triton {setting.triton}, ptxas "
        f"{setting.ptxas}; timing {setting.timing}, cache {setting.cache}, clocks {setting.clocks}"
    )
    print(
        f"  {'kernel':14} {'baselines':>9} {'rounds':>6} {'pair sd':>8} {'median |A/A|':>12} {'largest':>8}"
    )
    for kernel, rebuilt in made.kernels():
        print(_row(kernel.replace("_", " "), rebuilt))
    print(
        f"A/A floor {math.expm1(floor.quantile95):.3%} (95th percentile of {floor.offsets}), offsets scatter by "
        f"{math.sqrt(floor.offset_variance):.3%} beyond the rounds' noise"
    )
    print(f"kept in {path}")


def _row(kernel: str, rebuilt: list[Rebuilt] | Any) -> str:
    import statistics

    offsets = sorted(abs(one.offset) for one in rebuilt)
    pair_sd = statistics.fmean(statistics.stdev(one.log_ratios) for one in rebuilt)
    return (
        f"  {kernel:14} {len(rebuilt):>9} {len(rebuilt[0].log_ratios):>6} {pair_sd:>8.3%} "
        f"{statistics.median(offsets):>12.3%} {offsets[-1]:>8.3%}"
    )


def _fields(made: Calibration, path: Path) -> dict[str, Any]:
    return {"calibration": str(path), "floor": asdict(made.floor()), **made.to_json()}
