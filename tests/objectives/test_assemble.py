"""ptxas in a child that can be killed: its answer, its refusals in its own words, and nothing left behind."""

from __future__ import annotations

import resource
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import all_end, until
from ptx_fixtures import SOFTMAX

from helitune.acfs.ptxas import Ptxas
from helitune.objectives.assemble import Assembled, AssembleFailed, AssembleTimeout, assemble, kill_running
from helitune.objectives.elf import code_hash

ROOT = Path(__file__).parents[2]
ACFS = sorted((ROOT / "acfs" / "data" / "h200-seed").glob("*.acf"))
FLAGS = ("-lineinfo", "-v", "--gpu-name=sm_90a")
MEMORY_BYTES = 8 << 30


def run(program: Path, *flags: str, acf: Path | None = None, timeout_s: float = 30.0) -> Assembled:
    return assemble(program, SOFTMAX.ptx, flags, acf, timeout_s=timeout_s, memory_bytes=MEMORY_BYTES)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """A shell script in the place of ptxas; `$output` is where the cubin belongs, `$here` is tmp_path."""

    def write(body: str) -> Path:
        path = tmp_path / "ptxas"
        path.write_text(f'#!/bin/sh\nhere={tmp_path}\nfor last; do output="$last"; done\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_left_in_the_temporary_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def process_ids(folder: Path, count: int) -> list[int]:
    """The process ids that a script wrote, once there are `count`."""
    path = folder / "pids"
    assert until(lambda: path.exists() and len(path.read_text().split()) == count)
    return [int(process_id) for process_id in path.read_text().split()]


class TestTheRealPtxas:
    def test_an_acf_changes_the_code_and_none_is_reproducible(self, ptxas: Ptxas) -> None:
        without, again = (run(ptxas.path, *FLAGS) for _ in range(2))
        assert code_hash(without.cubin) == code_hash(again.cubin)
        hashes = {code_hash(run(ptxas.path, *FLAGS, acf=acf).cubin) for acf in ACFS[:4]}
        assert hashes - {code_hash(without.cubin)}

    def test_the_log_and_the_time_are_kept(self, ptxas: Ptxas) -> None:
        made = run(ptxas.path, *FLAGS)
        assert "registers" in made.log
        assert 0 < made.seconds < 30

    def test_random_bytes_as_an_acf_fail_in_ptxas_own_words(self, ptxas: Ptxas, tmp_path: Path) -> None:
        acf = tmp_path / "random.acf"
        acf.write_bytes(bytes(range(256)) * 9)
        with pytest.raises(AssembleFailed, match=r"ptxas exit \d+: .*controls"):
            run(ptxas.path, *FLAGS, acf=acf)

    def test_a_missing_acf_fails(self, ptxas: Ptxas, tmp_path: Path) -> None:
        with pytest.raises(AssembleFailed, match=r"ptxas exit \d+: .*absent\.acf"):
            run(ptxas.path, *FLAGS, acf=tmp_path / "absent.acf")

    def test_ptx_that_is_none_fails_with_the_line(self, ptxas: Ptxas) -> None:
        with pytest.raises(AssembleFailed, match=r"kernel\.ptx.*line 1"):
            assemble(ptxas.path, "not PTX", FLAGS, None, timeout_s=30, memory_bytes=MEMORY_BYTES)

    def test_too_little_memory_fails(self, ptxas: Ptxas) -> None:
        with pytest.raises(AssembleFailed):
            assemble(ptxas.path, SOFTMAX.ptx, FLAGS, None, timeout_s=30, memory_bytes=24 << 20)

    def test_a_timeout_is_no_failure_of_the_compiler(self, ptxas: Ptxas) -> None:
        with pytest.raises(AssembleTimeout, match=r"more than 0\.001 s"):
            run(ptxas.path, *FLAGS, timeout_s=0.001)


class TestTheCommand:
    def test_it_is_triton_s_flags_then_the_controls(
        self, script: Callable[[str], Path], tmp_path: Path
    ) -> None:
        acf = tmp_path / "a b.acf"
        made = run(script('for word; do echo "$word"; done; echo cubin > "$output"'), "-v", "--x=1", acf=acf)
        words = made.log.splitlines()
        assert words[:4] == ["-v", "--x=1", "--apply-controls", str(acf)]
        assert (words[4].endswith("kernel.ptx"), words[5], words[6].endswith("kernel.cubin")) == (
            True,
            "-o",
            True,
        )
        assert len(words) == 7
        assert made.cubin == b"cubin\n"

    def test_no_acf_means_no_controls(self, script: Callable[[str], Path]) -> None:
        assert "--apply-controls" not in run(script('echo "$@"; echo > "$output"')).log


class TestRefusals:
    def test_the_line_that_says_why_is_the_message(self, script: Callable[[str], Path]) -> None:
        body = (
            'echo "info   : 0 bytes gmem"; echo "kernel.ptx fatal   : no such thing"; echo late >&2; exit 255'
        )
        with pytest.raises(AssembleFailed, match=r"^ptxas exit 255: kernel\.ptx fatal   : no such thing$"):
            run(script(body))

    def test_a_signal_is_named(self, script: Callable[[str], Path]) -> None:
        with pytest.raises(AssembleFailed, match="ended by SIGSEGV"):
            run(script("kill -SEGV $$"))

    def test_silence_is_no_success(self, script: Callable[[str], Path]) -> None:
        with pytest.raises(AssembleFailed, match="ptxas exit 0: no output"):
            run(script("exit 0"))

    def test_output_that_is_no_text_does_not_matter(self, script: Callable[[str], Path]) -> None:
        made = run(script("printf '\\377\\376'; echo > \"$output\""))
        assert made.log == "\ufffd\ufffd"


SLEEPERS = {
    "waits for its child": 'sleep 60 & echo $$ $! > "$here/pids"; wait',
    "is the sleeper itself": 'echo $$ > "$here/pids"; exec sleep 60',
    "ignores SIGTERM": "trap '' TERM; echo $$ > \"$here/pids\"; while true; do sleep 0.05; done",
    "ends, but its child keeps the pipe": 'sleep 60 & echo $$ $! > "$here/pids"; exit 0',
}


class TestTimeouts:
    @pytest.mark.parametrize("body", SLEEPERS.values(), ids=SLEEPERS)
    def test_the_whole_process_group_is_killed(
        self, body: str, script: Callable[[str], Path], tmp_path: Path
    ) -> None:
        started = time.monotonic()
        with pytest.raises(AssembleTimeout, match=r"more than 0\.3 s"):
            run(script(body), timeout_s=0.3)
        assert time.monotonic() - started < 5
        written = (tmp_path / "pids").read_text().split()
        assert written
        assert all_end(map(int, written))

    def test_kill_running_ends_what_others_wait_for(
        self, script: Callable[[str], Path], tmp_path: Path
    ) -> None:
        program = script('sleep 60 & echo $$ $! > "$here/pids"; wait')
        caught: list[Exception] = []

        def wait() -> None:
            try:
                run(program)
            except AssembleFailed as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        running = process_ids(tmp_path, 2)
        kill_running()
        thread.join(timeout=10)
        assert [str(error) for error in caught] == ["ptxas was ended by SIGKILL"]
        assert all_end(running)

    def test_an_interrupt_leaves_nothing_running(self, script: Callable[[str], Path], tmp_path: Path) -> None:
        program = script('sleep 60 & echo $$ $! > "$here/pids"; wait')
        main = threading.main_thread().ident
        assert main is not None and threading.current_thread() is threading.main_thread()
        running: list[int] = []

        def interrupt() -> None:
            running.extend(process_ids(tmp_path, 2))
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run(program)
        thread.join()
        assert running
        assert all_end(running)


def test_the_memory_limit_holds_for_the_child_and_not_for_us(script: Callable[[str], Path]) -> None:
    made = assemble(
        script('sleep 0.3; ulimit -v; echo > "$output"'),
        "",
        (),
        None,
        timeout_s=30,
        memory_bytes=3 << 30,
    )
    assert int(made.log) == (3 << 30) >> 10
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 3 << 30
