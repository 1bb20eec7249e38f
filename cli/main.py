"""The entry point, and the one place where errors end: each in one line, with the exit code it stands for."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Any, NoReturn

from helitune.acfs.errors import Interrupted, MachineError, UserError

INTERRUPTED = Interrupted.exit_code


def run() -> NoReturn:
    """Run the command line and exit: 0 done, 1 negative verdict, 2 wrong input, 3 machine, 130 interrupted."""
    _take_signals()
    try:
        status = _run_commands()
        sys.stdout.flush()
    except UserError as error:
        status = _report(error)
    except KeyboardInterrupt:
        status = _report(_too_early())
    except BrokenPipeError:
        status = _nobody_reads()
    except OSError as error:
        status = _report(_from_system(error))
    except Exception as error:  # noqa: BLE001  the last resort: one line, not a traceback
        status = _report_bug(error)
    sys.exit(status)


def _take_signals() -> None:
    """Let SIGTERM and a hang-up end the command as Ctrl-C does; `nohup` keeps its say."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _as_interrupt)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run_commands() -> int:
    """The exit status of the commands; imported here, so that signals are taken before anything takes long."""
    import typer

    from .app import app

    # typer brings a Click of its own or uses the installed one, by its version
    usage_error: Any = next(k for k in typer.BadParameter.__mro__ if k.__name__ == "ClickException")
    try:
        # not standalone: there an interrupt would end without a word
        status = app(standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        raise
    except usage_error as error:
        error.show()
        if "--json" in sys.argv:
            _print_json(str(error), "", "see --help", UserError.exit_code)
        return UserError.exit_code
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _report(error: UserError) -> int:
    if "--json" in sys.argv and not error.reported:
        _print_json(error.what, error.where, error.next_step, error.exit_code)
    print(f"helitune: {error.line()}", file=sys.stderr)
    return error.exit_code


def _print_json(what: str, where: str, next_step: str, exit_code: int) -> None:
    error = {"what": what, "where": where, "next_step": next_step}
    print(json.dumps({"error": error, "exit_code": exit_code}))


def _too_early() -> Interrupted:
    return Interrupted(
        "interrupted before there was anything to keep", where="helitune", next_step="start it again"
    )


def _nobody_reads() -> int:
    """The reader of our pipe went away (`| head`): not an error, and nobody is left to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _from_system(error: OSError) -> MachineError:
    if os.environ.get("HELITUNE_DEBUG"):
        traceback.print_exception(error)
    # what could not be written must not be tried again at exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return MachineError(
        f"the system refused: {error.strerror or error}",
        where=str(error.filename or "standard output"),
        next_step="free disk space or mend the permissions, and start again",
    )


def _report_bug(error: Exception) -> int:
    if os.environ.get("HELITUNE_DEBUG"):
        traceback.print_exception(error)
    print(
        f"helitune: unexpected {type(error).__name__}: {' '.join(str(error).split())[:300]}; "
        "run again with HELITUNE_DEBUG=1 for the traceback, and report it",
        file=sys.stderr,
    )
    return MachineError.exit_code
