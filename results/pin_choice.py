"""Which trial of a run becomes a pin, and the pin it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helitune.acfs.content import MAX_ACF_BYTES, SUFFIX, digest, read_at_most
from helitune.acfs.errors import InputError, NegativeVerdict
from helitune.acfs.paths import cache_root
from helitune.objectives.artifact import Artifact
from helitune.objectives.check_result import CheckResult
from helitune.objectives.compiled_objectives import OBJECTIVES
from helitune.objectives.outcomes import Compiled, Failed

from .fingerprint import differences
from .pin import Pin, PinnedAcf
from .ranking import Ranking, failures, rank
from .run_directory import RunDirectory
from .trial import Trial
from .workload_json import workload_from_json

COMPILED = "compiled"
"""The evidence of a pin that no run time was taken of."""

CHANGED_NOTE = "the environment has changed since the run"
NO_OP_NOTE = "the trial's ACF changes no instruction (NO_OP): pinned without it"


def choose_trial(run: RunDirectory, trials: list[Trial], asked: Trial | None) -> Trial:
    """The trial to pin: `asked`, else the run's best.

    Raises NegativeVerdict where the kernel's source is not known to agree with its reference, where nothing
    compiled, and where the best does not rank above the kernel's own config; InputError for a failed `asked`
    and for a verdict that cannot be read.
    """
    require_agreement(run)
    if asked is not None:
        if isinstance(asked.outcome, Failed):
            raise InputError(
                f"trial {asked.number} failed at {asked.outcome.stage}: {asked.outcome.message}",
                where="--trial",
                next_step="choose one that compiled: helitune show",
            )
        return asked
    ranking = rank(trials)
    if ranking.best is None:
        kinds = failures(trials)
        reason = f"; most often {kinds[0].stage}: {kinds[0].message}" if kinds else ""
        raise NegativeVerdict(
            f"nothing to pin: none of {len(trials)} candidates compiled{reason}",
            where=str(run.path),
            next_step="see helitune show for the failures",
        )
    if not ranking.improved:
        raise NegativeVerdict(
            f"nothing to pin: none of {len(trials)} candidates ranks above the kernel's own config",
            where=str(run.path),
            next_step="keep the kernel's own config, search more, or name a trial with --trial",
        )
    return ranking.best


def require_agreement(run: RunDirectory) -> None:
    """None where the kernel's outputs agree with its reference; else NegativeVerdict or InputError."""
    check = run.run().get("check")
    if not isinstance(check, dict):
        raise NegativeVerdict(
            "the run has no verdict on whether the kernel's source agrees with its reference",
            where=str(run.path),
            next_step=f"finish it: helitune tune --resume {run.id}",
        )
    if check.get("agrees") is not True:
        raise NegativeVerdict(
            check.get("message") or "the kernel's source disagrees with the reference; no reason was kept",
            where=str(run.path),
            next_step="correct the kernel or its reference, and tune again",
        )
    try:
        CheckResult.from_json(check)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the run's verdict on the kernel's source is broken: {type(error).__name__} {error}",
            where=str(run.path / "run.json"),
            next_step="tune again",
        ) from error


def make_pin(
    run: RunDirectory,
    trials: list[Trial],
    trial: Trial,
    now: dict[str, Any],
    *,
    asked: bool,
    status: str = COMPILED,
    verdict: dict[str, Any] | None = None,
) -> Pin:
    """The pin of a trial that came through, in the environment `now` (a fingerprint).

    `status` is "compiled", or that of `verdict`, the record that results/pin_evidence.py makes of a validation.
    """
    fields, ranking = run.run(), rank(trials)
    record = workload_from_json(fields["workload"])
    compiled = trial.compiled
    assert compiled is not None
    return Pin(
        kernel=record.kernel,
        file=Path(record.file).name,
        source_sha256=record.source_sha256,
        gpu=fields["fingerprint"]["arch"],
        reference=record.reference,
        inputs=record.inputs,
        shapes=record.shapes,
        config=trial.config,
        acf=_pinned_acf(trial, fields["acfs"], now) if trial.acf_sha256 else None,
        evidence=status,
        verdict=verdict,
        objective=_with_own_code(
            _objective(fields["request"]["objective"], compiled, ranking)
            if verdict is None
            else _times(verdict),
            ranking,
        ),
        artifacts=[[_launch(artifact) for artifact in shape] for shape in compiled.artifacts],
        check=fields["check"],
        fingerprint=now,
        run={
            "id": run.id,
            "created": fields["created"],
            "trial": trial.id,
            "number": trial.number,
            "origin": trial.origin,
            "chosen": "--trial" if asked else "best",
        },
        notes=_notes(fields, trial, ranking, now, asked=asked),
    )


def acf_content(run: RunDirectory, acf: PinnedAcf) -> bytes:
    """The bytes of a trial's ACF, from the run's folder, else from the cache (the kernel's own ACF is there).

    Raises InputError where neither has it unaltered.
    """
    for folder in (run.acfs, cache_root() / "acfs"):
        try:
            content = read_at_most(folder / f"{acf.sha256}{SUFFIX}", MAX_ACF_BYTES)
        except OSError:
            continue
        if content is not None and digest(content) == acf.sha256:
            return content
    raise InputError(
        f"the run's ACF {acf.name} is missing or altered",
        where=str(run.acfs / f"{acf.sha256}{SUFFIX}"),
        next_step="restore the file, or tune again",
    )


def _pinned_acf(trial: Trial, listed: list[dict[str, Any]], now: dict[str, Any]) -> PinnedAcf:
    toolkit = next((entry["toolkit"] for entry in listed if entry["sha256"] == trial.acf_sha256), "")
    return PinnedAcf(
        sha256=trial.acf_sha256, name=trial.acf_name, toolkit=toolkit, ptxas=now["ptxas"]["version"]
    )


def _objective(name: str, compiled: Compiled, ranking: Ranking) -> dict[str, Any]:
    own = ranking.own.compiled if ranking.own else None
    return {
        "name": name,
        "unit": OBJECTIVES[name].unit,
        "lower_is_better": OBJECTIVES[name].lower_is_better,
        "pin": {"score": compiled.score, "values": list(compiled.values)},
        "own": {"score": own.score, "values": list(own.values)} if own else None,
    }


def _times(verdict: dict[str, Any]) -> dict[str, Any]:
    """The times of the validation, in microseconds."""
    speedup, shapes = verdict["speedup"], verdict["verdicts"]
    return {
        "name": "time",
        "unit": "us",
        "lower_is_better": True,
        "pin": {
            "score": None if speedup is None else 1 / speedup,
            "values": [1e3 * shape["ms"] for shape in shapes],
        },
        "own": {"score": 1.0, "values": [1e3 * shape["base_ms"] for shape in shapes]},
    }


def _with_own_code(objective: dict[str, Any], ranking: Ranking) -> dict[str, Any]:
    """The objective with what the own config compiled to, so that a check can tell when the baseline has moved."""
    compiled = ranking.own.compiled if ranking.own else None
    if objective["own"] is None or compiled is None:
        return objective
    launches = [[_launch(artifact) for artifact in shape] for shape in compiled.artifacts]
    return {**objective, "own": {**objective["own"], "artifacts": launches}}


def _launch(artifact: Artifact) -> dict[str, Any]:
    return {
        "code_sha256": artifact.code_sha256,
        "ptx_sha256": artifact.ptx_sha256,
        "grid": list(artifact.grid),
        "num_warps": artifact.num_warps,
        "registers": artifact.registers,
        "spill_bytes": artifact.spill_bytes,
        "shared_bytes": artifact.shared_bytes,
    }


def _notes(
    fields: dict[str, Any], trial: Trial, ranking: Ranking, now: dict[str, Any], *, asked: bool
) -> tuple[str, ...]:
    notes = []
    if not str(fields["status"]).startswith("done"):
        notes.append(f"the run is not finished ({fields['status']}): this is of what it has so far")
    if asked:
        notes.append(f"trial {trial.number} was named by --trial")
        own = ranking.own.compiled if ranking.own else None
        if trial.measured is None and own and trial.compiled and trial.compiled.score >= own.score:
            notes.append("it does not rank above the kernel's own config")
    changed = differences(fields["fingerprint"], now)
    if changed:
        notes.append(f"{CHANGED_NOTE}: {', '.join(changed)}")
    return tuple(notes)
