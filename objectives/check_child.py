"""Run the interpreter check in a child process on the CPU, killed with all it started at a timeout."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from typing import IO, Any

from helitune.acfs.errors import InputError, MachineError, UserError

from .check_result import CheckRequest, CheckResult
from .compile_environment import without_what_changes_results

MODULE = "helitune.objectives.interpreter_check"
TIMEOUT_S = 300.0
_ERRORS: dict[str, type[UserError]] = {"InputError": InputError, "MachineError": MachineError}


def run_check(
    request: CheckRequest, timeout_s: float = TIMEOUT_S, python: str = sys.executable
) -> CheckResult:
    """The result of the check; see `CheckHandle.result` for what is raised."""
    return start_check(request, python=python).result(timeout_s)


def start_check(request: CheckRequest, python: str = sys.executable) -> CheckHandle:
    """A check that runs in a child process of its own process group while the caller does other work."""
    output, log = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    scratch = tempfile.TemporaryDirectory(prefix="helitune-check-", ignore_cleanup_errors=True)
    try:
        child = subprocess.Popen(
            [python, "-P", "-m", MODULE, json.dumps(request.to_json())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            env=_environment(scratch.name),
            start_new_session=True,
        )
    except OSError as error:
        raise MachineError(
            f"the interpreter check did not start: {error}", where=python, next_step="name a Python that runs"
        ) from error
    return CheckHandle(request, child, output, log, scratch)


class CheckHandle:
    """A running check. Dropped or left at exit, it is killed."""

    def __init__(
        self,
        request: CheckRequest,
        child: subprocess.Popen[bytes],
        output: IO[bytes],
        log: IO[bytes],
        scratch: tempfile.TemporaryDirectory[str],
    ) -> None:
        self._request = request
        self._child = child
        self._output = output
        self._log = log
        self._kill = weakref.finalize(self, _kill_group, child, scratch)

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._child.poll() is not None

    def result(self, timeout_s: float = TIMEOUT_S) -> CheckResult:
        """What the check found, waiting for it; it is killed after `timeout_s` from now.

        Raises the InputError that the kernel file or its reference deserves, and MachineError where the check
        took too long, crashed, or was cancelled.
        """
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.cancel()
            raise MachineError(
                f"the interpreter check took more than {timeout_s:g} s",
                where=self._request.file,
                next_step="give smaller shapes with --args, or a longer timeout",
            ) from error
        # what the kernel file started goes too
        self._kill()
        answer = self._answer()
        if answer is None:
            raise self._crashed(status)
        if "error" in answer:
            said = answer["error"]
            raise _ERRORS[said["kind"]](said["what"], where=said["where"], next_step=said["next_step"])
        return CheckResult.from_json(answer["result"])

    def cancel(self) -> None:
        """End the check and everything it started; harmless when it has ended."""
        self._kill()

    def _answer(self) -> dict[str, Any] | None:
        lines = _text(self._output).splitlines()
        try:
            answer = json.loads(lines[-1])
            if "error" in answer:
                return answer if answer["error"]["kind"] in _ERRORS else None
            CheckResult.from_json(answer["result"])
        except (IndexError, KeyError, TypeError, ValueError):
            return None
        return dict(answer)

    def _crashed(self, status: int) -> MachineError:
        last = next((line for line in reversed(_text(self._log).splitlines()) if line.strip()), "no output")
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return MachineError(
            f"the interpreter check {how}: {last.strip()}",
            where=self._request.file,
            next_step="run the kernel with HELION_INTERPRET=1 to see the whole output",
        )


def _environment(scratch: str) -> dict[str, str]:
    """The user's environment without what changes results, as for compile processes; the CPU only."""
    return without_what_changes_results(os.environ) | {
        "HELION_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": scratch,
        "TRITON_CACHE_DIR": scratch,
        "HELITUNE_PARENT": str(os.getpid()),
    }


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _kill_group(child: subprocess.Popen[bytes], scratch: tempfile.TemporaryDirectory[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    scratch.cleanup()
