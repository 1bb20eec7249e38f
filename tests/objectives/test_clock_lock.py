"""Clocks are restored on every way out; the fake nvidia-smi writes down what it was asked, and by which process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import is_running, until

from helitune.acfs.errors import MachineError
from helitune.objectives.gpu import clock_lock, nvidia_smi
from helitune.objectives.gpu.clock_lock import locked_clocks, reset_clocks, sustained_clock
from helitune.objectives.gpu.lock_permission import Permission, lock_permission

FAKE = """#!/bin/sh
echo "$$ $*" >> {folder}/calls
case "$*" in
{answers}
esac
"""
LOCKS = '*-lgc*) echo "GPU clocks set to (gpuClkMin 1500, gpuClkMax 1500) for GPU 0"; echo "All done.";;'
RESETS = '*-rgc*) echo "All done.";;'
REFUSES = """*-lgc*|*-rgc*)
echo "The current user does not have permission to change clocks for GPU 00000000:01:00.0."
echo "Terminating early due to previous errors."
exit 4;;"""
UNSUPPORTED = """*-lgc*)
echo "Setting locked GPU clocks is not supported for GPU 00000000:05:00.0."
echo "Treating as warning and moving on."
echo "All done.";;"""
LOCK, RESET = "-i 0 -lgc 1500,1500", "-i 0 -rgc"

Calls = Callable[[], list[str]]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Calls]:
    """Puts an nvidia-smi with these answers on the PATH; gives what reads its calls, without process ids."""

    def put(*answers: str) -> Calls:
        path = tmp_path / "bin" / "nvidia-smi"
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE.format(folder=tmp_path, answers="\n".join(answers)))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
        return lambda: [line.partition(" ")[2] for line in lines(tmp_path)]

    return put


def lines(folder: Path) -> list[str]:
    calls = folder / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_clocks_are_locked_in_the_block_and_reset_after_it(smi: Callable[..., Calls], tmp_path: Path) -> None:
    calls = smi(LOCKS, RESETS)
    with locked_clocks("0", 1500) as mhz:
        assert mhz == 1500 and calls() == [LOCK]
    assert calls() == [LOCK, RESET]
    assert not is_running(int(lines(tmp_path)[1].split()[0])), "nothing is left waiting"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_clocks_are_reset_after_an_error(smi: Callable[..., Calls], error: type[BaseException]) -> None:
    calls = smi(LOCKS, RESETS)
    with pytest.raises(error), locked_clocks("0", 1500):
        raise error
    assert calls() == [LOCK, RESET]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_clocks_are_reset_when_the_process_is_ended(
    smi: Callable[..., Calls], tmp_path: Path, number: signal.Signals
) -> None:
    calls = smi(LOCKS, RESETS)
    # the child that outlives it, as a GPU process may, must not hold the pipe
    code = (
        "import subprocess, sys, time\n"
        "from helitune.objectives.gpu.clock_lock import locked_clocks\n"
        "with locked_clocks('0', 1500):\n"
        "    child = subprocess.Popen(['sleep', '60'], close_fds=False, start_new_session=True)\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    main = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert main.stdout is not None
    child = int(main.stdout.readline())
    try:
        os.killpg(main.pid, number)  # as a terminal does: to the whole foreground group
        main.wait(20)
        assert until(lambda: calls() == [LOCK, RESET])
        assert is_running(child)
        assert until(lambda: not is_running(int(lines(tmp_path)[1].split()[0])))
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_lock_that_is_under_way_when_the_process_is_killed_is_reset_after_it(
    smi: Callable[..., Calls], tmp_path: Path
) -> None:
    calls = smi(f"*-lgc*) sleep 0.5; echo '0 locked' >> {tmp_path}/calls;;", RESETS)
    code = (
        "from helitune.objectives.gpu.clock_lock import locked_clocks\nwith locked_clocks('0', 1500): pass\n"
    )
    main = subprocess.Popen([sys.executable, "-c", code])
    assert until(lambda: calls() == [LOCK])
    main.kill()
    main.wait(20)
    assert until(lambda: calls() == [LOCK, "locked", RESET])


def test_the_watchdog_outlasts_signals_to_itself(smi: Callable[..., Calls]) -> None:
    calls = smi(LOCKS, RESETS)
    with locked_clocks("0", 1500):
        (watchdog,) = children()
        assert os.getsid(watchdog) == watchdog != os.getsid(0)
        assert until(lambda: b"rgc" in Path(f"/proc/{watchdog}/cmdline").read_bytes())
        assert until(lambda: ignores(watchdog, signal.SIGTERM))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(watchdog, number)
    assert calls() == [LOCK, RESET]


def children() -> list[int]:
    return [int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def ignores(process: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{process}/status").read_text()
    ignored = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored, 16) >> (number - 1) & 1)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (REFUSES, "The current user does not have permission to change clocks for GPU 00000000:01:00.0."),
        (UNSUPPORTED, "Setting locked GPU clocks is not supported for GPU 00000000:05:00.0."),
    ],
)
def test_a_refusal_is_nvidia_smis_own_line_with_what_to_do(
    smi: Callable[..., Calls], answer: str, line: str
) -> None:
    calls = smi(answer)
    with pytest.raises(MachineError) as caught, locked_clocks("0", 1500):
        raise AssertionError("the block must not run")
    assert caught.value.what == line and caught.value.exit_code == 3
    assert "root" in caught.value.next_step and "leave --lock-clocks out" in caught.value.next_step
    assert calls() == [LOCK], "what was not locked is not reset"


def test_clocks_that_stay_locked_are_an_error(smi: Callable[..., Calls]) -> None:
    smi(LOCKS, '*-rgc*) echo "GPU is lost"; exit 15;;')
    with (
        pytest.raises(MachineError, match="GPU 0 are still locked: GPU is lost") as caught,
        locked_clocks("0", 1500),
    ):
        pass
    assert "doctor --reset-clocks" in caught.value.next_step


def test_one_that_hangs_is_given_up_and_still_resets(
    smi: Callable[..., Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(clock_lock, "TIMEOUT_S", 20.0)
    calls = smi("*-lgc*) exec sleep 60;;", RESETS)
    with pytest.raises(MachineError, match="does not answer"), locked_clocks("0", 1500):
        raise AssertionError("the block must not run")
    assert calls() == [LOCK, RESET], "it may have locked before it hung"


def test_without_nvidia_smi_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="nvidia-smi is not on the PATH"), locked_clocks("0", 1500):
        raise AssertionError("the block must not run")


@pytest.mark.parametrize(
    ("most", "default", "chosen"),
    [("1410", "1275", 1275), ("1980", "1980", 1584), ("1980", "[N/A]", 1584)],
)
def test_the_clock_that_is_chosen_can_be_held(
    smi: Callable[..., Calls], most: str, default: str, chosen: int
) -> None:
    queries = [f'*clocks.max.graphics*) echo "{most}";;', f'*default_app*) echo "{default}";;']
    calls = smi(*queries, LOCKS, RESETS)
    with locked_clocks("GPU-1", None) as mhz:
        assert mhz == chosen
    assert calls()[-2:] == [f"-i GPU-1 -lgc {chosen},{chosen}", "-i GPU-1 -rgc"]


def test_a_gpu_that_tells_no_clock_needs_one_to_be_given(smi: Callable[..., Calls]) -> None:
    smi("*) echo '[N/A]';;")
    with pytest.raises(MachineError, match="does not tell") as caught:
        sustained_clock("0")
    assert "--lock-clocks MHZ" in caught.value.next_step


def test_reset_clocks_is_for_one_gpu_or_all(smi: Callable[..., Calls]) -> None:
    calls = smi(RESETS)
    reset_clocks("GPU-1")
    reset_clocks(None)
    assert calls() == ["-i GPU-1 -rgc", "-rgc"]
    smi(REFUSES)
    with pytest.raises(MachineError, match="permission"):
        reset_clocks(None)


@pytest.mark.parametrize(
    ("capabilities", "uid_map", "user", "expected"),
    [
        ("000001ffffffffff", "0 0 4294967295", 0, Permission.GRANTED),
        (
            "00000000a80425fb",
            "0 0 4294967295",
            0,
            Permission.REFUSED,
        ),  # root in a container without the capability
        ("000001ffffffffff", "0 100000 65536", 0, Permission.REFUSED),  # root of a user namespace
        ("0000000000000000", "0 0 4294967295", 1000, Permission.REFUSED),
        ("0000000000200000", "0 0 4294967295", 1000, Permission.UNKNOWN),
        ("what", "0 0 4294967295", 0, Permission.UNKNOWN),
    ],
)
def test_permission_is_told_without_trying(
    tmp_path: Path, capabilities: str, uid_map: str, user: int, expected: Permission
) -> None:
    (tmp_path / "status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    (tmp_path / "uid_map").write_text(f"   {uid_map}\n")
    assert lock_permission(tmp_path, user) is expected


def test_permission_without_proc_is_unknown(tmp_path: Path) -> None:
    assert lock_permission(tmp_path / "none") is Permission.UNKNOWN
