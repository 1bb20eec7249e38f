"""Run the installed `helitune` as a user does: another folder, a pipe, a cache of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HELITUNE = Path(sys.executable).parent / "helitune"
KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"
EXAMPLES = Path(__file__).parents[2] / "examples"


def command(*arguments: str | Path) -> list[str]:
    """The command line of `helitune` with `arguments`."""
    # a GPU host may have the packages on PYTHONPATH alone, without the script
    script = [sys.executable, "-P", "-c", "from helitune.cli.main import run; run()"]
    return [*([str(HELITUNE)] if HELITUNE.exists() else script), *map(str, arguments)]


def environment(cache: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with a cache folder for the test."""
    return {**os.environ, "HELITUNE_CACHE_DIR": str(cache), **(extra or {})}


def helitune(
    folder: Path, *arguments: str | Path, cache: Path | None = None, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished command, run in `folder`."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(cache or folder / "cache", extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def start(folder: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    """A running `helitune` in `folder`."""
    return subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(folder / "cache"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
