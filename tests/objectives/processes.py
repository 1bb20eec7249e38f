"""Which processes there are, read from /proc: for tests that nothing is left running."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ZYGOTE = "helitune.objectives.zygote"


def is_running(process_id: int) -> bool:
    """Whether the process exists and has not ended (a zombie has)."""
    try:
        return _status(process_id)[0] != "Z"
    except OSError:
        return False


def all_end(process_ids: Iterable[int], within_s: float = 5.0) -> bool:
    """Whether all of the processes have ended after at most `within_s`."""
    waiting = list(process_ids)
    return until(lambda: not any(map(is_running, waiting)), within_s)


def until(condition: Callable[[], object], within_s: float = 10.0) -> bool:
    """Whether the condition came true within that time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def compile_processes(ancestor: int | None = None) -> list[int]:
    """The zygotes and compile workers below `ancestor` (this process, if None)."""
    found = descendants(os.getpid() if ancestor is None else ancestor)
    return [process_id for process_id in found if ZYGOTE in _command(process_id)]


def descendants(ancestor: int) -> list[int]:
    """All running processes below `ancestor`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status, parent = _status(int(entry.name))
            except OSError:
                continue
            if status != "Z":
                parents[int(entry.name)] = parent
    found = {ancestor}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return sorted(found - {ancestor})


def _status(process_id: int) -> tuple[str, int]:
    """(state letter, parent's process id)."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1])


def _command(process_id: int) -> str:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text()
    except OSError:
        return ""
