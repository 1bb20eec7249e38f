"""`helitune doctor`: what this machine can do, and how to fix what it cannot."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Iterable
from typing import Annotated

import typer

from helitune.acfs.errors import MachineError
from helitune.objectives.gpu.clock_lock import reset_clocks
from helitune.results.doctor import examine
from helitune.results.doctor_check import Check, worst

from .options import Json, Quiet


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    reset: Annotated[
        bool,
        typer.Option(
            "--reset-clocks",
            help="Give the GPUs (those of CUDA_VISIBLE_DEVICES, else all) their own clocks back, and stop.",
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check what a tune needs on this machine; each line says ok, warn or fail, and the fix.

    Exits with 3 where something failed that a tune needs; warnings are no failure. --quiet prints the worst of
    the three words. Nothing is changed, unless --reset-clocks asks for it.
    """
    if reset:
        _reset(json=json, quiet=quiet)
        return
    checks = _shown(examine(os.environ), show=not (json or quiet))
    failed = [check for check in checks if check.status == "fail"]
    exit_code = MachineError.exit_code if failed else 0
    if json:
        print(json_text.dumps({**_summary(checks), "exit_code": exit_code}))
    elif quiet:
        print(worst(checks))
    if failed:
        error = MachineError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(check.name for check in failed)}",
            where="doctor",
            next_step=failed[0].fix,
        )
        error.reported = json
        raise error


def _summary(checks: list[Check]) -> dict[str, object]:
    measured = any(check.name == "gpu" and check.status == "ok" for check in checks)
    return {
        "checks": [check.to_json() for check in checks],
        "evidence": "measured" if measured else "compiled",
    }


def _shown(checks: Iterable[Check], *, show: bool) -> list[Check]:
    """All checks, printed as they come: some take seconds."""
    done: list[Check] = []
    for check in checks:
        done.append(check)
        if show:
            print(f"{check.status:4}  {check.name:12}  {check.what}", flush=True)
            if check.fix:
                print(f"{'':20}fix: {check.fix}", flush=True)
    return done


def _reset(*, json: bool, quiet: bool) -> None:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or None
    reset_clocks(gpus)
    if json:
        print(json_text.dumps({"reset_clocks": gpus or "all", "exit_code": 0}))
    elif not quiet:
        print(f"the clocks of {f'GPU {gpus}' if gpus else 'all GPUs'} are their own again")
