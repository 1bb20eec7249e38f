"""Helion's own autotuner as a peer: the real one with made-up times on no GPU, and the real one on a GPU."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import all_end, descendants, until

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.pack import read_packs, shipped_pack
from helitune.acfs.ptxas import Ptxas
from helitune.acfs.store import AcfStore
from helitune.objectives.compile_environment import gpu_environment
from helitune.objectives.device import find_device
from helitune.objectives.helion_peer import EFFORTS, PeerRequest, PeerResult, autotune, child_environment
from helitune.objectives.peer_record import PeerFailures
from helitune.objectives.process_tree import kill_tree

ROOT = Path(__file__).parents[2]
SOFTMAX = str(ROOT / "examples" / "softmax.py")
STAND_IN = ROOT / "tests" / "fixtures" / "peer_child.py"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python that runs the stand-in of the child instead."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P {STAND_IN} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    # settings of Helion's that the user may have: they must not reach the peer
    spoilt = {"HELION_AUTOTUNE_EFFORT": "none", "HELION_CACHE_DIR": "/nowhere"}
    return os.environ | spoilt | {"PEER_TEST_SEEN": str(tmp_path / "seen")}


@pytest.fixture
def acfs(tmp_path: Path) -> tuple[Acf, ...]:
    """Three files that no ptxas reads: one that is wrong, a good one, and another."""
    store = AcfStore(tmp_path / "store")
    kept = [store.add_content(name.encode(), name=name) for name in ("wrong", "good", "other")]
    named = []
    for acf in kept:
        assert acf.path is not None
        path = acf.path.rename(acf.path.with_name(f"{acf.name}.acf"))
        named.append(Acf(acf.name, acf.sha256, path))
    return tuple(named)


def seen(environment: dict[str, str]) -> list[Any]:
    lines = Path(environment["PEER_TEST_SEEN"]).read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_helions_search_runs_as_asked_and_its_winner_comes_back(
    python: str, environment: dict[str, str], acfs: tuple[Acf, ...], tmp_path: Path
) -> None:
    request = PeerRequest(SOFTMAX, args=("f16[1024,640]",), seed=2**32 + 3, acfs=acfs, budget_s=6.0)
    result = autotune(request, environment, tmp_path / "log", 200, python=python)

    told, *configs = seen(environment)
    assert told["settings"] == {
        "autotune_effort": "quick",
        "autotune_search_acf": ["", *(str(acf.path) for acf in acfs)],
        "autotune_random_seed": 3,
        "autotune_budget_seconds": 6,
        # Helion's own defaults
        "autotune_precompile": "fork",
        "autotune_accuracy_check": True,
        "autotune_benchmark_subprocess": True,
    }
    assert told["arguments"] == ["(1024, 640)"]
    # the example's own config has blocks of 4: the search is not held to it
    assert {tuple(config["block_sizes"]) for config in configs} > {(4,)}
    assert not configs[0].get("advanced_controls_file")

    assert result.acf_sha256 == hashlib.sha256(b"good").hexdigest()
    assert result.config["num_warps"] == 1 and "advanced_controls_file" not in result.config
    assert (result.effort, result.seed, result.configs_tried) == ("quick", 2**32 + 3, len(configs))
    assert result.failures.accuracy == sum("wrong" in c.get("advanced_controls_file", "") for c in configs)
    assert result.best_ms == 0.51
    times, best = zip(*result.trace, strict=True)
    assert list(times) == sorted(times) and times[0] > 0 and times[-1] < result.seconds
    assert list(best) == sorted(best, reverse=True) and best[-1] == result.best_ms
    assert any("Autotuning complete" in line for line in result.log_tail)
    assert PeerResult.from_json(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.slow
def test_caches_are_fresh_and_the_users_settings_stay_out(
    python: str, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["PEER_TEST_HOW"] = "baseline fails"
    with pytest.raises(InputError) as error:
        autotune(PeerRequest(SOFTMAX), environment, tmp_path / "log", 200, python=python)
    assert error.value.what == (
        "Helion's autotuner failed: InvalidConfig: the reference config failed (ValueError: no tiles)"
    )
    assert "Traceback" in (tmp_path / "log").read_text()
    assert seen(environment)[0]["settings"].items() >= {
        ("autotune_budget_seconds", None),
        ("autotune_random_seed", 0),
    }
    assert seen(environment)[0]["settings"]["autotune_search_acf"] == []
    told = seen(environment)[0]["environment"]
    assert "HELION_AUTOTUNE_EFFORT" not in told
    folders = {told[f"{name}_CACHE_DIR"] for name in ("HELION", "TRITON", "TORCHINDUCTOR")}
    assert all("helitune-peer-" in folder for folder in folders)
    assert not any(Path(folder).exists() for folder in folders)  # gone with the search


@pytest.mark.slow
def test_an_effort_that_helion_lacks_is_refused_with_those_it_has(
    python: str, environment: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no effort 'none' that searches") as error:
        autotune(PeerRequest(SOFTMAX, effort="none"), environment, tmp_path / "log", 200, python=python)
    assert error.value.next_step == f"choose from {', '.join(EFFORTS)}"


@pytest.mark.slow
def test_what_is_not_the_kernels_fault_is_the_machines(
    python: str, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["PEER_TEST_HOW"] = "out of memory"
    with pytest.raises(MachineError, match="failed: MemoryError: nothing left"):
        autotune(PeerRequest(SOFTMAX), environment, tmp_path / "log", 200, python=python)


@pytest.mark.slow
def test_without_a_gpu_the_real_child_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="needs a GPU"):
        autotune(PeerRequest(SOFTMAX), environment | {"CUDA_VISIBLE_DEVICES": ""}, tmp_path / "log", 200)


def test_a_search_that_hangs_is_killed_with_what_it_started(
    python: str, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["PEER_TEST_HOW"] = "hang"
    with pytest.raises(MachineError, match="took more than 3 s"):
        autotune(PeerRequest(SOFTMAX), environment, tmp_path / "log", 3, python=python)
    assert all_end(map(int, Path(environment["PEER_TEST_SEEN"]).read_text().split()))


def test_a_crash_is_an_error_with_the_last_line_of_the_log(
    python: str, environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("of an earlier search\n")
    environment["PEER_TEST_HOW"] = "crash"
    with pytest.raises(MachineError, match="was ended by SIGABRT: about to misbehave"):
        autotune(PeerRequest(SOFTMAX), environment, log, 60, python=python)
    environment["PEER_TEST_HOW"] = "garbage"
    with pytest.raises(MachineError, match="ended with status 0: a broken install"):
        autotune(PeerRequest(SOFTMAX), environment, log, 60, python=python)
    with pytest.raises(MachineError, match="did not start"):
        autotune(PeerRequest(SOFTMAX), environment, log, 60, python=str(tmp_path / "absent"))
    assert log.read_text().startswith("of an earlier search\nabout to misbehave")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_search_ends_with_the_process_that_waits_for_it(
    python: str, environment: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from helitune.objectives.helion_peer import PeerRequest, autotune\n"
        "autotune(PeerRequest('x.py'), os.environ, Path(sys.argv[1]), 600, python=sys.argv[2])\n"
    )
    pids = Path(environment["PEER_TEST_SEEN"])
    command = [sys.executable, "-c", code, str(tmp_path / "log"), python]
    with subprocess.Popen(
        command, env=environment | {"PEER_TEST_HOW": "hang"}, stderr=subprocess.DEVNULL
    ) as parent:
        assert until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        parent.send_signal(how)
    assert all_end(map(int, pids.read_text().split()), within_s=15)


def test_what_the_search_forks_ends_with_it() -> None:
    # as Helion does: in a session of its own, which no signal to the group reaches
    code = (
        "import os, time\n"
        "from helitune.objectives.gpu.helion_autotune import end_forks_with_this_process\n"
        "end_forks_with_this_process()\n"
        "forked = os.fork()\n"
        "print(forked, flush=True) if forked else os.setsid()\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        forked = int(leader.stdout.readline())
        leader.kill()
    assert all_end([forked])


def test_a_tree_of_processes_is_killed_across_sessions() -> None:
    # a shell, a Python in a session of its own, and below that another session
    inner = "import subprocess, time; subprocess.Popen(['setsid', 'sleep', '600']); time.sleep(600)"
    with subprocess.Popen(["sh", "-c", f'setsid {sys.executable} -c "{inner}" & wait']) as leader:
        assert until(lambda: len(descendants(leader.pid)) >= 2)
        time.sleep(0.2)
        below = descendants(leader.pid)
        kill_tree(leader.pid)
        assert leader.wait(5) == -signal.SIGKILL
    assert all_end(below)
    kill_tree(leader.pid)  # all have ended: nothing happens


def test_the_environment_keeps_the_ptxas_and_the_gpu(tmp_path: Path) -> None:
    given = {"TRITON_PTXAS_PATH": "/ptxas", "CUDA_VISIBLE_DEVICES": "1", "HELION_FORCE_AUTOTUNE": "1"}
    made = child_environment(given, tmp_path)
    assert made["TRITON_PTXAS_PATH"] == "/ptxas" and made["CUDA_VISIBLE_DEVICES"] == "1"
    assert [name for name in made if name.startswith("HELION_")] == ["HELION_CACHE_DIR"]


def test_request_and_result_survive_json(tmp_path: Path) -> None:
    acf = Acf("a", "0" * 64, tmp_path / "a.acf")
    request = PeerRequest(
        "k.py", "k", "self", ("f16[8]", "f16[4] 2"), shape=1, seed=7, acfs=(acf,), budget_s=2.5
    )
    assert PeerRequest.from_json(json.loads(json.dumps(request.to_json()))) == request
    result = PeerResult(
        {"num_warps": 4}, "", "full", 1, "1.5.0", 12.5, 30, PeerFailures(1, 2, 3), None, ((0.5, 1.25),)
    )
    assert PeerResult.from_json(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.gpu
@pytest.mark.parametrize("example", ["softmax", "add_residual_inplace"])
def test_the_real_autotuner_on_the_gpu(tmp_path: Path, ptxas: Ptxas, example: str) -> None:
    device = find_device()
    if device is None:
        pytest.skip("Helion's autotuner runs kernels: this machine has no NVIDIA GPU")
    acfs, _ = read_packs([shipped_pack()], ptxas_version=ptxas.version, arch=device.arch)
    store = AcfStore(tmp_path / "acfs")
    request = PeerRequest(
        str(ROOT / "examples" / f"{example}.py"), acfs=tuple(map(store.add, acfs[:3])), budget_s=20.0, seed=1
    )
    environment = gpu_environment(ptxas, os.environ, tmp_path, device.uuid)
    before = set(descendants(os.getpid()))
    result = autotune(request, environment, tmp_path / "log", 400)
    assert result.config["block_sizes"] and result.configs_tried >= 3
    assert result.acf_sha256 in {"", *(acf.sha256 for acf in request.acfs)}
    assert result.best_ms and result.trace[0][1] >= result.trace[-1][1] > 0
    assert until(lambda: set(descendants(os.getpid())) <= before)
