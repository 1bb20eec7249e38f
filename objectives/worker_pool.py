"""Compile workers as the main process sees them: one call at a time each, killed at a timeout, replaced at once."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helitune.acfs.errors import MachineError, UserError

START_TIMEOUT_S = 120.0
GONE_S = 10.0


class WorkerTimeout(Exception):
    """The call took longer than allowed; the worker was killed with its process group."""


class WorkerDied(Exception):
    """The worker ended without an answer: a crash of the compiler, or the memory limit."""


class CallFailed(Exception):
    """The call raised in the worker; `kind` is the exception's name, the message its first line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LoadFailed(CallFailed):
    """A new worker could not load what it is for: no call of it will do better."""


class WorkerBroke(Exception):
    """The call raised, and left the worker unusable: CUDA after an illegal access. As CallFailed else."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Worker:
    """One worker process with the kernel loaded; not for use by two threads at once."""

    def __init__(self, channel: Connection, process_id: int) -> None:
        self._channel = channel
        self._process_id = process_id

    def call(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """What `method` of the kernel host returned.

        Raises CallFailed or a UserError for what the method raised; WorkerTimeout, WorkerDied or WorkerBroke
        (the worker is then unusable).
        """
        try:
            self._channel.send((method, arguments))
            if not self._channel.poll(timeout_s):
                self.kill()
                raise WorkerTimeout(f"{method} took more than {timeout_s:g} s")
            outcome, value = self._channel.recv()
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self.kill()
            raise WorkerDied(f"the worker ended while it ran {method}") from error
        if outcome == "returned":
            return value
        if isinstance(value, UserError):
            raise value
        if outcome == "broke":
            self.kill()
            raise WorkerBroke(*value)
        raise CallFailed(*value)

    def kill(self) -> None:
        """End the process and its children; harmless when it has ended."""
        try:
            os.killpg(self._process_id, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def wait_until_gone(self) -> None:
        """Wait until a killed process has given back what it held: a GPU's memory takes a moment."""
        deadline = time.monotonic() + GONE_S
        while Path(f"/proc/{self._process_id}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)


class WorkerPool:
    """Workers for one kernel and target, at most `size` at a time, started when first needed.

    `setup` is the keyword arguments of kernel_host.KernelHost, or of gpu.host.GpuHost where `target` is
    zygote.GPU; a worker started later is given what is in it then. `target` is else what to compile for, as
    targets.read_target reads it. `log` receives what workers write to stderr.
    """

    def __init__(
        self, setup: dict[str, Any], *, target: str, size: int, log: Path, environment: dict[str, str]
    ):
        self._setup = setup
        self._target = target
        self._log = log
        self._environment = environment
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)
        self._running: set[Worker] = set()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        self._closed = False

    def call(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """`Worker.call` on a free worker, waiting for one; a worker that had to be killed is replaced."""
        with self._borrowed() as worker:
            return worker.call(method, *arguments, timeout_s=timeout_s)

    @contextmanager
    def _borrowed(self) -> Iterator[Worker]:
        worker = self._idle.get()
        try:
            if worker is None:
                worker = self._start()
            yield worker
        except (CallFailed, UserError):
            raise  # it has answered, and can be asked again
        except BaseException:
            # an interrupted call's answer would be taken for the next one's
            if worker is not None:
                worker.kill()
                worker.wait_until_gone()
                self._running.discard(worker)
            worker = None
            raise
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Kill every worker and the zygote, also in the middle of calls; they then raise WorkerDied."""
        self._closed = True
        for worker in list(self._running):
            worker.kill()
        with self._lock:
            if self._control is not None:
                self._control.close()
            if self._zygote is not None:
                self._zygote.kill()
                self._zygote.wait()

    def _start(self) -> Worker:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._fork(theirs)
            channel = Connection(ours.detach())
        process_id = self._greeting(channel)
        worker = Worker(channel, process_id)
        self._running.add(worker)
        try:
            worker.call("load", self._setup, timeout_s=START_TIMEOUT_S)
        except BaseException as error:
            worker.kill()
            self._running.discard(worker)
            if isinstance(error, CallFailed | WorkerBroke):
                raise LoadFailed(error.kind, str(error)) from error
            raise
        return worker

    def _fork(self, channel: socket.socket) -> None:
        """Have the zygote, started if need be, fork a worker that serves the other end of `channel`."""
        with self._lock:
            if self._closed:
                raise WorkerDied("the pool is closed")
            if self._zygote is None or self._zygote.poll() is not None:
                self._start_zygote()
            assert self._control is not None
            try:
                socket.send_fds(self._control, [b"fork"], [channel.fileno()])
            except OSError as error:
                raise WorkerDied("the process that starts workers has ended") from error

    def _greeting(self, channel: Connection) -> int:
        try:
            if channel.poll(START_TIMEOUT_S):
                return int(channel.recv())
        except (EOFError, OSError):
            pass
        if self._closed:
            raise WorkerDied("the pool is closed")
        raise self._did_not_start()

    def _start_zygote(self) -> None:
        ours, theirs = socket.socketpair()
        self._control = ours
        # -P: a random.py or triton.py in the working folder is not to be imported for the real one
        module = [sys.executable, "-P", "-m", "helitune.objectives.zygote"]
        with self._log.open("ab") as log:
            self._zygote = subprocess.Popen(
                [*module, str(theirs.fileno()), self._target],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        theirs.close()
        ours.settimeout(START_TIMEOUT_S)
        try:
            started = ours.recv(5)
        except TimeoutError:
            started = b""
        if started != b"ready":
            self._zygote.kill()
            self._zygote.wait()
            raise self._did_not_start()
        ours.settimeout(None)

    def _did_not_start(self) -> MachineError:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return MachineError(
            f"the compile process did not start: {lines[-1] if lines else 'no output'}",
            where=str(self._log),
            next_step="run `python -c 'import torch, triton, helion'` to see whether these import",
        )
