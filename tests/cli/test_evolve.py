"""`helitune evolve` as a user runs it: what it refuses, and whole short runs in CompileIQ's real search space."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from helitune_cli import KERNELS, command, environment, helitune

KERNEL = KERNELS / "small_softmax.py"
SHORT = (
    "--generations",
    "2",
    "--population",
    "6",
    "--objective",
    "registers",
    "--seed",
    "3",
    "--device",
    "none",
)


@pytest.fixture
def no_network(tmp_path: Path) -> dict[str, str]:
    """An environment in which CompileIQ looks for search spaces in an empty folder, and not in the network."""
    (tmp_path / "spaces").mkdir()
    return {"CIQ_SEARCH_SPACES_DIR": str(tmp_path / "spaces")}


def test_no_search_space_is_said_with_what_to_do(tmp_path: Path, no_network: dict[str, str]) -> None:
    ended = helitune(tmp_path, "evolve", KERNEL, extra=no_network)
    assert ended.returncode == 3 and len(ended.stderr.splitlines()) == 1
    assert "--search-space FILE.bin" in ended.stderr
    assert not (tmp_path / ".helitune").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--config", "nothing.json"], "neither a JSON file nor a run"),
        (["--config", "best"], "no run of this kernel here"),
        (["--warm-start", "nothing"], "neither a run nor a pack"),
        (["--search-space", "nothing.bin"], "no such search space"),
        (["--population", "5"], "--population"),
        (["--again", "nothing", "--seed", "3"], "cannot be given"),
        (["--resume", "", "--generations", "9"], "--generations, FILE cannot be given"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, no_network: dict[str, str], options: list[str], says: str
) -> None:
    ended = helitune(tmp_path, "evolve", KERNEL, *options, extra=no_network)
    assert ended.returncode == 2 and says in ended.stderr and "Traceback" not in ended.stderr
    assert not (tmp_path / ".helitune").exists()


def trials(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / ".helitune" / "runs").glob("*/trials.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda trial: trial["number"])


def sequence(folder: Path) -> list[tuple[str, str, str]]:
    """Each trial without the bytes of its ACF, which differ from engine to engine: origin, name and code."""
    return [
        (
            t["origin"],
            (t["acf"] or {}).get("name", ""),
            str(t.get("artifacts", [[t]])[0][0].get("code_sha256")),
        )
        for t in trials(folder)
    ]


@pytest.mark.slow
def test_a_short_evolution_ends_with_acfs_that_ptxas_takes(tmp_path: Path, search_spaces: Path) -> None:
    from compileiq.results import SearchResult

    spaces = {"CIQ_SEARCH_SPACES_DIR": str(search_spaces)}
    ended = helitune(tmp_path, "evolve", KERNEL, *SHORT, "--json", extra=spaces)
    answer = json.loads(ended.stdout)
    assert answer["status"] == "done: 2 generations of 6 are complete", ended.stderr
    assert ended.returncode == (0 if answer["evolved"]["improved"] else 1)
    found = SearchResult.from_csv(answer["evolved"]["csv"], "min")
    assert len(found.df_results) == answer["evolved"]["tried"] >= 12
    assert found.get_best_result()["score_1"] == answer["evolved"]["best"]["score"]
    assert not list(tmp_path.rglob("*.bin")), "the search space is not ours to copy"
    built = helitune(tmp_path, "acf", "build", answer["run"], "-o", "pack", "--allow", "compiled")
    if answer["evolved"]["improved"]:
        assert built.returncode == 0, built.stderr
        assert helitune(tmp_path, "acf", "verify", "pack").returncode == 0
    # and its winners start another search, on another kernel
    other = helitune(
        tmp_path,
        "evolve",
        KERNELS / "plain_scale.py",
        *SHORT,
        "--warm-start",
        answer["run"],
        "-q",
        extra=spaces,
    )
    assert other.returncode in (0, 1), other.stderr
    newest = max((tmp_path / ".helitune" / "runs").iterdir())
    lines = [json.loads(line) for line in (newest / "trials.jsonl").read_text().splitlines()]
    warm = [trial["number"] for trial in lines if trial["origin"] == "warm start"]
    assert warm and max(warm) < min(t["number"] for t in lines if t["origin"] == "evolve")


@pytest.mark.slow
def test_after_sigkill_it_goes_on_to_the_identical_sequence(tmp_path: Path, search_spaces: Path) -> None:
    spaces = {"CIQ_SEARCH_SPACES_DIR": str(search_spaces)}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    helitune(whole, "evolve", KERNEL, *SHORT, "-q", extra=spaces, cache=tmp_path / "cache")
    process = subprocess.Popen(
        command("evolve", KERNEL, *SHORT, "-q", "--jobs", "1"),
        cwd=killed,
        env=environment(tmp_path / "cache", spaces),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and sum(1 for _ in _lines(killed)) < 9:  # in the middle of a generation
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = trials(killed)
    assert 9 <= len(before) < len(trials(whole))
    resumed = helitune(killed, "evolve", "--resume", "", "-q", extra=spaces, cache=tmp_path / "cache")
    assert resumed.returncode in (0, 1), resumed.stderr
    assert sequence(killed) == sequence(whole)
    assert [trial["id"] for trial in trials(killed)[: len(before)]] == [trial["id"] for trial in before]


def _lines(folder: Path) -> list[str]:
    return [line for path in folder.rglob("trials.jsonl") for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_both_layers_evolve_in_one_run(tmp_path: Path, search_spaces: Path) -> None:
    spaces = {"CIQ_SEARCH_SPACES_DIR": str(search_spaces)}
    ended = helitune(
        tmp_path,
        "tune",
        KERNEL,
        "--search-space",
        "auto",
        "--budget",
        "16",
        "--device",
        "none",
        "-q",
        extra=spaces,
    )
    assert ended.returncode in (0, 1), ended.stderr
    evolving = [trial for trial in trials(tmp_path) if trial["origin"] == "evolve"]
    assert any(trial["acf"] for trial in evolving) and any(not trial["acf"] for trial in evolving)
    assert len({json.dumps(trial["config"]) for trial in evolving}) > 2


@pytest.mark.slow
def test_a_file_that_is_no_search_space_leaves_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.bin").write_bytes(b"something else" * 100)
    ended = helitune(tmp_path, "evolve", KERNEL, *SHORT, "--search-space", "bad.bin", "-q")
    assert ended.returncode == 2 and "does not take this search space" in ended.stderr
    assert "Traceback" not in ended.stderr
