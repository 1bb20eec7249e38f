"""A run as the CSV that CompileIQ dumps, for its own tools: SearchResult.from_csv reads it.

Columns: metadata (the trial's number and outcome), generation (from 0), score_1 ("*" for a failed candidate) and
params, JSON: the ACF as a hex string, or where configs are searched too [config, hex]. One line a proposal.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from helitune.acfs.content import SUFFIX
from helitune.acfs.paths import atomic_write
from helitune.objectives.outcomes import Failed

from .bred_acfs import bred_entries
from .run_directory import RunDirectory
from .trial import Trial

COLUMNS = ("metadata", "generation", "score_1", "params")
FILE_NAME = "compileiq.csv"
FAILED = "*"


def write_csv(run: RunDirectory, trials: Sequence[Trial], *, with_config: bool) -> None:
    """Put FILE_NAME into the run's folder; raises MachineError where it cannot be written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(run, trials, with_config))
    atomic_write(run.path / FILE_NAME, text.getvalue().encode())


def _rows(
    run: RunDirectory, trials: Sequence[Trial], with_config: bool
) -> Iterator[tuple[str, int, Any, str]]:
    by_acf: dict[str, list[Trial]] = {}
    for trial in trials:
        by_acf.setdefault(trial.acf_sha256, []).append(trial)
    for entry in bred_entries(run.run()):
        controls = (run.acfs / f"{entry['sha256']}{SUFFIX}").read_bytes().hex()
        for trial in by_acf.get(entry["sha256"], ()):
            score = FAILED if trial.score is None else trial.score
            params = [trial.config, controls] if with_config else controls
            yield _metadata(trial), entry["generation"], score, json.dumps(params)


def _metadata(trial: Trial) -> str:
    outcome = trial.outcome
    return f"trial {trial.number}" + (f", failed at {outcome.stage}" if isinstance(outcome, Failed) else "")
