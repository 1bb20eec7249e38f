"""Which config `--config` means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pin_runs import BETTER, OWN, failed, make_run

from helitune.acfs.errors import InputError
from helitune.results.evolve_config import choose_config
from helitune.results.run_directory import RUNS, RunDirectory

CONFIG = {"block_sizes": [4], "num_warps": 8, "advanced_controls_file": "/some/where.acf"}
WITHOUT_ACF = {"block_sizes": [4], "num_warps": 8}


def chosen(text: str | Path, folder: Path, file: Path | None = None, kernel: str | None = None) -> Any:
    found = choose_config(str(text), folder, file or folder / "softmax.py", kernel)
    return json.loads(found.config), found.origin


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / RUNS, [OWN, BETTER])


def test_own_is_left_to_the_kernels_file(tmp_path: Path) -> None:
    assert choose_config("own", tmp_path, tmp_path / "k.py", None).config == "own"


@pytest.mark.parametrize("stored", [CONFIG, {"identity": "ab", "config": CONFIG}], ids=["helion", "pin"])
def test_a_file_of_helion_and_a_pin_give_their_config_without_the_acf(tmp_path: Path, stored: Any) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(stored))
    assert chosen(file, tmp_path) == (WITHOUT_ACF, str(file))


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"identity": 1, "config": 3}', "[" * 100_000])
def test_a_file_without_a_config_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(InputError) as raised:
        chosen(file, tmp_path)
    assert str(file) in raised.value.line() and "--config" in raised.value.what


def test_best_is_that_of_the_newest_run_of_the_kernel(tmp_path: Path, run: RunDirectory) -> None:
    config, origin = chosen("best", tmp_path, tmp_path / RUNS / "softmax.py")
    assert config == BETTER.config and f"run {run.id}, trial 2" in origin
    assert chosen("best", tmp_path, tmp_path / RUNS / "softmax.py", "softmax")[0] == config
    for file, kernel in ((tmp_path / "other.py", None), (tmp_path / RUNS / "softmax.py", "other")):
        with pytest.raises(InputError, match="no run of this kernel"):
            chosen("best", tmp_path, file, kernel)


def test_a_broken_run_is_passed_over(tmp_path: Path, run: RunDirectory) -> None:
    newer = tmp_path / RUNS / "20270101-000000-0000"
    newer.mkdir()
    (newer / "run.json").write_text("{")
    assert chosen("best", tmp_path, tmp_path / RUNS / "softmax.py")[0] == BETTER.config


def test_a_run_is_named_by_its_id(tmp_path: Path, run: RunDirectory) -> None:
    assert chosen(run.id, tmp_path)[0] == BETTER.config
    with pytest.raises(InputError, match="neither a JSON file nor a run"):
        chosen("no such thing", tmp_path)


def test_a_run_in_which_all_failed_has_no_best(tmp_path: Path) -> None:
    run = make_run(tmp_path / RUNS, [failed(1)])
    with pytest.raises(InputError, match="no candidate that came through"):
        chosen(run.id, tmp_path)
