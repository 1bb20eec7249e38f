"""The one config that ACFs are evolved for: from a file, from a run, or the kernel's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.search.candidate import canonical

from .evolution_request import OWN_CONFIG
from .ranking import rank
from .run_directory import RUNS, RunDirectory, find_run

BEST_CONFIG = "best"
_OPTION = "--config"
_MAX_BYTES = 4 << 20
_ACF_KEY = "advanced_controls_file"


@dataclass(frozen=True, slots=True)
class ChosenConfig:
    """A config as EvolutionRequest.config has it, and where it came from, for people."""

    config: str
    origin: str


def choose_config(text: str, folder: Path, file: Path, kernel: str | None) -> ChosenConfig:
    """What `--config TEXT` means: own, best (of the newest run of the kernel below `folder`), a JSON file, or a run.

    An ACF that the config names is left out: others are evolved for it. Raises InputError where there is no such
    config.
    """
    if text == OWN_CONFIG:
        return ChosenConfig(OWN_CONFIG, "the kernel's own config")
    if text == BEST_CONFIG:
        return _best_of(_newest_run(folder, file, kernel))
    try:
        is_file = Path(text).is_file()
    except (OSError, ValueError):
        is_file = False
    return _from_file(Path(text)) if is_file else _best_of(_named_run(folder, text))


def _from_file(path: Path) -> ChosenConfig:
    """The config in a file of helion.Config.save, or in a pin."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES >> 20} MiB")
        fields: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _no_config(f"cannot be read: {error}", str(path)) from error
    config = fields.get("config") if isinstance(fields, dict) and "identity" in fields else fields
    if not isinstance(config, dict) or not config:
        raise _no_config("holds no config", str(path))
    return ChosenConfig(canonical(_without_acf(config)), str(path.absolute()))


def _best_of(run: RunDirectory) -> ChosenConfig:
    ranking = rank(run.trials(), run.finals())
    if ranking.best is None:
        raise _no_config("has no candidate that came through", str(run.path))
    return ChosenConfig(
        canonical(_without_acf(ranking.best.config)), f"the best of run {run.id}, trial {ranking.best.number}"
    )


def _named_run(folder: Path, text: str) -> RunDirectory:
    try:
        return find_run(folder, text)
    except InputError as error:
        raise _no_config("is neither a JSON file nor a run", text[:80]) from error


def _newest_run(folder: Path, file: Path, kernel: str | None) -> RunDirectory:
    """The newest run that tuned the kernel file, and where one is named that kernel of it."""
    for path in sorted((folder / RUNS).glob("*/run.json"), reverse=True):
        run = RunDirectory(path.parent)
        try:
            fields = run.run()
            if Path(fields["request"]["file"]) == file and kernel in (None, fields["workload"]["kernel"]):
                return run
        except InputError:  # somebody broke it: then it is none to take a config from
            continue
    raise InputError(
        "no run of this kernel here",
        where=f"{_OPTION} {BEST_CONFIG}",
        next_step=f"tune it first, or take {_OPTION} own",
    )


def _without_acf(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != _ACF_KEY}


def _no_config(what: str, where: str) -> InputError:
    return InputError(
        f"{_OPTION}: {what}",
        where=where,
        next_step="give a file of helion.Config.save, a pin, a run, own or best",
    )
