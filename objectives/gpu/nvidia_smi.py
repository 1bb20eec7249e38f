"""Runs nvidia-smi, the one tool that may change a GPU's clocks without linking to the driver."""

from __future__ import annotations

import shutil
import subprocess

from helitune.acfs.errors import MachineError

TIMEOUT_S = 30.0
"""For one call: where no process keeps the driver loaded, loading it alone takes seconds."""

_NOT_DONE = "Treating as warning"
"""What nvidia-smi says, with exit status 0, of a setting that the GPU does not have."""


class SmiRefused(MachineError):
    """nvidia-smi ran and changed nothing: not permitted, not supported, or no such GPU."""


def nvidia_smi_path() -> str:
    """The nvidia-smi of the PATH, absolute; MachineError where there is none."""
    path = shutil.which("nvidia-smi")
    if path is None:
        raise MachineError(
            "nvidia-smi is not on the PATH",
            where="GPU clocks",
            next_step="install the NVIDIA driver's utilities (in a container: the capability `utility`)",
        )
    return path


def nvidia_smi(*arguments: str, next_step: str, pass_fds: tuple[int, ...] = ()) -> str:
    """What nvidia-smi prints, holding `pass_fds` open meanwhile.

    Raises SmiRefused with its own line, and MachineError where it did not run to its end.
    """
    where = " ".join(["nvidia-smi", *arguments])
    try:
        ended = subprocess.run(
            [nvidia_smi_path(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            pass_fds=pass_fds,
        )
    except subprocess.TimeoutExpired as error:
        what = f"nvidia-smi does not answer within {TIMEOUT_S:g} s"
        raise MachineError(what, where=where, next_step=next_step) from error
    except OSError as error:
        what = f"nvidia-smi cannot be run: {error.strerror or error}"
        raise MachineError(what, where=where, next_step=next_step) from error
    if ended.returncode != 0 or _NOT_DONE in ended.stdout:
        raise SmiRefused(first_line(ended.stdout, ended.returncode), where=where, next_step=next_step)
    return ended.stdout


def first_line(output: str, status: int) -> str:
    """The line of nvidia-smi that says what is wrong: it comes first, and what was done about it follows."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[0] if lines else f"nvidia-smi ended with status {status} and said nothing"
