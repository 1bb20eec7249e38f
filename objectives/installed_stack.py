"""What is installed, as it shows when it is imported: asked of a child process, which may crash or hang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MODULE = "helitune.objectives.installed_stack_child"
TIMEOUT_S = 120.0
"""Importing torch and Helion takes 8 s from a warm disk, and a minute from a cold one."""


@dataclass(frozen=True, slots=True)
class InstalledStack:
    """What the child found, by what it is about; `ended` says how it ended where it did not come to its end.

    A package's fields are `version` ("" where it is not installed) and `error` ("" where it could be imported).
    `triton_ptxas`, `search_space`, `cuda` and `sensors` have an `error`, and the fields that
    installed_stack_child.py gives them where that is empty.
    """

    found: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ended: str = ""

    def about(self, name: str) -> Mapping[str, Any]:
        """The fields of one thing; where the child did not come to it, an `error` that says why."""
        return self.found.get(name, {"version": "", "error": f"not found out: {self.ended or 'not asked'}"})


def look_at_stack(
    arch: str, toolkit: str, uuid: str, *, timeout_s: float = TIMEOUT_S, python: str = sys.executable
) -> InstalledStack:
    """The installed stack; `arch` ("sm_90") decides Triton's ptxas, `toolkit` ("13.3") the search space.

    `uuid` is the GPU's, "" without one. Never raises for what is wrong with a package.
    """
    command = [python, "-P", "-m", MODULE, arch, toolkit, uuid]
    with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+") as log:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, start_new_session=True
            )
        except OSError as error:
            return InstalledStack(ended=f"{python} cannot be run: {error.strerror or error}")
        ended = _wait(child, timeout_s)
        output.seek(0)
        found = {str(one.pop("about")): one for line in output if (one := _record(line))}
    if "end" in found:
        return InstalledStack(found)
    suspect = found.pop("looking", {"at": "Python"})["at"]
    return InstalledStack(found, f"the look at {suspect} {ended}")


def _wait(child: subprocess.Popen[bytes], timeout_s: float) -> str:
    """How the child ended, as the rest of a sentence; it and what it started are gone then."""
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return f"took more than {timeout_s:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode < 0:
        return f"crashed ({signal.Signals(-child.returncode).name})"
    return f"ended the process with status {child.returncode}"


def _record(line: str) -> dict[str, Any] | None:
    """One line of the child's, or None for one that a crash left half written."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "about" in found else None
