"""Every exit code of a negative end, with its one line; none of these compiles a candidate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helitune_cli import KERNELS, helitune

from helitune.objectives.device import find_device

SOFTMAX = KERNELS / "small_softmax.py"


def one_line(stderr: str) -> str:
    """The error line, which must be the last and the only one of its kind; no traceback around it."""
    lines = [line for line in stderr.splitlines() if line.startswith("helitune:")]
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tune"], "no kernel file given"),
        (["tune", "nowhere.py"], "no such kernel file (nowhere.py)"),
        (["tune", "."], "a folder, not a kernel file"),
        (["tune", SOFTMAX, "--acf-pack", "nowhere"], "no pack at 'nowhere'"),
        (["tune", SOFTMAX, "--target", "sm_7"], "sm_7"),
        (
            ["tune", SOFTMAX, "--strategy", "luck"],
            "unknown strategy 'luck' (--strategy); choose from compileiq",
        ),
        (["tune", SOFTMAX, "--objective", "speed"], "unknown objective 'speed' (--objective)"),
        (["tune", SOFTMAX, "--device", "first"], "'first' is no GPU (--device)"),
        (["tune", SOFTMAX, "--timing", "wall"], "(--timing); choose graph or eager"),
        (["tune", SOFTMAX, "--cache", "hot"], "(--cache); choose cold or warm"),
        (["tune", SOFTMAX, "--bytes", "many"], "'many' (--bytes)"),
        (["tune", SOFTMAX, "--time", "soon"], "cannot read the duration 'soon' (--time)"),
        (["tune", SOFTMAX, "--compile-memory", "lots"], "cannot read the size 'lots'"),
        (["tune", "--resume", "never"], "no run 'never'"),
        (["show"], "no run here"),
        (["pin"], "no run here"),
    ],
)
def test_wrong_input_exits_2(tmp_path: Path, arguments: list[str | Path], says: str) -> None:
    ended = helitune(tmp_path, *arguments)
    assert ended.returncode == 2
    assert says in one_line(ended.stderr)
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--objective", "time"], "no GPU to measure on (--objective time)"),
        (["--device", "0"], "no GPU on this machine (--device 0)"),
        (["--strategy", "helion"], "(--strategy helion)"),
    ],
)
def test_what_needs_a_gpu_exits_3_without_one(tmp_path: Path, options: list[str], says: str) -> None:
    if find_device() is not None:
        pytest.skip("this machine has a GPU")
    ended = helitune(tmp_path, "tune", SOFTMAX, *options)
    assert ended.returncode == 3
    assert says in one_line(ended.stderr)


def test_an_error_leaves_no_run_behind(tmp_path: Path) -> None:
    helitune(tmp_path, "tune", SOFTMAX, "--acf-pack", "nowhere")
    helitune(tmp_path, "tune", SOFTMAX, "--strategy", "luck")
    assert not list(tmp_path.glob(".helitune/runs/*"))


def test_unknown_option_exits_2_without_a_traceback(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", SOFTMAX, "--fast")
    assert ended.returncode == 2
    assert "No such option" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n", "ACFs need 13.3 or newer"),
        ("#!/bin/sh\nexit 1\n", "ptxas"),
        (None, "no ptxas at"),
    ],
)
def test_a_machine_without_a_fitting_ptxas_exits_3(tmp_path: Path, script: str | None, says: str) -> None:
    ptxas = tmp_path / "ptxas"
    if script is not None:
        ptxas.write_text(script)
        ptxas.chmod(0o755)
    for by_option in (True, False):
        options = ["--ptxas", str(ptxas)] if by_option else []
        extra = {} if by_option else {"HELITUNE_PTXAS": str(ptxas)}
        ended = helitune(tmp_path, "tune", SOFTMAX, *options, extra=extra)
        assert ended.returncode == 3
        assert says in one_line(ended.stderr)


def test_a_pack_for_another_architecture_is_refused_before_any_compile(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", SOFTMAX, "--acf-pack", "h200-seed", "--target", "sm_100")
    assert ended.returncode == 3
    line = one_line(ended.stderr)
    assert "sm_90" in line and "sm_100" in line and "--force" in line


def test_json_errors_are_json_on_stdout(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", "nowhere.py", "--json")
    assert ended.returncode == 2
    answer = json.loads(ended.stdout)
    assert answer["exit_code"] == 2 and answer["error"]["where"] == "nowhere.py"
    assert answer["error"]["next_step"]


def test_a_cache_path_with_white_space_exits_3(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", SOFTMAX, "--acf-pack", "h200-seed", cache=tmp_path / "my cache")
    assert ended.returncode == 3
    assert "HELITUNE_CACHE_DIR" in one_line(ended.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("small_softmax.py:nothing", [], "nothing"),
        ("small_softmax.py", ["--set", "num_warp=4"], "did you mean num_warps"),
        ("small_softmax.py", ["--set", "num_warps=5"], "5 is not a value of num_warps"),
        ("small_softmax.py", ["--args", "f16[4096"], "f16[4096"),
        ("small_softmax.py", ["--args", "f16[8,8] f16[8]"], "small_softmax"),
        ("small_softmax.py", ["--args", "f16[8]"], "Helion cannot bind small_softmax to 'f16[8]'"),
        ("small_softmax.py", ["--reference", "nowhere"], "nowhere"),
    ],
)
def test_wrong_workloads_exit_2(tmp_path: Path, name: str, options: list[str], says: str) -> None:
    ended = helitune(tmp_path, "tune", f"{KERNELS}/{name}", *options)
    assert ended.returncode == 2, ended.stderr
    assert says in one_line(ended.stderr)
    assert not list(tmp_path.glob(".helitune/runs/*"))


@pytest.mark.slow
def test_a_source_that_disagrees_with_its_reference_exits_1(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", KERNELS / "wrong_scale.py", "--budget", "4")
    assert ended.returncode == 1, ended.stderr
    assert "wrong_scale disagrees with" in one_line(ended.stderr)
    pinned = helitune(tmp_path, "pin")
    assert pinned.returncode == 1 and not (tmp_path / "pins").exists()


@pytest.mark.slow
def test_nothing_better_than_the_own_config_exits_1(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", KERNELS / "plain_scale.py", "--budget", "0", "--json")
    assert ended.returncode == 1, ended.stderr
    assert "nothing of 1 candidates ranks above the kernel's own config" in one_line(ended.stderr)
    ranking = json.loads(ended.stdout.splitlines()[0])
    assert ranking["improved"] is False and ranking["best"]["origin"] == "baseline own"
    assert helitune(tmp_path, "pin").returncode == 1


@pytest.mark.slow
def test_no_candidate_that_compiles_exits_1_with_the_reasons(tmp_path: Path) -> None:
    ended = helitune(
        tmp_path, "tune", KERNELS / "plain_scale.py", "--budget", "2", "--compile-timeout", "0.001s"
    )
    assert ended.returncode == 1, ended.stderr
    assert "compile_timeout" in one_line(ended.stderr)
    assert "compile_timeout" in ended.stdout, "the histogram of reasons"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ("import ctypes; ctypes.string_at(0)", "the process that loaded the kernel crashed"),
        ("raise ValueError('no such thing')", "no such thing"),
        (
            "return ([torch.empty(8, device='cuda')], [torch.empty(8, 8, device='cuda')])",
            "another config space",
        ),
    ],
)
def test_kernel_files_that_misbehave_exit_2(tmp_path: Path, inputs: str, says: str) -> None:
    source = (KERNELS / "plain_scale.py").read_text().split("def inputs()")[0]
    file = tmp_path / "misbehaves.py"
    file.write_text(f"{source}\n\ndef inputs():\n    {inputs}\n")
    ended = helitune(tmp_path, "tune", file)
    assert ended.returncode == 2, ended.stderr
    assert says in one_line(ended.stderr)
    assert "misbehaves.py" in one_line(ended.stderr)
