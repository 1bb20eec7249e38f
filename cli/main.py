"""The entry point: the commands, and the one place where errors end."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from helitune.acfs.errors import UserError

from . import pin_command, show_command, tune_command

app = typer.Typer(
    name="helitune",
    help="Search the kernel config of a Helion kernel jointly with ptxas controls (ACFs), and pin the result.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"helitune {version('helitune')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


tune_command.register(app)
pin_command.register(app)
show_command.register(app)

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command line and exit: 0 done, 1 negative verdict, 2 wrong input, 3 machine, 130 interrupted."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        app()
    except UserError as error:
        _report(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # the reader of a pipe went away (`| head`): nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001  the last resort: one line, not a traceback
        _report_bug(error)
        sys.exit(3)
    sys.exit(0)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _report(error: UserError) -> None:
    if "--json" in sys.argv:
        fields = {"what": error.what, "where": error.where, "next_step": error.next_step}
        print(json.dumps({"error": fields, "exit_code": error.exit_code}))
    print(f"helitune: {error.line()}", file=sys.stderr)


def _report_bug(error: Exception) -> None:
    if os.environ.get("HELITUNE_DEBUG"):
        traceback.print_exception(error)
    print(
        f"helitune: unexpected {type(error).__name__}: {' '.join(str(error).split())}; "
        "run again with HELITUNE_DEBUG=1 for the traceback, and report it",
        file=sys.stderr,
    )
