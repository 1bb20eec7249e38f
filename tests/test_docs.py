"""The command reference is what `--help` says, and every command is documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HELITUNE = Path(sys.executable).parent / "helitune"


def help_text(*command: str) -> str:
    """What `helitune COMMAND --help` prints at 100 columns."""
    ended = subprocess.run(
        [str(HELITUNE), *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"},
    )
    return "\n".join(line.rstrip() for line in ended.stdout.strip().splitlines())


def command_names(*group: str) -> list[tuple[str, ...]]:
    """All commands below a group, each followed by its own."""
    _, _, listed = help_text(*group).partition("Commands:")
    names = [(*group, line.split()[0]) for line in listed.splitlines() if line.strip()]
    return [found for name in names for found in (name, *command_names(*name))]


def reference() -> str:
    """docs/cli.md, made from the help texts."""
    parts = ["# Commands", "", "Made from `--help`; `make docs` makes it again.", ""]
    for name in [(), *command_names()]:
        parts += [f"## helitune {' '.join(name)}".rstrip(), "", "```", help_text(*name), "```", ""]
    return "\n".join(parts)


def test_the_command_reference_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference(), "run: make docs"


def test_options_are_spelled_in_small_letters() -> None:
    assert not re.findall(r"--[A-Z]\w*", reference())


def test_the_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in (command for command, *below in command_names() if not below):
        assert f"helitune {name}" in readme


if __name__ == "__main__":
    (ROOT / "docs" / "cli.md").write_text(reference())
