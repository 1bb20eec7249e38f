"""The GPU process as the main process sees it: one candidate at a time, killed and replaced when it must be."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helitune.acfs.errors import MachineError

from .build import Build
from .times import OwnTimes, Race, Tried
from .worker_pool import CallFailed, LoadFailed, WorkerBroke, WorkerDied, WorkerPool, WorkerTimeout
from .zygote import GPU

OWN_TIMEOUT_S = 300.0
"""For making inputs, running the reference in float64, and timing the own config."""

CANDIDATE_TIMEOUT_S = 20.0
OWN_TIMES_ALLOWED = 20_000
"""A candidate is given up as hanging after this many times the own config's time, and CANDIDATE_TIMEOUT_S."""

_ACCESS: tuple[str, ...] = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "address space",
)
_ACCESS += (
    "unspecified launch failure",
    "device-side assert",
    "hardware stack error",
    "invalid program counter",
)


class GpuProcess:
    """Runs builds on the GPU for one workload; safe to use from several threads, which wait their turn.

    `setup` holds the keyword arguments of gpu.host.GpuHost. A context manager that ends the process.
    """

    def __init__(self, setup: dict[str, Any], *, log: Path, environment: Mapping[str, str]) -> None:
        self._setup = setup
        self._log = log
        self._pool = WorkerPool(setup, target=GPU, size=1, log=log, environment=dict(environment))
        self._turn = threading.Lock()
        self._timeout_s = CANDIDATE_TIMEOUT_S
        self._busy_s = 0.0
        self._replaced = 0
        self._spent_s: Counter[str] = Counter()

    def use_own(self, own: Build) -> OwnTimes | Tried:
        """The own config's times, or a Tried with the stage at which it failed on this GPU."""
        self._setup.update(own=None, launches=())
        times: OwnTimes | Tried = self._call("use_own", own, timeout_s=OWN_TIMEOUT_S)
        if isinstance(times, Tried) or times.wrong:
            return times
        self._setup.update(own=own, launches=times.launches)
        self._busy_s, self._replaced = 0.0, 0
        self._spent_s.clear()
        self._timeout_s = CANDIDATE_TIMEOUT_S + OWN_TIMES_ALLOWED * max(times.ms) / 1e3
        return times

    def try_build(self, build: Build, race: Race) -> Tried:
        """What the GPU says of a candidate; a crash or a hang is a stage, and the process is replaced."""
        tried: Tried = self._call("try_build", build, race, timeout_s=self._timeout_s)
        self._spent_s.update(tried.spent_s)
        return tried

    def use_since_own(self) -> dict[str, Any]:
        """How many seconds the process was busy since `use_own`, with what, and how often it was replaced."""
        spent = {what: round(seconds, 3) for what, seconds in self._spent_s.items()}
        return {"busy_s": round(self._busy_s, 3), "replaced": self._replaced, "spent_s": spent}

    def soak(self, builds: Sequence[Build], repeats: int) -> list[Tried]:
        """For each build a Tried without a stage where `repeats` runs agree on fresh inputs, else what failed."""
        answer = self._call("soak", list(builds), repeats, timeout_s=OWN_TIMEOUT_S * (1 + len(builds)))
        if not isinstance(answer, Tried):
            return [Tried(stage="flaky_output", message=wrong) if wrong else Tried() for wrong in answer]
        if len(builds) == 1:
            return [answer]
        return [self.soak([build], repeats)[0] for build in builds]  # one of them ends the process: find it

    def start(self) -> None:
        """Have the process load what it needs; harmless where it runs already."""
        self.ask("ready")

    def ask(self, method: str, *arguments: Any, timeout_s: float = OWN_TIMEOUT_S) -> Any:
        """What another method of the host returns; MachineError where it fails."""
        answer = self._call(method, *arguments, timeout_s=timeout_s)
        if isinstance(answer, Tried) and answer.stage:
            raise MachineError(
                f"the GPU process failed: {answer.stage}: {answer.message}",
                where=str(self._log),
                next_step="see the log; run helitune doctor",
            )
        return answer

    def close(self) -> None:
        """End the process, also in the middle of a call."""
        self._pool.close()

    def _call(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        with self._turn:
            started = time.monotonic()
            logged_bytes = self._logged_bytes()
            try:
                return self._pool.call(method, *arguments, timeout_s=timeout_s)
            except WorkerTimeout:
                self._replaced += 1
                return Tried(stage="hang", message=f"no answer within {timeout_s:.3g} s")
            except WorkerBroke as error:
                self._replaced += 1
                return Tried(stage=stage_of(error.kind, str(error)), message=str(error))
            except WorkerDied:
                self._replaced += 1
                return Tried(stage="worker_died", message=self._last_words(logged_bytes))
            except LoadFailed as error:
                raise MachineError(
                    f"the GPU process cannot start again: {error.kind}: {error}",
                    where=str(self._log),
                    next_step="see whether another process holds the GPU: nvidia-smi; then resume the run",
                ) from error
            except CallFailed as error:
                return Tried(stage=stage_of(error.kind, str(error)), message=f"{error.kind}: {error}")
            finally:
                self._busy_s += time.monotonic() - started

    def _logged_bytes(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0

    def _last_words(self, logged_bytes: int) -> str:
        """What the process wrote to its log beyond `logged_bytes`: the reason of an abort, if there is one."""
        try:
            lines = self._log.read_bytes()[logged_bytes:].decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        fatal = [line.strip() for line in lines[-30:] if "atal" in line or "rror" in line or "what()" in line]
        return f"the GPU process ended without an answer{f': {fatal[-1][:200]}' if fatal else ''}"


def stage_of(kind: str, message: str) -> str:
    """The failure stage of an exception that a candidate raised on the GPU."""
    if kind == "Drift":
        return "drift"
    if "OutOfMemory" in kind or "out of memory" in message:
        return "out_of_memory"
    if any(sign in message for sign in _ACCESS):
        return "illegal_access"
    return "launch"
