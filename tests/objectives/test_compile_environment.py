"""The environment of compile processes: what changes results does not get in."""

from __future__ import annotations

from pathlib import Path

import pytest

from helitune.acfs.ptxas import Ptxas
from helitune.objectives.compile_environment import compile_environment, ignored_variables

PTXAS = Ptxas(Path("/opt/ptxas"), "13.3.73", "ab" * 32)
CHANGES_RESULTS = {
    "PTXAS_OPTIONS": "--apply-controls /tmp/other.acf",
    "DISABLE_PTXAS_OPT": "1",
    "TRITON_PTXAS_PATH": "/usr/bin/ptxas",
    "TRITON_PTXAS_BLACKWELL_PATH": "/usr/bin/ptxas",
    "TRITON_INTERPRET": "1",
    "TRITON_CACHE_DIR": "/home/user/.triton",
    "TRITON_ALWAYS_COMPILE": "1",
    "TRITON_DEFAULT_FP_FUSION": "0",
    "HELION_INTERPRET": "1",
    "HELION_BACKEND": "pallas",
    "HELION_AUTOTUNE_EFFORT": "none",
    "MLIR_ENABLE_DUMP": "1",
    "LLVM_IR_ENABLE_DUMP": "1",
}
HARMLESS = {
    "PATH": "/usr/bin",
    "HOME": "/home/user",
    "TMPDIR": "/tmp",
    "HELITUNE_CACHE_DIR": "/c",
    "LANG": "C",
}


def test_both_of_tritons_variables_name_the_chosen_ptxas() -> None:
    made = compile_environment(PTXAS, CHANGES_RESULTS)
    assert made["TRITON_PTXAS_PATH"] == made["TRITON_PTXAS_BLACKWELL_PATH"] == "/opt/ptxas"


@pytest.mark.parametrize("name", CHANGES_RESULTS)
def test_a_variable_that_changes_results_changes_nothing_here(name: str) -> None:
    with_it = compile_environment(PTXAS, HARMLESS | {name: CHANGES_RESULTS[name]})
    assert with_it == compile_environment(PTXAS, HARMLESS)


def test_the_users_variables_are_named_and_others_are_kept() -> None:
    assert ignored_variables(CHANGES_RESULTS | HARMLESS) == sorted(CHANGES_RESULTS)
    made = compile_environment(PTXAS, CHANGES_RESULTS | HARMLESS)
    assert {name: made[name] for name in HARMLESS} == HARMLESS


def test_no_gpu_is_visible() -> None:
    assert compile_environment(PTXAS, {"CUDA_VISIBLE_DEVICES": "0"})["CUDA_VISIBLE_DEVICES"] == ""


def test_the_given_environment_is_left_alone() -> None:
    given = dict(CHANGES_RESULTS)
    compile_environment(PTXAS, given)
    assert given == CHANGES_RESULTS
