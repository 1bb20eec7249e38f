"""Compile workers: whatever a kernel file does costs one call, and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from processes import all_end, compile_processes, descendants, until

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.compile_environment import compile_environment
from helitune.objectives.worker_pool import CallFailed, WorkerDied, WorkerPool, WorkerTimeout

pytestmark = pytest.mark.slow

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"
TIMEOUT_S = 60.0


def parent_of(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[1])


def is_sleep(process_id: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process_id}/cmdline").read_text().startswith("sleep")
    return False


class Unruly:
    """A pool for compile_unruly.py, and the file that says what its next worker does when first asked."""

    def __init__(self, start_pool: Callable[..., WorkerPool], folder: Path, size: int = 1) -> None:
        self._told = folder / "told"
        self._told.write_text("")
        self.asleep = folder / "asleep"
        self.pool = start_pool(
            KERNELS / "compile_unruly.py", size=size, environment={"UNRULY": str(self._told)}
        )

    def describe(self, behaviour: str = "", timeout_s: float = TIMEOUT_S) -> Any:
        self._told.write_text(behaviour)
        try:
            return self.pool.call("describe", timeout_s=timeout_s)
        finally:
            self._told.write_text("")

    def works(self) -> bool:
        return bool(self.describe().record.kernel == "double")

    def processes(self) -> list[int]:
        """The zygote and the workers of this pool."""
        marked = f"UNRULY={self._told}\0".encode()
        return [p for p in compile_processes() if marked in Path(f"/proc/{p}/environ").read_bytes()]

    def workers(self) -> list[int]:
        return [process_id for process_id in self.processes() if parent_of(process_id) != os.getpid()]

    def lose_workers(self) -> None:
        """Kill the workers from outside, and make the calls that find that out."""
        for process_id in (lost := self.workers()):
            os.kill(process_id, signal.SIGKILL)
        assert all_end(lost)
        for _ in lost:
            with pytest.raises(WorkerDied):
                self.pool.call("normalise", [], timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def unruly(start_pool: Callable[..., WorkerPool], tmp_path_factory: pytest.TempPathFactory) -> Unruly:
    return Unruly(start_pool, tmp_path_factory.mktemp("unruly"))


@pytest.fixture
def own(start_pool: Callable[..., WorkerPool], tmp_path: Path) -> Unruly:
    """Two workers of the test's own."""
    return Unruly(start_pool, tmp_path, size=2)


BEHAVIOURS: dict[str, tuple[type[Exception], str]] = {
    "segfault": (WorkerDied, "ended while it ran describe"),
    "leave": (WorkerDied, "ended while it ran describe"),
    "exit_politely": (InputError, "ended the process (SystemExit enough)"),
    "raise_unpicklable": (InputError, "Unpicklable: it holds a lock"),
    "raise_unprintable": (CallFailed, "no words for it"),
    "recurse": (InputError, "RecursionError"),
    "exhaust_memory": (InputError, "MemoryError"),
}


class TestMisbehaviour:
    @pytest.mark.parametrize("behaviour", BEHAVIOURS)
    def test_it_costs_one_call(self, behaviour: str, unruly: Unruly) -> None:
        kind, words = BEHAVIOURS[behaviour]
        unruly.lose_workers()
        with pytest.raises(kind) as caught:
            unruly.describe(behaviour)
        assert words in str(caught.value)
        assert unruly.works()

    def test_a_hang_is_killed_with_its_children(self, unruly: Unruly) -> None:
        unruly.lose_workers()
        with pytest.raises(WorkerTimeout, match="describe took more than 2 s"):
            unruly.describe("sleep_with_a_child", timeout_s=2)
        assert until(lambda: not unruly.workers())
        assert until(lambda: not [p for p in descendants(os.getpid()) if is_sleep(p)])
        assert unruly.works()

    def test_what_the_kernel_file_prints_goes_to_the_log(
        self, unruly: Unruly, capfd: pytest.CaptureFixture[str]
    ) -> None:
        unruly.lose_workers()
        assert unruly.describe("chatter").record.kernel == "double"
        assert capfd.readouterr() == ("", "")
        log = unruly.pool._log.read_text()
        for words in ("printed on stdout", "written to descriptor 1", "echoed by a child"):
            assert words in log

    def test_an_unknown_method_or_wrong_arguments_are_a_failed_call(self, unruly: Unruly) -> None:
        with pytest.raises(CallFailed, match="no_such_method"):
            unruly.pool.call("no_such_method", timeout_s=TIMEOUT_S)
        with pytest.raises(CallFailed) as caught:
            unruly.pool.call("build", timeout_s=TIMEOUT_S)
        assert caught.value.kind == "TypeError"
        assert unruly.works()

    def test_an_interrupted_call_s_answer_is_not_taken_for_the_next_one_s(self, unruly: Unruly) -> None:
        main = threading.main_thread().ident
        assert main is not None and threading.current_thread() is threading.main_thread()
        unruly.lose_workers()

        def interrupt_its_sleep() -> None:
            assert until(unruly.asleep.exists, TIMEOUT_S)
            signal.pthread_kill(main, signal.SIGINT)

        interrupt = threading.Thread(target=interrupt_its_sleep)
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            unruly.describe("sleep_a_little")
        interrupt.join()
        assert unruly.pool.call("normalise", [], timeout_s=TIMEOUT_S) == []


class TestLife:
    def test_at_most_size_workers_run_and_all_calls_are_answered(self, own: Unruly) -> None:
        with ThreadPoolExecutor(5) as threads:
            asked = [threads.submit(own.describe) for _ in range(8)]
            assert [future.result().record.kernel for future in asked] == ["double"] * 8
        assert len(own.workers()) == 2

    def test_workers_outlive_the_thread_that_started_them(self, own: Unruly) -> None:
        thread = threading.Thread(target=own.describe)
        thread.start()
        thread.join()
        started = own.processes()
        assert not until(lambda: own.processes() != started, within_s=0.5)
        assert own.works()
        assert own.processes() == started
        assert len(started) == 2

    def test_a_lost_zygote_is_replaced(self, own: Unruly) -> None:
        assert own.works()
        lost = own.processes()
        (zygote,) = (process_id for process_id in lost if parent_of(process_id) == os.getpid())
        os.kill(zygote, signal.SIGKILL)
        assert all_end(lost)
        with pytest.raises(WorkerDied):
            own.describe()
        assert own.works()

    def test_close_ends_everything_in_the_middle_of_calls(self, own: Unruly) -> None:
        before = set(descendants(os.getpid()))
        own._told.write_text("sleep_with_a_child")
        with ThreadPoolExecutor(3) as threads:
            calls = [threads.submit(own.pool.call, "describe", timeout_s=TIMEOUT_S) for _ in range(3)]
            assert until(lambda: len([p for p in descendants(os.getpid()) if is_sleep(p)]) == 2, 30)
            started = set(descendants(os.getpid())) - before
            own.pool.close()
            kinds = {type(call.exception()) for call in calls}
        assert kinds == {WorkerDied}
        assert all_end(started)
        with pytest.raises(WorkerDied):
            own.pool.call("describe", timeout_s=TIMEOUT_S)
        assert set(descendants(os.getpid())) <= before

    def test_closing_twice_or_before_any_call_is_harmless(
        self, start_pool: Callable[..., WorkerPool]
    ) -> None:
        pool = start_pool(KERNELS / "plain.py")
        pool.close()
        pool.close()
        with pytest.raises(WorkerDied, match="closed"):
            pool.call("describe", timeout_s=TIMEOUT_S)


PARENT = """
import json, sys, threading
from pathlib import Path
from helitune.objectives.worker_pool import WorkerPool
setup, environment, log, told = json.loads(sys.argv[1])
pool = WorkerPool(setup, target="sm_90", size=2, log=Path(log), environment=environment)
pool.call("describe", timeout_s=60)
Path(told).write_text("sleep")
threading.Thread(target=pool.call, args=("normalise", []), kwargs={"timeout_s": 60}).start()
busy = [threading.Thread(target=pool.call, args=("describe",), kwargs={"timeout_s": 60}) for _ in range(2)]
for thread in busy:
    thread.start()
print("ready", flush=True)
busy[0].join()
"""


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path, ptxas: Ptxas, cache_folder: Path) -> None:
    told = tmp_path / "told"
    told.write_text("")
    setup = {
        "file": str(KERNELS / "compile_unruly.py"),
        "kernel": None,
        "reference": None,
        "args": [],
        "cache_root": str(cache_folder / "compiled"),
        "memory_bytes": 8 << 30,
    }
    environment = compile_environment(ptxas, os.environ) | {"UNRULY": str(told)}
    arguments = json.dumps([setup, environment, str(tmp_path / "log"), str(told)])
    with subprocess.Popen([sys.executable, "-c", PARENT, arguments], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"ready\n"
        # the zygote, an idle worker or two, one of them asleep in the kernel file
        assert until(lambda: len(compile_processes(parent.pid)) == 3, 30)
        started = compile_processes(parent.pid)
        parent.kill()
    assert all_end(started, within_s=5)


class TestStart:
    def test_modules_of_the_working_folder_hide_none_of_ours(
        self, start_pool: Callable[..., WorkerPool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("random", "triton", "helion", "socket"):
            (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
        monkeypatch.chdir(tmp_path)
        pool = start_pool(KERNELS / "plain.py", "f32[1024]")
        assert pool.call("describe", timeout_s=TIMEOUT_S).record.shapes

    def test_a_zygote_that_does_not_start_is_the_machine_s_fault(
        self, start_pool: Callable[..., WorkerPool], tmp_path: Path
    ) -> None:
        (tmp_path / "helion.py").write_text("raise ImportError('this one is broken')\n")
        pool = start_pool(KERNELS / "plain.py", environment={"PYTHONPATH": str(tmp_path)})
        for _ in range(2):
            with pytest.raises(MachineError, match=r"did not start.*this one is broken") as caught:
                pool.call("describe", timeout_s=TIMEOUT_S)
        assert "import" in caught.value.next_step

    def test_a_wrong_kernel_file_is_the_input_s_fault_each_time(
        self, start_pool: Callable[..., WorkerPool]
    ) -> None:
        pool = start_pool(KERNELS / "raises_at_import.py")
        for _ in range(2):
            with pytest.raises(InputError, match=r"raises_at_import\.py:\d+"):
                pool.call("describe", timeout_s=TIMEOUT_S)
