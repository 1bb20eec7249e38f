"""A run on disk: `.helitune/runs/<id>/` with run.json, trials.jsonl and acfs/.

trials.jsonl is only ever appended to, one fsynced line a trial, so that no finished trial is lost however the
process ends; a last line that a kill left half written is dropped when the run is opened again.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.paths import atomic_write

from .trial import Trial

RUN_FORMAT = 1
"""1: first version."""

RUNS = Path(".helitune") / "runs"


class RunDirectory:
    """One run's folder. Opening it for writing (`lock`) is exclusive between processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._trials: IO[bytes] | None = None

    @property
    def id(self) -> str:
        """The run's name: the folder's."""
        return self.path.name

    @property
    def acfs(self) -> Path:
        """Where the run keeps the ACFs its trials used, by sha256."""
        return self.path / "acfs"

    @property
    def log(self) -> Path:
        """What compile processes wrote to stderr."""
        return self.path / "workers.log"

    def lock(self) -> None:
        """Take the run for this process; raises MachineError where another one has it."""
        try:
            handle = (self.path / "trials.jsonl").open("r+b")
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MachineError(
                "another process is writing this run",
                where=str(self.path),
                next_step="wait for it, or start a new run without --resume",
            ) from error
        except OSError as error:
            raise MachineError(
                f"cannot open the run: {error.strerror}",
                where=str(self.path),
                next_step="choose a folder that you can write to",
            ) from error
        _drop_torn_line(handle)
        self._trials = handle

    def append(self, trial: Trial) -> None:
        """Add one trial; it is on disk when this returns. Raises MachineError when the disk is full."""
        assert self._trials is not None, "lock the run before writing to it"
        line = json.dumps(trial.to_json(), separators=(",", ":")).encode() + b"\n"
        try:
            self._trials.write(line)
            self._trials.flush()
            os.fsync(self._trials.fileno())
        except OSError as error:
            raise MachineError(
                f"cannot write the trial: {error.strerror}",
                where=str(self.path),
                next_step=f"free disk space, then helitune tune --resume {self.id}",
            ) from error

    def trials(self) -> list[Trial]:
        """All finished trials, in the order they finished."""
        return list(self._read_trials())

    def _read_trials(self) -> Iterator[Trial]:
        path = self.path / "trials.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        for number, line in enumerate(lines[:-1] if lines else [], start=1):
            try:
                yield Trial.from_json(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"not a trial of this version: {error}",
                    where=f"{path}:{number}",
                    next_step="restore the file, or start a new run",
                ) from error

    def write_run(self, fields: dict[str, Any]) -> None:
        """Replace run.json."""
        content = json.dumps({"format": RUN_FORMAT, **fields}, indent=1).encode() + b"\n"
        atomic_write(self.path / "run.json", content)

    def run(self) -> dict[str, Any]:
        """The content of run.json; InputError for a missing, broken or newer one."""
        path = self.path / "run.json"
        try:
            fields: dict[str, Any] = json.loads(path.read_bytes())
            version = int(fields["format"])
        except FileNotFoundError as error:
            raise InputError(
                "no run here", where=str(self.path), next_step="name a run folder or id"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"run.json cannot be read: {error}", where=str(path), next_step="start a new run"
            ) from error
        if version > RUN_FORMAT:
            raise InputError(
                f"the run has format {version}, this helitune reads up to {RUN_FORMAT}",
                where=str(path),
                next_step="upgrade helitune",
            )
        return fields

    def close(self) -> None:
        """Release the run."""
        if self._trials is not None:
            self._trials.close()
            self._trials = None


def create_run(root: Path) -> RunDirectory:
    """A new, locked run under `root`; its id starts with the time, so that names sort by age."""
    run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)
    path = root / RUNS / run_id
    try:
        (path / "acfs").mkdir(parents=True)
        (path / "trials.jsonl").touch()
    except OSError as error:
        raise MachineError(
            f"cannot create the run: {error.strerror}",
            where=str(path),
            next_step="run helitune in a folder you can write to",
        ) from error
    run = RunDirectory(path)
    run.lock()
    return run


def find_run(root: Path, name: str | None) -> RunDirectory:
    """The run `name` (an id or a folder), or the newest one; raises InputError where there is none."""
    runs = root / RUNS
    if name is not None:
        for path in (Path(name), runs / name):
            if (path / "run.json").is_file():
                return RunDirectory(path)
        raise InputError(f"no run {name!r}", where=str(runs), next_step=_known_runs(runs))
    known = sorted(path.parent for path in runs.glob("*/run.json"))
    if not known:
        raise InputError(
            "no run here", where=str(runs.absolute()), next_step="make one with: helitune tune KERNEL_FILE"
        )
    return RunDirectory(known[-1])


def _known_runs(runs: Path) -> str:
    known = sorted(path.parent.name for path in runs.glob("*/run.json"))
    return f"the newest are {', '.join(known[-3:])}" if known else "make one with: helitune tune KERNEL_FILE"


def _drop_torn_line(handle: IO[bytes]) -> None:
    content = handle.read()
    whole = content.rfind(b"\n") + 1
    handle.truncate(whole)
    handle.seek(whole)
