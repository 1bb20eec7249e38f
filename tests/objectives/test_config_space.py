"""Helion's config space and ours are the same one: nothing is lost on the way there and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helitune.acfs.ptxas import Ptxas
from helitune.objectives.compile_environment import compile_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "tests" / "fixtures" / "config_space_runner.py"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GENOMES = 150
EVERY_KERNEL_HAS = {"block_sizes", "num_warps", "num_stages", "indexing", "pid_type", "maxnreg"}

each_example = pytest.mark.parametrize("name", [path.name for path in EXAMPLES])


@pytest.fixture(scope="module")
def found(ptxas: Ptxas) -> dict[str, dict[str, Any]]:
    """What the runner found, by file name: all examples in one process that has the fake device."""
    done = subprocess.run(
        [sys.executable, "-P", str(RUNNER), str(GENOMES), *map(str, EXAMPLES)],
        env=compile_environment(ptxas, os.environ),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return {checked["file"]: checked for checked in json.loads(done.stdout)}


def test_there_are_enough_examples() -> None:
    assert len(EXAMPLES) >= 6


@each_example
def test_configs_and_genomes_go_there_and_back(name: str, found: dict[str, dict[str, Any]]) -> None:
    assert found[name]["violations"] == []


@each_example
def test_most_genomes_are_valid_configs(name: str, found: dict[str, dict[str, Any]]) -> None:
    assert found[name]["valid"] > GENOMES / 2


@each_example
def test_every_fragment_of_helion_s_is_a_dimension(name: str, found: dict[str, dict[str, Any]]) -> None:
    checked = found[name]
    assert checked["slots"] == checked["flat_slots"] == len(checked["labels"])
    assert checked["keys"] == checked["flat_keys"]
    assert set(checked["keys"]) >= EVERY_KERNEL_HAS


@each_example
def test_every_dimension_has_a_name_and_values_of_its_own(
    name: str, found: dict[str, dict[str, Any]]
) -> None:
    checked = found[name]
    assert len(set(checked["labels"])) == len(checked["labels"])
    assert checked["repeated"] == []
    assert checked["not_plain"] == []


@each_example
def test_helion_s_default_comes_first_in_every_dimension(name: str, found: dict[str, dict[str, Any]]) -> None:
    assert found[name]["default_elsewhere"] == []


@each_example
def test_the_kernel_s_own_config_and_helion_s_are_checked(
    name: str, found: dict[str, dict[str, Any]]
) -> None:
    assert found[name]["configs"] >= 2


def test_a_list_of_choices_is_one_dimension_an_element(found: dict[str, dict[str, Any]]) -> None:
    labels = found["softmax.py"]["labels"]
    assert {"block_sizes[0]", "indexing[0]", "indexing[1]", "num_warps"} <= set(labels)
    assert "loop_orders[0]" in found["matmul_bias_gelu.py"]["labels"]
