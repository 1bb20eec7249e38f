"""Run ptxas on PTX with an ACF or none, in a child that can be killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class AssembleTimeout(Exception):
    """ptxas took longer than allowed and was killed."""


class AssembleFailed(Exception):
    """ptxas refused: the message is the line of its output that says why."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin, what `ptxas -v` said of it, and the seconds it took."""

    cubin: bytes
    log: str
    seconds: float


def assemble(
    ptxas: Path,
    ptx: str,
    flags: Sequence[str],
    acf: Path | None,
    *,
    timeout_s: float,
    memory_bytes: int,
) -> Assembled:
    """The cubin of `ptx` under Triton's own `flags`, with `acf` applied where one is given.

    Raises AssembleTimeout and AssembleFailed. The child has its own process group and no more than
    `memory_bytes` of address space.
    """
    with tempfile.TemporaryDirectory(prefix="helitune-ptxas-") as folder:
        source, output = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        controls = ["--apply-controls", str(acf)] if acf is not None else []
        command = [str(ptxas), *flags, *controls, str(source), "-o", str(output)]
        started = time.perf_counter()
        status, log = _run(command, timeout_s, memory_bytes)
        seconds = time.perf_counter() - started
        if status != 0 or not output.exists():
            raise AssembleFailed(_reason(status, log))
        return Assembled(output.read_bytes(), log, seconds)


_running: set[subprocess.Popen[str]] = set()


def kill_running() -> None:
    """End every ptxas that this process still runs; the calls that wait for them raise AssembleFailed."""
    for child in list(_running):
        _kill(child)


def _kill(child: subprocess.Popen[str]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _run(command: list[str], timeout_s: float, memory_bytes: int) -> tuple[int, str]:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    _running.add(child)
    try:
        resource.prlimit(child.pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (ProcessLookupError, PermissionError):
        pass  # it has ended already, or limits are not ours to set here
    try:
        log, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise AssembleTimeout(f"ptxas took more than {timeout_s:g} s") from None
    finally:
        if child.returncode is None:
            _kill(child)  # before it is waited for: a child of a wrapper script may outlive the script
            assert child.stdout is not None
            child.stdout.close()
            child.wait()
        _running.discard(child)
    return child.returncode, log


def _reason(status: int, log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "fatal" in line or "error" in line.lower()]
    if status < 0:
        return f"ptxas was ended by {signal.Signals(-status).name}"
    last = (telling or lines or ["no output"])[0]
    return f"ptxas exit {status}: {last}"
