"""Locks a GPU's clocks while something is measured, and restores them however that ends.

The restoring is not ours to do: a child in its own session waits for the end of a pipe that only this process
holds, and then resets the clocks. Whether the block ends, raises, or the process is killed with SIGKILL, the
pipe closes; Ctrl-C in the terminal and a hang-up do not reach the child.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from helitune.acfs.errors import MachineError

from .nvidia_smi import TIMEOUT_S, SmiRefused, first_line, nvidia_smi, nvidia_smi_path

SUSTAINED_SHARE = 0.8
"""Of the maximum clock, where the vendor names none below it. A compute-bound kernel at the maximum itself runs
into the power limit, and a clock that is taken down again is not locked. A choice, not a measurement."""

_REFUSED = "run as root (a container needs CAP_SYS_ADMIN too), or leave --lock-clocks out"
_RESET = "run helitune doctor --reset-clocks as root"

# signals to the whole control group (a service that is stopped) reach the child too: it outlasts them. A reader
# that is gone must not end nvidia-smi half way, so SIGPIPE is among them.
_WATCHDOG = """trap '' HUP INT TERM PIPE; while read -r _; do :; done; exec "$0" -i "$1" -rgc"""


@contextmanager
def locked_clocks(gpu: str, mhz: int | None) -> Iterator[int]:
    """The MHz that the graphics clock of `gpu` is locked to, while the block runs; None is `sustained_clock`.

    `gpu` is what `nvidia-smi -i` takes: an index in PCI order, "GPU-<uuid>", or a PCI bus id. Belongs in the main
    process. The driver takes the nearest clock it has. Where persistence mode is off, the lock lasts only as long
    as some process uses the GPU. Clocks that were locked before are not locked again afterwards: nvidia-smi does
    not tell them.

    Raises MachineError where there is no nvidia-smi, where it refuses, and where the clocks could not be restored.
    """
    mhz = sustained_clock(gpu) if mhz is None else mhz
    watchdog = _Watchdog(gpu)
    try:
        try:
            watchdog.lock(mhz)
        except SmiRefused:
            watchdog.dismiss()
            raise
        yield mhz
    finally:
        watchdog.restore()


def sustained_clock(gpu: str) -> int:
    """A clock in MHz that `gpu` can hold: its default applications clock, if below the maximum, else 80 % of that."""
    most = _clock(gpu, "clocks.max.graphics")
    if most is None:
        raise MachineError(
            f"nvidia-smi does not tell the maximum clock of GPU {gpu}",
            where="--lock-clocks",
            next_step="give the clock in MHz: --lock-clocks MHZ",
        )
    default = _clock(gpu, "clocks.default_applications.graphics")
    return default if default is not None and default < most else int(most * SUSTAINED_SHARE)


def reset_clocks(gpu: str | None) -> None:
    """None; `gpu` (every GPU that nvidia-smi shows, if None) then has its own clocks. Raises MachineError."""
    chosen = () if gpu is None else ("-i", gpu)
    nvidia_smi(*chosen, "-rgc", next_step="run it as root (a container needs CAP_SYS_ADMIN too)")


def _clock(gpu: str, field: str) -> int | None:
    """A clock in MHz, or None where this GPU or driver does not give it."""
    try:
        answer = nvidia_smi(
            "-i", gpu, f"--query-gpu={field}", "--format=csv,noheader,nounits", next_step=_REFUSED
        )
    except SmiRefused:
        return None
    return int(answer) if answer.strip().isdecimal() else None


class _Watchdog:
    """The child that resets the clocks of `gpu` as soon as nobody holds the other end of its pipe."""

    def __init__(self, gpu: str) -> None:
        self._gpu = gpu
        try:
            self._child: subprocess.Popen[str] | None = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHDOG, nvidia_smi_path(), gpu],
                stdin=subprocess.PIPE,  # our end is closed in every other child, as all of Python's pipes are
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(
                f"the process that restores the clocks does not start: {error.strerror or error}",
                where="--lock-clocks",
                next_step="leave --lock-clocks out",
            ) from error

    def lock(self, mhz: int) -> None:
        """Lock the clocks. nvidia-smi holds the pipe too: should we be killed now, it is reset only after it."""
        assert self._child is not None and self._child.stdin is not None
        held = (self._child.stdin.fileno(),)
        nvidia_smi("-i", self._gpu, "-lgc", f"{mhz},{mhz}", next_step=_REFUSED, pass_fds=held)

    def dismiss(self) -> None:
        """End the child without a reset: nothing was locked."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def restore(self) -> None:
        """Wait until the child has reset the clocks. An interrupt ends the waiting only, not the child."""
        if self._child is None:
            return
        child, self._child = self._child, None
        where = f"nvidia-smi -i {self._gpu} -rgc"
        try:
            output, _ = child.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            what = f"the clocks of GPU {self._gpu} may still be locked: nvidia-smi does not answer"
            raise MachineError(what, where=where, next_step=_RESET) from error
        if child.returncode != 0:
            what = f"the clocks of GPU {self._gpu} are still locked: {first_line(output, child.returncode)}"
            raise MachineError(what, where=where, next_step=_RESET)
