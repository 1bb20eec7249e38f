"""How the command ends when nobody reads, nothing can be written, or it is stopped before it began."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helitune_cli import KERNELS, command, environment, helitune, start


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_search_says_that_nothing_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "tune", KERNELS / "small_softmax.py")
    time.sleep(1.5)  # loading takes seconds
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and out == ""
    assert "interrupted before there was anything to keep" in err and "Traceback" not in err
    assert not (tmp_path / ".helitune").exists()


def test_a_full_output_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command("tune", "--help"),
            cwd=tmp_path,
            env=environment(tmp_path / "cache"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 3
    assert ended.stderr.startswith("helitune: the system refused: No space left on device")
    assert len(ended.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        command("tune", "--help"),
        cwd=tmp_path,
        env=environment(tmp_path / "cache"),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert ended.returncode == 0 and ended.stderr == ""


def test_usage_errors_are_json_too(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", "--budget", "many", "--json")
    assert ended.returncode == 2
    assert json.loads(ended.stdout)["exit_code"] == 2 and "--budget" in ended.stderr


def test_a_resumed_run_keeps_its_settings(tmp_path: Path) -> None:
    for option in (["--seed", "3"], ["--dry-run"], ["--acf-pack", "h200-seed"]):
        ended = helitune(tmp_path, "tune", "--resume", "", *option)
        assert ended.returncode == 2
        assert f"{option[0]} cannot be given" in ended.stderr


@pytest.mark.slow
def test_a_negative_verdict_is_one_json_object(tmp_path: Path) -> None:
    ended = helitune(tmp_path, "tune", KERNELS / "plain_scale.py", "--budget", "0", "--json")
    assert ended.returncode == 1
    answer = json.loads(ended.stdout)
    assert answer["exit_code"] == 1 and "ranks above" in answer["error"]["what"]


@pytest.mark.slow
def test_a_finished_run_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    kernel = KERNELS / "small_softmax.py"
    assert helitune(tmp_path, "tune", kernel, "--budget", "3", "--seed", "1").returncode in (0, 1)
    longer = helitune(tmp_path, "tune", "--resume", "", "--budget", "8", "--json")
    assert longer.returncode in (0, 1), longer.stderr
    at_once = tmp_path / "at once"
    at_once.mkdir()
    other = helitune(at_once, "tune", kernel, "--budget", "8", "--seed", "1", "--json")
    assert json.loads(longer.stdout)["best"]["id"] == json.loads(other.stdout)["best"]["id"]
    assert json.loads(longer.stdout)["trials"] == json.loads(other.stdout)["trials"]


@pytest.mark.slow
def test_a_changed_own_acf_cannot_be_resumed(tmp_path: Path) -> None:
    source = (KERNELS / "small_softmax.py").read_text()
    config = "helion.Config(block_sizes=[1], num_warps=8, advanced_controls_file='mine.acf')"
    file = tmp_path / "own_acf.py"
    file.write_text(source.replace("helion.Config(block_sizes=[1], num_warps=8)", config))
    pack = sorted((Path(__file__).parents[2] / "acfs" / "data" / "h200-seed").glob("*.acf"))
    (tmp_path / "mine.acf").write_bytes(pack[0].read_bytes())
    ended = helitune(tmp_path, "tune", file, "--budget", "2", "--seed", "1", "--json")
    own = json.loads(ended.stdout)["own"]
    assert own["acf"]["sha256"].startswith(pack[0].stem), "the own config is measured with its own ACF"
    run = next(tmp_path.glob(".helitune/runs/*"))
    assert [path.stem for path in (run / "acfs").iterdir()] == [own["acf"]["sha256"]]
    (tmp_path / "mine.acf").write_bytes(pack[1].read_bytes())
    resumed = helitune(tmp_path, "tune", "--resume", "")
    assert resumed.returncode == 2 and "the ACF that the kernel's own config names" in resumed.stderr
