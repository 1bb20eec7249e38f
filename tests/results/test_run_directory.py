"""Runs on disk: what is written stays, and what somebody broke is refused in one line, never in a traceback."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pin_runs import BETTER, OWN, failed, make_run, trial

from helitune.acfs.errors import InputError, MachineError
from helitune.results.run_directory import RUNS, RunDirectory, create_run, find_run, working_folder
from helitune.results.trial import TRIAL_FORMAT

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "runs" / "format1"
THIRD = trial(3, 300.0)
DEEP = "[" * 200_000


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path, [OWN, BETTER])


def refusal(read: Any) -> str:
    """The line of the InputError that `read` ends in; it says what to do next."""
    with pytest.raises(InputError) as raised:
        read()
    assert raised.value.next_step
    return raised.value.line()


def stored(run: RunDirectory) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((run.path / "run.json").read_text())
    return fields


def lines(run: RunDirectory) -> list[bytes]:
    return (run.path / "trials.jsonl").read_bytes().splitlines(keepends=True)


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """No file grows beyond `size_bytes`: the kernel takes what fits and refuses the rest, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# writing


def test_trials_read_back_in_the_order_they_were_written(run: RunDirectory) -> None:
    assert run.trials() == [OWN, BETTER]
    run.lock()
    run.append(failed(3))
    run.close()
    assert run.trials() == [OWN, BETTER, failed(3)]


def test_a_new_run_is_locked_and_its_trials_are_there_at_once(tmp_path: Path) -> None:
    run = create_run(tmp_path)
    run.append(OWN)
    assert RunDirectory(run.path).trials() == [OWN]
    with pytest.raises(MachineError, match="another process is writing"):
        RunDirectory(run.path).lock()
    run.close()
    RunDirectory(run.path).lock()


@pytest.mark.parametrize("room_bytes", [0, 1, 100])
def test_a_full_disk_costs_the_trial_and_no_other(run: RunDirectory, room_bytes: int) -> None:
    trials = run.path / "trials.jsonl"
    before = trials.read_bytes()
    run.lock()
    with largest_file(len(before) + room_bytes):
        with pytest.raises(MachineError, match="cannot write the trial") as raised:
            run.append(THIRD)
        run.close()
    assert f"--resume {run.id}" in raised.value.line()
    assert trials.read_bytes() == before


def test_after_a_full_disk_the_run_goes_on_where_it_was(run: RunDirectory) -> None:
    run.lock()
    with largest_file((run.path / "trials.jsonl").stat().st_size + 50), pytest.raises(MachineError):
        run.append(THIRD)
    run.append(failed(4))
    run.close()
    assert run.trials() == [OWN, BETTER, failed(4)]


def test_a_full_disk_leaves_run_json_as_it_was(run: RunDirectory) -> None:
    before = run.run()
    with largest_file(50), pytest.raises(MachineError):
        run.write_run({**before, "status": "done"})
    assert run.run() == before


def test_a_torn_last_line_is_not_read_and_is_dropped_at_the_next_opening(run: RunDirectory) -> None:
    trials = run.path / "trials.jsonl"
    whole = trials.read_bytes()
    trials.write_bytes(whole + whole.splitlines()[0][:40])
    assert run.trials() == [OWN, BETTER]
    run.lock()
    run.append(THIRD)
    run.close()
    assert run.trials() == [OWN, BETTER, THIRD]


def test_a_run_without_trials_or_that_cannot_be_opened(run: RunDirectory) -> None:
    (run.path / "trials.jsonl").unlink()
    assert run.trials() == []
    with pytest.raises(MachineError, match="cannot open the run"):
        run.lock()
    run.close()


# trials.jsonl


def test_a_blank_line_is_passed_over(run: RunDirectory) -> None:
    first, second = lines(run)
    (run.path / "trials.jsonl").write_bytes(first + b"\n  \n" + second)
    assert run.trials() == [OWN, BETTER]


@pytest.mark.parametrize(
    "garbage", ["garbage", "[]", "3", "null", "\x00", DEEP, "{}", '{"format": 1}', "\udcff"]
)
def test_a_broken_line_is_named_and_can_be_deleted(run: RunDirectory, garbage: str) -> None:
    first, second = lines(run)
    path = run.path / "trials.jsonl"
    path.write_bytes(first + garbage.encode(errors="surrogateescape") + b"\n" + second)
    line = refusal(run.trials)
    assert f"{path}:2" in line and "delete this line by hand" in line


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", "1", "format: '1'"),
        ("number", "two", "number: 'two'"),
        ("number", True, "number: True"),
        ("id", 7, "id: 7"),
        ("origin", None, "origin: None"),
        ("config", None, "config: None"),
        ("config", [1], "config: [1]"),
        ("acf", "none", "acf: 'none'"),
        ("acf", {"sha256": "../elsewhere", "name": "x"}, "sha256: '../elsewhere'"),
        ("acf", {"sha256": "ab" * 32}, "name is missing"),
        ("elapsed_s", "long", "elapsed_s: 'long'"),
        ("at_s", None, "at_s: None"),
        ("generation", 1.5, "generation: 1.5"),
        ("outcome", "lost", "outcome: 'lost'"),
        ("score", "x", "score: 'x'"),
        ("score", float("nan"), "score: nan"),
        ("score", float("inf"), "score: inf"),
        ("score", 10**400, "score: 1000"),
        ("tie_breaker", None, "tie_breaker: None"),
        ("values", [], "one for each shape"),
        ("values", [None], "values: None"),
        ("bounds", "memory", "bounds: 'memory'"),
        ("bounds", ["issue", "issue"], "one for each shape"),
        ("artifacts", [], "one for each shape"),
        ("artifacts", [[]], "a shape without launches"),
        ("artifacts", [[{}]], "ptx_sha256 is missing"),
        ("artifacts", {"0": 1}, "artifacts: {'0': 1}"),
    ],
)
def test_a_trial_with_a_wrong_field_says_which(run: RunDirectory, key: str, value: Any, says: str) -> None:
    first = json.loads(lines(run)[0])
    path = run.path / "trials.jsonl"
    path.write_text(json.dumps(first | {key: value}) + "\n")
    line = refusal(run.trials)
    assert f"{path}:1" in line and says in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("code_sha256", 7),
        ("registers", None),
        ("grid", [1.5]),
        ("histogram", [[1]]),
        ("weights", [[1, "x"]]),
    ],
)
def test_an_artifact_with_a_wrong_field_is_refused_by_its_name(
    run: RunDirectory, key: str, value: Any
) -> None:
    first = json.loads(lines(run)[0])
    first["artifacts"][0][0][key] = value
    (run.path / "trials.jsonl").write_text(json.dumps(first) + "\n")
    assert key in refusal(run.trials)


def test_a_trial_of_a_newer_format_asks_for_an_upgrade(run: RunDirectory) -> None:
    (run.path / "trials.jsonl").write_text('{"format": 3, "shape": "unknown"}\n')
    line = refusal(run.trials)
    assert "format 3" in line and "trials.jsonl:1" in line and "upgrade helitune" in line


def test_trials_that_cannot_be_read_are_named(run: RunDirectory) -> None:
    path = run.path / "trials.jsonl"
    path.unlink()
    path.mkdir()
    assert str(path) in refusal(run.trials)
    path.rmdir()
    path.symlink_to(path)
    assert str(path) in refusal(run.trials)


# run.json


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", "\x00", DEEP, "{}", '{"format": "1"}'])
def test_what_is_no_run_json_is_refused(run: RunDirectory, content: str) -> None:
    (run.path / "run.json").write_text(content)
    assert str(run.path / "run.json") in refusal(run.run)


NEEDED = ("format", "created", "request", "workload", "evidence", "fingerprint", "acfs", "status")


@pytest.mark.parametrize("key", NEEDED)
def test_a_missing_field_is_named(run: RunDirectory, key: str) -> None:
    fields = stored(run)
    del fields[key]
    (run.path / "run.json").write_text(json.dumps(fields))
    line = refusal(run.run)
    assert f"{key} is missing" in line and str(run.path / "run.json") in line


@pytest.mark.parametrize("key", NEEDED)
@pytest.mark.parametrize("value", [None, 1.5, [[1]]])
def test_a_field_of_another_type_is_refused(run: RunDirectory, key: str, value: Any) -> None:
    run.write_run({**stored(run), key: value})
    assert str(run.path / "run.json") in refusal(run.run)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("request", "objective"),
        ("request", "ptxas"),
        ("workload", "source_sha256"),
        ("workload", "shapes"),
        ("fingerprint", "arch"),
        ("fingerprint", "ptxas"),
    ],
)
def test_a_field_missing_further_in_is_named(run: RunDirectory, outer: str, inner: str) -> None:
    fields = stored(run)
    del fields[outer][inner]
    run.write_run(fields)
    line = refusal(run.run)
    assert f"{inner} is missing" in line and str(run.path / "run.json") in line


@pytest.mark.parametrize("key", ["name", "sha256", "arch", "toolkit"])
def test_an_acf_lacks_nothing(run: RunDirectory, key: str) -> None:
    fields = stored(run)
    del fields["acfs"][0][key]
    run.write_run(fields)
    assert f"{key} is missing" in refusal(run.run)


def test_a_newer_run_asks_for_an_upgrade(run: RunDirectory) -> None:
    (run.path / "run.json").write_text('{"format": 2}')
    assert "format 2" in refusal(run.run) and "upgrade helitune" in refusal(run.run)


def test_a_run_json_that_cannot_be_read_is_named(run: RunDirectory) -> None:
    path = run.path / "run.json"
    path.unlink()
    assert "no run here" in refusal(run.run)
    path.mkdir()
    assert str(path) in refusal(run.run)
    path.rmdir()
    path.symlink_to(path)
    assert str(path) in refusal(run.run)


def test_scalars_beyond_json_survive_in_a_workload(run: RunDirectory) -> None:
    fields = stored(run)
    fields["workload"]["shapes"][0].append({"value": float("inf")})
    run.write_run(fields)
    assert run.run()["workload"]["shapes"][0][1] == {"value": float("inf")}


# finding


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one run, where `tune` puts it."""
    make_run(tmp_path / RUNS, [OWN])
    return tmp_path


def test_a_run_is_found_by_id_by_folder_and_as_the_newest(root: Path) -> None:
    newest = find_run(root, None)
    assert newest.id == "20261201-101500-ab12"
    assert find_run(root, newest.id).path == find_run(root, str(newest.path)).path == newest.path


def test_inside_its_folder_a_run_has_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = find_run(root, None)
    monkeypatch.chdir(run.path)
    assert find_run(Path.cwd(), ".").id == run.id
    monkeypatch.chdir(run.acfs)
    assert find_run(Path.cwd(), "..").id == run.id


@pytest.mark.parametrize("name", ["never", "x" * 5000, "a\0b", "/" * 300, "", "..", "\udcff"])
def test_what_is_no_run_is_refused_with_the_newest(root: Path, name: str) -> None:
    line = refusal(lambda: find_run(root, name))
    assert line.startswith("no run '") and "the newest are 20261201-101500-ab12" in line and len(line) < 600


def test_a_folder_without_runs(tmp_path: Path) -> None:
    for name in (None, "never"):
        assert "helitune tune KERNEL_FILE" in refusal(lambda name=name: find_run(tmp_path, name))


def test_a_run_killed_before_its_run_json_is_passed_over(root: Path) -> None:
    killed = root / RUNS / "20261202-000000-ffff"
    killed.mkdir()
    assert find_run(root, None).id == "20261201-101500-ab12"
    assert killed.exists()


def test_a_working_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert working_folder() == gone
    gone.rmdir()
    assert "the working folder is gone" in refusal(working_folder)
    for name in (None, ".", "never"):
        assert "no run" in refusal(lambda name=name: find_run(gone, name))
    monkeypatch.chdir(tmp_path)


# older runs


def test_a_run_of_format_1_stays_readable() -> None:
    run = RunDirectory(FORMAT_1)
    assert run.run()["request"]["objective"] == "issue_slots"
    trials = run.trials()
    assert [t.number for t in trials] == [1, 2, 3, 4, 6, 5, 7]
    assert [t.number for t in trials if t.compiled is None] == [6, 5]
    assert {t.compiled.bounds for t in trials if t.compiled} == {("issue",)}
    kept = [json.loads(line) for line in (FORMAT_1 / "trials.jsonl").read_text().splitlines()]
    assert [t.to_json() for t in trials] == [line | {"format": TRIAL_FORMAT} for line in kept]
