"""What `tune` and `evolve` read of their command lines alike."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import typer

from helitune.acfs.errors import InputError
from helitune.results.request import TuneRequest
from helitune.results.run_directory import create_run, working_folder

from . import pipeline


def require_one_of(text: str, allowed: tuple[str, ...], option: str) -> None:
    """Raise InputError for a text that is none of those allowed."""
    if text not in allowed:
        raise InputError(f"{text!r} is neither", where=option, next_step=f"choose {' or '.join(allowed)}")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def given(context: typer.Context) -> set[str]:
    """Names of the parameters that stand on the command line."""
    return {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }


_SPELLED = {"kernel_file": "FILE", "settings": "--set", "bytes_moved": "--bytes"}


def require_only(context: typer.Context, allowed: set[str], why: str, *, where: str, next_step: str) -> None:
    """Raise InputError, beginning with `why`, for parameters beside those `allowed` on the command line."""
    others = sorted(given(context) - allowed)
    if others:
        spelled = ", ".join(_SPELLED.get(name, f"--{name.replace('_', '-')}") for name in others)
        raise InputError(f"{why}: {spelled} cannot be given", where=where, next_step=next_step)


def new_run(request: TuneRequest, reporter: pipeline.Reporter) -> pipeline.Tuned:
    """What a new run of the request in the working folder came to; raises as pipeline.tune does."""
    run = create_run(working_folder())
    try:
        return pipeline.tune(request, run, reporter, resumed=False)
    finally:
        if not (run.path / "run.json").exists():  # nothing was found out: leave nothing behind
            shutil.rmtree(run.path, ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty: other runs are there
                run.path.parent.rmdir()
                run.path.parent.parent.rmdir()


def split_kernel(text: str | None, command: str) -> tuple[Path, str | None]:
    """The kernel file, absolute, and the kernel's name if one is given; InputError where there is no such file."""
    if not text:
        raise InputError(
            "no kernel file given",
            where=f"helitune {command}",
            next_step=f"try: helitune {command} FILE[:KERNEL]",
        )
    name, colon, kernel = text.rpartition(":")
    if not colon or Path(text).exists():
        name, kernel = text, ""
    path = Path(name).absolute()
    if not path.is_file():
        raise InputError(
            "no such kernel file" if not path.is_dir() else "a folder, not a kernel file",
            where=name,
            next_step="name a Python file with a Helion kernel",
        )
    return path, kernel or None
