"""Helion's own autotuner as a source of one candidate: run in a child process, its winner given back.

The child sees a GPU, the ptxas of the environment, and fresh caches; none of the user's HELION_ variables, which
would make it another autotuner than the one that plain Helion has by default.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from helitune.acfs.errors import InputError, MachineError, UserError

from .peer_record import PeerRequest, PeerResult
from .process_tree import kill_tree

__all__ = ["EFFORTS", "PeerRequest", "PeerResult", "autotune"]

MODULE = "helitune.objectives.gpu.helion_autotune"
EFFORTS = ("quick", "full")
"""Helion 1.5's levels that search; the child asks the Helion it has."""
LOG_TAIL_LINES = 20
_ERRORS: dict[str, type[UserError]] = {"InputError": InputError, "MachineError": MachineError}


def autotune(
    request: PeerRequest,
    environment: Mapping[str, str],
    log: Path,
    timeout_s: float,
    python: str = sys.executable,
) -> PeerResult:
    """The winner of Helion's autotuner; what it says is added to `log`.

    `environment` names the GPU and the ptxas, as for every process that owns the GPU. The child and all that it
    started are killed after `timeout_s`, imports included, and when an exception (Ctrl-C) interrupts the wait.

    Raises the InputError that the kernel, its inputs or the effort deserve, and MachineError where there is no
    GPU, or the autotuner crashed or took too long.
    """
    with (
        tempfile.TemporaryDirectory(prefix="helitune-peer-", ignore_cleanup_errors=True) as folder,
        log.open("ab+") as said,
    ):
        begin = said.seek(0, os.SEEK_END)
        output = Path(folder) / "answer.json"
        child = _start(request, output, child_environment(environment, Path(folder)), said, python)
        try:
            status = child.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise MachineError(
                f"Helion's autotuner took more than {timeout_s:g} s",
                where=str(log),
                next_step="give it more time, or a budget of its own",
            ) from error
        finally:
            _end(child)
        answer = _read(output)
        lines = _lines(said, begin)
    if answer is None:
        raise _crashed(status, lines, log)
    if "error" in answer:
        told = answer["error"]
        raise _ERRORS[told["kind"]](told["what"], where=told["where"], next_step=told["next_step"])
    return _result(answer["result"], request, lines)


def child_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """`environment` without the settings of Helion, with caches and temporary files in `scratch`.

    Helion seeds a search with what its cache holds of similar kernels, even where it must not answer from it.
    """
    plain = {name: value for name, value in environment.items() if not name.startswith("HELION_")}
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    return plain | {
        "HELION_CACHE_DIR": str(scratch / "helion"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TMPDIR": str(temporary),
        "PYTHONUNBUFFERED": "1",
        "HELITUNE_PARENT": str(os.getpid()),
    }


def _start(
    request: PeerRequest, output: Path, environment: Mapping[str, str], log: IO[bytes], python: str
) -> subprocess.Popen[bytes]:
    # by way of a file: a list of ACFs may be longer than an argument may be
    asked = output.with_name("request.json")
    asked.write_text(json.dumps({**request.to_json(), "output": str(output)}))
    try:
        with asked.open("rb") as stdin:
            return subprocess.Popen(
                [python, "-P", "-m", MODULE, "-"],
                stdin=stdin,
                stdout=log,
                stderr=log,
                env=dict(environment),
                start_new_session=True,
            )
    except OSError as error:
        raise MachineError(
            f"Helion's autotuner did not start: {error}", where=python, next_step="name a Python that runs"
        ) from error


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill what runs of the child and of what it started; of a child that ended, what is left of its group."""
    if child.returncode is None:
        kill_tree(child.pid)
        child.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(output: Path) -> dict[str, Any] | None:
    """The child's answer, None where it left none that can be read."""
    try:
        answer = json.loads(output.read_bytes())
        known = answer["error"]["kind"] in _ERRORS if "error" in answer else "result" in answer
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return dict(answer) if known else None


def _result(found: dict[str, Any], request: PeerRequest, lines: list[str]) -> PeerResult:
    path = found.pop("acf_path")
    shas = {"": "", **{str(acf.path): acf.sha256 for acf in request.acfs}}
    if path not in shas:
        raise InputError(
            "Helion's autotuner chose an ACF that it was not given",
            where=path,
            next_step="leave autotune_config_overrides out of the kernel's settings",
        )
    return PeerResult.from_json({**found, "acf_sha256": shas[path], "log_tail": lines[-LOG_TAIL_LINES:]})


def _lines(log: IO[bytes], begin: int) -> list[str]:
    """What was written to the log from `begin` on, without empty lines."""
    log.seek(begin)
    return [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]


def _crashed(status: int, lines: list[str], log: Path) -> MachineError:
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    last = lines[-1].strip()[:500] if lines else "no output"
    return MachineError(
        f"Helion's autotuner {how}: {last}", where=str(log), next_step="see this log for what came before"
    )
