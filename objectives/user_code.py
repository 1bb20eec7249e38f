"""Run the user's own code: its output goes to stderr, and its failures point into its file."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TypeVar

from helitune.acfs.errors import InputError, UserError

T = TypeVar("T")

_PACKAGE = __name__.partition(".")[0]

_GPU_SIGNS = ("NVIDIA driver", "not compiled with CUDA", "No CUDA", "CUDA GPUs", "active driver", "CUDA dev")


def call_user_code(call: Callable[[], T], path: Path, doing: str) -> T:
    """What `call` returns; what it raises (SystemExit too) as an InputError at the innermost line of `path`.

    `doing` says what was going on, for the message: "importing it", "inputs()".
    """
    try:
        with stdout_to_stderr():
            return call()
    except (KeyboardInterrupt, UserError):
        raise
    except BaseException as error:
        raise _failure(error, path, doing) from error


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Sends what Python code, C code and child processes print on stdout to stderr, while it lasts."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        # closed, as in a daemon: there is nothing to keep clean
        saved = -1
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if saved >= 0:
            os.dup2(saved, 1)
            os.close(saved)


def _failure(error: BaseException, path: Path, doing: str) -> InputError:
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        where = f"{error.filename}:{error.lineno}"
        return InputError(f"{type(error).__name__}: {error.msg}", where=where, next_step="correct this line")
    where, raised_at = _places(error, path)
    if isinstance(error, SystemExit):
        what = f"{doing} ended the process (SystemExit {error.code})"
        next_step = 'put what runs as a script under if __name__ == "__main__":'
    else:
        what = f"{doing} failed with {type(error).__name__}: {_first_line(error)}"
        next_step = _next_step(error, doing)
    return InputError(what + raised_at, where=where, next_step=next_step)


def _places(error: BaseException, path: Path) -> tuple[str, str]:
    """`file:line` of the innermost frame in `path`, and ", raised at file:line" where that is elsewhere."""
    frames = [
        (Path(frame.f_code.co_filename), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<") and not _is_ours(frame)
    ]
    inside = [line for file, line in frames if file.resolve() == path]
    where = f"{path}:{inside[-1]}" if inside else str(path)
    if not frames or frames[-1][0].resolve() == path:
        return where, ""
    file, line = frames[-1]
    return where, f", raised at {file.name}:{line}"


def _is_ours(frame: FrameType) -> bool:
    """Whether the frame is helitune's own code, which is never the place to look at."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"


def _next_step(error: BaseException, doing: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install {error.name}, or put it beside the kernel file"
    if any(sign in str(error) for sign in _GPU_SIGNS):
        return 'this needs a GPU: put calls of the kernel under if __name__ == "__main__":'
    how = "run the file with Python" if "importing" in doing else "call it in Python"
    return f"{how} to see the whole traceback"
