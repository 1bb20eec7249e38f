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
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.paths import atomic_write

from .finals import Final
from .run_record import finals_of, read_run, run_text
from .trial import Trial

RUNS = Path(".helitune") / "runs"


class RunDirectory:
    """One run's folder. Opening it for writing (`lock`) is exclusive between processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._trials: FileIO | None = None

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
            self._trials = _locked(self.path / "trials.jsonl")
        except BlockingIOError as error:
            raise MachineError(
                "another process is writing this run",
                where=str(self.path),
                next_step="wait for it, or start a new run without --resume",
            ) from error
        except OSError as error:
            raise MachineError(
                f"cannot open the run: {error.strerror or error}",
                where=str(self.path),
                next_step="choose a folder that you can write to",
            ) from error

    def append(self, trial: Trial) -> None:
        """Add one trial; it is on disk when this returns. Raises MachineError when the disk is full.

        After an error trials.jsonl ends where it ended before.
        """
        assert self._trials is not None, "lock the run before writing to it"
        line = json.dumps(trial.to_json(), separators=(",", ":")).encode() + b"\n"
        whole = self._trials.seek(0, os.SEEK_END)
        try:
            _write_all(self._trials, line)
            os.fsync(self._trials.fileno())
        except OSError as error:
            with suppress(OSError):  # what is left of the line then is dropped at the next opening
                self._trials.truncate(whole)
            raise MachineError(
                f"cannot write the trial: {error.strerror or error}",
                where=str(self.path),
                next_step=f"free disk space, then helitune tune --resume {self.id}",
            ) from error

    def trials(self) -> list[Trial]:
        """All finished trials, in the order they finished; InputError with the line for one that is none."""
        return list(self._read_trials())

    def _read_trials(self) -> Iterator[Trial]:
        path = self.path / "trials.jsonl"
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(
                f"cannot read the trials: {error.strerror or error}",
                where=str(path),
                next_step="restore the file, or start a new run",
            ) from error
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _read_trial(line, f"{path}:{number}")

    def write_run(self, fields: dict[str, Any]) -> None:
        """Replace run.json; raises MachineError where it cannot be written."""
        atomic_write(self.path / "run.json", run_text(fields))

    def run(self) -> dict[str, Any]:
        """The content of run.json, checked (results/run_record.py); InputError where there is none to rely on."""
        return read_run(self.path / "run.json")

    def finals(self) -> list[Final]:
        """The finalists' last times, none where the run has not come that far; InputError for a broken record."""
        return finals_of(self.run(), str(self.path / "run.json"))

    def close(self) -> None:
        """Release the run. Every trial is on disk already: what the closing itself reports loses nothing."""
        if self._trials is not None:
            with suppress(OSError):
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
    known = _known_runs(runs)
    if name is not None:
        for path in (Path(name), runs / name):
            found = _run_folder(path)
            if found is not None:
                return RunDirectory(found)
        newest = ", ".join(path.name for path in known[-3:])
        raise InputError(
            f"no run {name if len(name) <= 80 else name[:77] + '...'!r}",
            where=str(runs),
            next_step=f"the newest are {newest}" if known else _MAKE_ONE,
        )
    if not known:
        raise InputError("no run here", where=str(runs), next_step=_MAKE_ONE)
    return RunDirectory(known[-1])


_MAKE_ONE = "make one with: helitune tune KERNEL_FILE"


def working_folder() -> Path:
    """The working folder, absolute; raises InputError where it was deleted meanwhile."""
    try:
        return Path.cwd()
    except OSError as error:
        raise InputError(
            f"the working folder is gone: {error.strerror or error}", next_step="change to another folder"
        ) from error


def _run_folder(path: Path) -> Path | None:
    """`path` with its real name ("." has none) where it holds a run; None for what can be no file's name, too."""
    try:
        return path.resolve() if (path / "run.json").is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _known_runs(runs: Path) -> list[Path]:
    """Folders of runs, oldest first."""
    try:
        return sorted(path.parent for path in runs.glob("*/run.json"))
    except OSError:
        return []


def _read_trial(line: bytes, where: str) -> Trial:
    try:
        return Trial.from_json(json.loads(line))
    except InputError as error:  # of a newer format
        raise InputError(error.what, where=where, next_step=error.next_step) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not a trial: {error}",
            where=where,
            next_step="delete this line by hand; --resume evaluates its candidate again",
        ) from error


def _locked(path: Path) -> FileIO:
    """trials.jsonl, opened for this process alone and without the part of a line that a kill left at its end.

    It has no buffer: what a full disk refused would stay in it, and fail again at closing.
    """
    handle = FileIO(path, "r+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        handle.truncate(handle.readall().rfind(b"\n") + 1)
    except BaseException:
        handle.close()
        raise
    return handle


def _write_all(handle: FileIO, line: bytes) -> None:
    """Write all of `line`: a disk that is almost full takes a part of it first."""
    rest = memoryview(line)
    while rest:
        rest = rest[handle.write(rest) :]
