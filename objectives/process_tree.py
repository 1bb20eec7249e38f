"""End a process with all that stands below it, read from Linux's /proc.

A process group is not enough for Helion's autotuner: its compile and benchmark processes each start a session of
their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def descendants(ancestor: int) -> set[int]:
    """Ids of all processes below `ancestor`, itself not among them."""
    parents = dict(filter(None, (_child_and_parent(entry.name) for entry in Path("/proc").iterdir())))
    found = {ancestor}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return found - {ancestor}


def kill_tree(leader: int) -> None:
    """None; `leader`, its process group and everything below it are killed. Harmless when all have ended.

    Call it before `leader` is waited for: its id may be another process's afterwards.
    """
    _send(leader, signal.SIGSTOP)
    kill_descendants(leader)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    _send(leader, signal.SIGKILL)


def kill_descendants(ancestor: int) -> None:
    """None; everything below `ancestor` is killed."""
    doomed: set[int] = set()
    # all are stopped before any is killed: what runs may fork, and children of the dead cannot be found
    while found := descendants(ancestor) - doomed:
        for process_id in found:
            _send(process_id, signal.SIGSTOP)
        doomed |= found
    for process_id in doomed:
        _send(process_id, signal.SIGKILL)


def _send(process_id: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process_id, what)


def _child_and_parent(name: str) -> tuple[int, int] | None:
    if not name.isdigit():
        return None
    try:
        # the name of the command, in brackets, may itself hold spaces and brackets
        after_name = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2]
    except OSError:
        return None
    return int(name), int(after_name.split()[1])
