"""`helitune tune` from outside: the same search twice, after a kill, in a pipe, on a signal, within a time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from helitune_cli import KERNELS, command, environment, helitune, start

from helitune.acfs.pack import shipped_pack

pytestmark = pytest.mark.slow

SEARCH: tuple[str | Path, ...] = (
    "tune",
    KERNELS / "small_softmax.py",
    "--acf-pack",
    "h200-seed",
    "--seed",
    "1",
)


def runs(folder: Path) -> list[Path]:
    """The runs in a folder, oldest first."""
    return sorted(folder.glob(".helitune/runs/*"))


def trials(run: Path) -> list[dict[str, Any]]:
    """The finished trials of a run."""
    return [
        json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines() if line.endswith("}")
    ]


def essence(run: Path) -> list[tuple[int, str, str, float]]:
    """What must not differ between two runs of one search: number, id, outcome and score of each trial."""
    return sorted((t["number"], t["id"], t["outcome"], t.get("score", 0.0)) for t in trials(run))


def wait_for_trials(folder: Path, count: int) -> None:
    """Return once the newest run has that many finished trials."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if runs(folder) and len(trials(runs(folder)[-1])) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"fewer than {count} trials in 120 s")


def children_left(folder: Path) -> list[str]:
    """Command lines of processes that still work for a run in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"HELITUNE_CACHE_DIR={folder / 'cache'}".encode() in (process / "environ").read_bytes()
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if marked and line:
            found.append(line)
    return found


def assert_nothing_is_left(folder: Path) -> None:
    """Every process of the run is gone within five seconds."""
    deadline = time.monotonic() + 5
    while children_left(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not children_left(folder)


def test_the_same_seed_gives_the_same_search_and_a_kill_changes_nothing(tmp_path: Path) -> None:
    first, second, killed = tmp_path / "first", tmp_path / "second", tmp_path / "killed"
    for folder in (first, second, killed):
        folder.mkdir()
    for folder in (first, second):
        ended = helitune(folder, *SEARCH, "--budget", "24")
        assert ended.returncode == 0, ended.stderr
    assert essence(runs(first)[0]) == essence(runs(second)[0])

    process = start(killed, *SEARCH, "--budget", "24")
    wait_for_trials(killed, 9)
    process.kill()
    process.communicate()
    assert_nothing_is_left(killed)
    run = runs(killed)[0]
    before = (run / "trials.jsonl").read_bytes()
    with (run / "trials.jsonl").open("ab") as handle:
        handle.write(b'{"format":1,"number":99,"id":"torn')  # what a kill in the middle of a write leaves

    resumed = helitune(killed, "tune", "--resume", "")
    assert resumed.returncode == 0, resumed.stderr
    after = (run / "trials.jsonl").read_bytes()
    finished = before[: before.rfind(b"\n") + 1]
    assert after.startswith(finished), "finished trials are kept as they were"
    assert essence(run) == essence(runs(first)[0])
    ids = [trial["id"] for trial in trials(run)]
    assert len(ids) == len(set(ids)), "no trial was repeated"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_clean_and_resumable(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, *SEARCH, "--budget", "400")
    wait_for_trials(tmp_path, 5)
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    assert process.returncode == 130
    assert "helitune tune --resume" in err and "Traceback" not in err
    assert "interrupted" in out and "best" in out, "the best so far is reported"
    assert json.loads((runs(tmp_path)[0] / "run.json").read_text())["status"] == "interrupted"
    assert_nothing_is_left(tmp_path)


def only_warps(folder: Path) -> list[str]:
    """`--set` options that fix every axis to Helion's default but the number of warps."""
    planned = helitune(folder, *SEARCH[:2], "--dry-run", "--json")
    fixed: list[str] = []
    for axis in json.loads(planned.stdout)["space"]["axes"]:
        if axis["axis"] != "num_warps":
            fixed += ["--set", f"{axis['axis']}={json.dumps(axis['values'][0][0])}"]
    return fixed


def test_one_more_acf_compiles_only_that_one(tmp_path: Path) -> None:
    acfs = sorted(shipped_pack().glob("*.acf"))[:4]
    pack = tmp_path / "pack"
    pack.mkdir()
    search = (*SEARCH[:2], "--acf-pack", pack, "--strategy", "grid", "--budget", "99", *only_warps(tmp_path))
    for acf in acfs[:3]:
        shutil.copy(acf, pack)
    assert helitune(tmp_path, *search).returncode == 0
    cubins = {p.name for p in (tmp_path / "cache").glob("compiled/cubin/*/*")}
    shutil.copy(acfs[3], pack)
    assert helitune(tmp_path, *search).returncode == 0
    first, second = (trials(run) for run in runs(tmp_path))
    known = {trial["id"] for trial in first}
    fresh = [trial for trial in second if trial["id"] not in known]
    assert len(first) > 8 and fresh
    assert {trial["acf"]["name"] for trial in fresh} == {acfs[3].stem}
    new = {p.name for p in (tmp_path / "cache").glob("compiled/cubin/*/*")} - cubins
    assert len(new) == len(fresh), "one ptxas run for each new candidate, and none for the others"


def test_the_time_budget_ends_the_search_with_a_report(tmp_path: Path) -> None:
    ended = helitune(tmp_path, *SEARCH, "--budget", "5000", "--time", "12s", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["status"] == "done: the time of 12 s is up"
    assert 2 <= summary["trials"] < 5000


def test_several_shapes_are_compiled_for_each_candidate(tmp_path: Path) -> None:
    ended = helitune(
        tmp_path, "tune", KERNELS / "small_softmax.py", "--args", "f16[4096,512]", "--args", "f16[64,1024]",
        "--budget", "4", "--json",
    )  # fmt: skip
    assert ended.returncode in (0, 1), ended.stderr
    own = json.loads(ended.stdout.splitlines()[0])["own"]
    assert len(own["artifacts"]) == len(own["values"]) == 2
    assert [shape[0]["grid"] for shape in own["artifacts"]] == [[4096], [64]]


@pytest.mark.parametrize("target", ["sm_80", "sm_100", "sm_120"])
def test_other_targets_compile(tmp_path: Path, target: str) -> None:
    ended = helitune(
        tmp_path, "tune", KERNELS / "small_softmax.py", "--target", target, "--budget", "3", "--json"
    )
    assert ended.returncode in (0, 1), ended.stderr
    summary = json.loads(ended.stdout.splitlines()[0])
    assert summary["target"] == target and summary["own"]["outcome"] == "compiled"


def test_a_dry_run_compiles_nothing_and_names_the_refused(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    shutil.copy(next(shipped_pack().glob("*.acf")), pack)
    (pack / "empty.acf").touch()
    ended = helitune(
        tmp_path, *SEARCH[:2], "--acf-pack", pack, "--set", "num_warps=4,8", "--dry-run", "--json"
    )
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert len(plan["acfs"]["accepted"]) == 1
    assert [r["file"] for r in plan["acfs"]["refused"]] == ["empty.acf"]
    axes = {axis["axis"]: axis["values"] for axis in plan["space"]["axes"]}
    assert axes["num_warps"] == [[4], [8]] and "block_sizes[0]" in axes
    assert not runs(tmp_path) and not list((tmp_path / "cache").glob("compiled/cubin/*/*"))


def test_bad_acfs_cost_one_candidate_each(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    good = next(shipped_pack().glob("*.acf"))
    shutil.copy(good, pack)
    (pack / "random.acf").write_bytes(os.urandom(2000))
    (pack / "truncated.acf").write_bytes(good.read_bytes()[:100])
    ended = helitune(
        tmp_path, "tune", KERNELS / "small_softmax.py", "--acf-pack", pack, "--strategy", "grid",
        "--set", "num_warps=8", "--set", "block_sizes=1", "--budget", "40",
    )  # fmt: skip
    assert ended.returncode in (0, 1), ended.stderr
    failed = {t["acf"]["name"] for t in trials(runs(tmp_path)[0]) if t["outcome"] == "failed" and t["acf"]}
    passed = {t["acf"]["name"] for t in trials(runs(tmp_path)[0]) if t["outcome"] == "compiled" and t["acf"]}
    assert failed >= {"random", "truncated"} and good.stem in passed
    assert "compiler controls" in ended.stdout, "ptxas's own words are in the histogram"


def test_output_stays_in_order_in_a_pipe(tmp_path: Path) -> None:
    process = subprocess.run(
        f"{' '.join(command(*SEARCH))} --budget 3 | head -1",
        shell=True,
        cwd=tmp_path,
        env=environment(tmp_path / "cache"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.stdout.startswith("run ")
    assert "Traceback" not in process.stderr and "\x1b[" not in process.stderr
