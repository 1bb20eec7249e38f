"""`helitune check` as a command, on a machine without a GPU: exit codes, and the files that it leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from helitune_cli import EXAMPLES, helitune

PINS = EXAMPLES / "pins"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the softmax kernel and its pin, which has an ACF."""
    shutil.copy(EXAMPLES / "softmax.py", tmp_path)
    shutil.copytree(PINS / "softmax", tmp_path / "pins" / "softmax")
    return tmp_path


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = helitune(folder, "check", "pins", *arguments, cache=folder / "cache", extra=HIDDEN)
    assert "Traceback" not in done.stderr
    return done


def counts(junit: Path) -> dict[str, str | None]:
    root = Xml.parse(junit).getroot()
    return {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}


def test_a_renamed_ptxas_is_the_environment_and_all_outputs_are_there(project: Path) -> None:
    outputs = ["--junit", "out/junit.xml", "--markdown", "out/check.md", "--history", "out/history.jsonl"]
    done = check(project, "--ptxas", "ptxas-renamed", *outputs)
    assert done.returncode == 3
    assert "no ptxas at" in done.stderr and "ptxas-renamed" in done.stderr
    assert counts(project / "out" / "junit.xml") == {
        "tests": "1",
        "failures": "0",
        "errors": "1",
        "skipped": "0",
    }
    assert (project / "out" / "check.md").read_text().startswith("### helitune check: 1 environment\n")
    (line,) = (project / "out" / "history.jsonl").read_text().splitlines()
    assert json.loads(line)["result"] == "environment"
    assert check(project, "--ptxas", "ptxas-renamed", "--history", "out/history.jsonl").returncode == 3
    assert len((project / "out" / "history.jsonl").read_text().splitlines()) == 2


def test_another_gpu_than_there_is_must_not_pass(project: Path) -> None:
    done = check(project, "--device", "0", "--json")
    fields = json.loads(done.stdout)
    assert (done.returncode, fields["exit_code"], fields["pins"][0]["result"]) == (3, 3, "environment")
    assert "no GPU on this machine" in fields["error"]["what"]


def test_an_edited_kernel_ends_with_3_and_says_that_the_baseline_moved(project: Path) -> None:
    with (project / "softmax.py").open("a") as file:
        file.write("# edited\n")
    done = check(project)
    assert done.returncode == 3
    assert "the kernel file was edited since it was pinned" in done.stdout
    assert "baseline (the kernel file was edited" in done.stdout


def test_a_pin_that_cannot_be_used_is_named_and_the_others_are_checked(project: Path) -> None:
    acf = next((project / "pins" / "softmax" / "sm_90").glob("*.acf"))
    acf.write_bytes(b"altered")
    (project / "pins" / "softmax" / "sm_90" / "second.json").write_text("{}")
    done = check(project, "--json")
    fields = json.loads(done.stdout)
    assert done.returncode == fields["exit_code"] == 2
    assert [one["result"] for one in fields["pins"]] == ["unreadable", "unreadable"]
    assert str(acf.name) in fields["pins"][0]["message"]
    assert fields["pins"][1]["message"].startswith("not a pin")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no pin there"),
        (["pins", "--gate", "article"], "choose strict or quick"),
        (["pins", "--runs", "100"], "--runs"),
        (["pins", "--device", "gpu0"], "--device"),
        (["pins", "--lock-clocks", "fast"], "--lock-clocks"),
        ([], "PINS"),
    ],
)
def test_wrong_input_ends_with_2(project: Path, arguments: list[str], said: str) -> None:
    done = helitune(project, "check", *arguments, extra=HIDDEN)
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.slow
def test_this_projects_pins_hold(tmp_path: Path) -> None:
    # what CI runs: the drift job on the pins of the examples
    done = helitune(
        EXAMPLES.parent, "check", "examples/pins", "--drift", "--json", "--junit", tmp_path / "junit.xml",
        cache=tmp_path,
    )  # fmt: skip
    fields = json.loads(done.stdout)
    assert (done.returncode, fields["mode"]) == (0, "drift"), done.stdout
    assert [one["result"] for one in fields["pins"]] == ["fine"] * len(fields["pins"])
    assert counts(tmp_path / "junit.xml") == {"tests": "2", "failures": "0", "errors": "0", "skipped": "0"}


@pytest.mark.slow
def test_a_compiler_that_makes_other_code_is_drift(project: Path) -> None:
    path = next((project / "pins" / "softmax" / "sm_90").glob("f16*.json"))
    fields = json.loads(path.read_text())
    fields["artifacts"][0][0]["registers"] = (
        40  # as another Triton would have it: the identity does not cover it
    )
    path.write_text(json.dumps(fields))
    done = check(project, "--drift")
    assert done.returncode == 1
    assert "registers 40 → 70" in done.stdout and "pin (registers 40 → 70)" in done.stdout
    assert not (project / ".helitune").exists()  # a check leaves nothing but what it is asked for
