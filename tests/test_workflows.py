"""The workflows of .github: what they run exists, and their shell scripts do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
HELITUNE = Path(sys.executable).parent / "helitune"


def workflow(name: str) -> dict[Any, Any]:
    loaded = yaml.safe_load((WORKFLOWS / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


REUSABLE = workflow("helitune-check.yml")
INPUTS = REUSABLE[True]["workflow_call"]["inputs"]  # YAML 1.1 reads the key `on` as true


def scripts() -> dict[str, str]:
    """The shell script of each step, by job and step."""
    return {
        f"{name} {step['name']}": step["run"]
        for name, job in REUSABLE["jobs"].items()
        for step in job["steps"]
        if "run" in step
    }


def check_script(job: str) -> str:
    (found,) = [text for name, text in scripts().items() if name.startswith(job) and " check " in text]
    return found


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.name)
def test_every_input_that_is_read_is_declared(path: Path) -> None:
    if path.name == "helitune-check.yml":
        assert set(re.findall(r"inputs\.([\w-]+)", path.read_text())) == set(INPUTS)
    for job in workflow(path.name)["jobs"].values():
        if str(job.get("uses", "")).endswith("helitune-check.yml"):
            assert set(job["with"]) <= set(INPUTS)


def test_every_input_has_a_description_and_a_default_of_its_type() -> None:
    kinds = {"string": str, "boolean": bool}
    for name, declared in INPUTS.items():
        assert declared["description"] and isinstance(declared["default"], kinds[declared["type"]]), name


def test_the_job_of_this_project_checks_pins_that_are_there() -> None:
    given = workflow("ci.yml")["jobs"]["pins"]["with"]
    assert list((ROOT / given["pins"]).glob("*/*/*.json"))
    assert (ROOT / given["source"] / "softmax.py").is_file()


def test_options_of_the_commands_exist() -> None:
    known = subprocess.run([HELITUNE, "check", "--help"], capture_output=True, text=True, check=True).stdout
    for job in ("drift", "measure"):
        (command,) = re.findall(r"helitune\" check .*?\|\|", check_script(job), re.DOTALL)
        options = re.findall(r"--[a-z-]+", command)
        assert options and all(f"{option} " in known or f"{option}\n" in known for option in options)


@pytest.mark.parametrize("job", ["drift", "measure"])
@pytest.mark.parametrize(
    ("code", "environment_fails", "expected"),
    [(0, "true", 0), (1, "false", 1), (3, "true", 3), (3, "false", 0), (2, "false", 2)],
)
def test_the_job_ends_as_the_check_does(
    tmp_path: Path, job: str, code: int, environment_fails: str, expected: int
) -> None:
    command = tmp_path / "helitune" / "bin" / "helitune"
    command.parent.mkdir(parents=True)
    # stands for helitune: it keeps its arguments, writes the Markdown that it is asked for, and ends with `code`
    command.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > arguments\nmkdir -p check\n'
        'while [ $# -gt 0 ]; do [ "$1" = --markdown ] && echo "### report" > "$2"; shift; done\n'
        f"exit {code}\n"
    )
    command.chmod(0o755)
    script = check_script(job).replace("${{ inputs.environment-fails }}", environment_fails)
    assert "${{" not in script, "what users give reaches the shell through variables only"
    environment = {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    environment |= {"PINS": "pins more/pins", "SOURCE": "my kernels", "GPU_ARGS": "--runs 3"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == expected, done.stderr
    assert (tmp_path / "summary").read_text() == "### report\n"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:3] == ["check", "pins", "more/pins"] and "my kernels" in arguments
    assert ("--runs" in arguments) == (job == "measure")
