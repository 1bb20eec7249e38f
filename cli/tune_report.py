"""What a finished `tune` prints on stdout: the ranking, why candidates failed, and the next step."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from helitune.acfs.errors import Interrupted, NegativeVerdict
from helitune.objectives.compiled_objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from helitune.objectives.outcomes import Compiled, Failed
from helitune.results.ranking import Ranking, at_memory_bound, failures, no_ops
from helitune.results.trial import Trial

from .measured_report import (
    evidence_lines,
    heading,
    print_finals,
    print_gpu_use,
    print_limits,
    row,
    shown_time,
)

if TYPE_CHECKING:
    from .pipeline import Tuned

EVIDENCE = (
    "evidence: compiled. It ranks candidates for this target; it is no run time, and no speedup is claimed."
)

NEXT = {"measured": "helitune validate", "compiled": "helitune pin -o pins/ --allow compiled"}
"""What comes after a run, by its evidence: a time of one process is to be confirmed before it is pinned."""

BLIND = "the model leaves out memory latency and tensor core rates: it cannot tell what pipelining (num_stages) gains"


def report_tuned(tuned: Tuned, *, json: bool) -> None:
    """Print how a run ended; raises Interrupted or NegativeVerdict where that is how."""
    fields = tuned.run.run()
    end = interruption(tuned) if tuned.interrupted else verdict(tuned.ranking, tuned.trials)
    if json:
        answer = summary(tuned.run.id, fields, tuned.trials, tuned.ranking)
        error = {"what": end.what, "where": end.where, "next_step": end.next_step} if end else None
        print(json_text.dumps({**answer, "error": error, "exit_code": end.exit_code if end else 0}))
    else:
        print_ranking(tuned.run.id, fields, tuned.trials, tuned.ranking)
    if end is not None:
        end.reported = True
        raise end
    if not json:
        print(f"next: {NEXT[fields['evidence']]}")


def interruption(tuned: Tuned) -> Interrupted:
    """The error of a run that was interrupted: what is kept, and how it goes on."""
    return Interrupted(
        f"interrupted; {len(tuned.trials)} trials are kept",
        where=str(tuned.run.path),
        next_step=f"go on with: helitune tune --resume {tuned.run.id}",
    )


def verdict(ranking: Ranking, trials: list[Trial]) -> NegativeVerdict | None:
    """None where something ranks above the kernel's own config, else the verdict that says why not."""
    if ranking.best is None:
        kinds = failures(trials)
        why = f"most often {kinds[0].stage}: {kinds[0].message}" if kinds else "nothing was tried"
        return NegativeVerdict(
            f"none of {len(trials)} candidates came through; {why}",
            where="tune",
            next_step="see the failures above, and try --set, --compile-timeout or another --target",
        )
    if ranking.improved:
        return None
    next_step = "keep the kernel's own config, or search more: --resume '' --budget N goes on with this run"
    if ranking.own is not None and ranking.own.measured is None and at_memory_bound(ranking.own):
        next_step = (
            "the own config is charged what the workload's bytes cost and no more, so nothing can rank "
            "above it: only a measurement on a GPU can tell candidates apart"
        )
    return NegativeVerdict(
        f"nothing of {len(trials)} candidates ranks above the kernel's own config",
        where="tune",
        next_step=next_step,
    )


def print_ranking(run_id: str, fields: dict[str, Any], trials: list[Trial], ranking: Ranking) -> None:
    """Print the ranking of a run as text."""
    objective = fields["request"]["objective"]
    measured = fields["evidence"] == "measured"
    print(f"run {run_id} for {fields['fingerprint']['arch']}: {counts(trials)}; {fields['status']}")
    for line in evidence_lines(fields) if measured else _compiled_evidence(objective):
        print(line)
    print(heading() if measured else _heading(objective))
    for label, trial in _rows(ranking):
        print(_row(label, trial))
    _print_best(ranking)
    if measured:
        print_limits(fields, ranking)
        print_finals(fields, trials)
        print_gpu_use(fields, trials)
    print_failures(trials)
    _print_notes(trials, ranking)


def _compiled_evidence(objective: str) -> list[str]:
    return [EVIDENCE, BLIND] if objective == DEFAULT_OBJECTIVE else [EVIDENCE]


def _rows(ranking: Ranking) -> list[tuple[str, Trial]]:
    named = [("own", ranking.own), ("best, no ACF", ranking.without_acf), ("best", ranking.best)]
    return [(label, trial) for label, trial in named if trial is not None]


def _heading(objective: str) -> str:
    unit = OBJECTIVES[objective].unit
    measured = f"{objective} ({unit})"
    # several shapes stand beside one another; the score is their geometric mean
    return f"  {'':13} {'trial':>5} {measured:>24} {'registers':>9} {'spill B':>8} {'shared B':>9}  ACF"


def _row(label: str, trial: Trial) -> str:
    if trial.measured is not None:
        return row(label, trial, trial.measured)
    compiled = trial.compiled
    if compiled is None:
        return f"  {label:13} {trial.number:>5} failed at {trial.outcome.stage}: {trial.outcome.message}"  # type: ignore[union-attr]
    first = compiled.artifacts[0]
    return (
        f"  {label:13} {trial.number:>5} {shown_values(compiled):>24} "
        f"{max(a.registers for a in first):>9} {sum(a.spill_bytes for a in first):>8} "
        f"{max(a.shared_bytes for a in first):>9}  {trial.acf_name or 'none'}"
    )


def counts(trials: list[Trial]) -> str:
    """How many trials there are of which kind: "2 baselines, 60 candidates, 1 invalid config"."""
    baselines = sum(t.origin.startswith("baseline") for t in trials)
    invalid = sum(isinstance(t.outcome, Failed) and t.outcome.stage == "invalid_config" for t in trials)
    return (
        f"{baselines} baseline(s), {len(trials) - baselines - invalid} candidates, "
        f"{invalid} invalid config(s) beside the budget"
    )


def _print_best(ranking: Ranking) -> None:
    if ranking.best is None:
        return
    own = ranking.own.config if ranking.own else {}
    changed = {k: v for k, v in ranking.best.config.items() if own.get(k, _ABSENT) != v}
    print(f"best config, where it differs from own: {shown_config(changed) if changed else 'nowhere'}")
    if ranking.ties:
        print(
            f"{len(ranking.ties)} other candidate(s) score the same: ties go to the own config, then to no ACF, "
            "then to the lower model score"
        )
    if ranking.best.measured is None and at_memory_bound(ranking.best):
        print("the best is charged what the workload's bytes cost and no more: nothing can rank above it")


_ABSENT = object()


def print_failures(trials: list[Trial]) -> None:
    """Print how many candidates failed at which stage, most frequent first, with what the first one said."""
    kinds = failures(trials)
    if not kinds:
        return
    print(
        f"failed: {sum(kind.count for kind in kinds)} of {len(trials)}, by kind with the first message of each"
    )
    for kind in kinds[:SHOWN_KINDS]:
        print(f"  {kind.count:>4} {kind.stage:16} {kind.message}")
    if len(kinds) > SHOWN_KINDS:
        print(f"  … and {len(kinds) - SHOWN_KINDS} kinds more: see trials.jsonl")


SHOWN_KINDS = 8
"""Kinds of failures that a report lists."""


def _print_notes(trials: list[Trial], ranking: Ranking) -> None:
    unchanged = no_ops(trials)
    if unchanged:
        print(f"NO_OP: {len(unchanged)} candidate(s) whose ACF changes no instruction")
    lines = sorted({line for t in trials if t is ranking.best for line in _underived(t)})
    if lines:
        print(
            f"note: loops at line(s) {lines} of the generated kernel depend on data: counted as one iteration"
        )


def _underived(trial: Trial) -> list[int]:
    compiled = trial.compiled
    return [line for shape in compiled.artifacts for a in shape for line in a.underived] if compiled else []


def summary(run_id: str, fields: dict[str, Any], trials: list[Trial], ranking: Ranking) -> dict[str, Any]:
    """The ranking of a run in JSON's types."""
    return {
        "run": run_id,
        "status": fields["status"],
        "evidence": fields["evidence"],
        "objective": fields["request"]["objective"],
        "target": fields["fingerprint"]["arch"],
        "trials": len(trials),
        "improved": ranking.improved,
        **{label.replace(", no ", "_without_").lower(): t.to_json() for label, t in _rows(ranking)},
        "ties": [t.id for t in ranking.ties],
        "no_ops": sorted(no_ops(trials)),
        "failures": [asdict(kind) for kind in failures(trials)],
    }


def shown_config(config: dict[str, Any]) -> str:
    """A config on one line, as `block_sizes=[1] num_warps=8`."""
    return " ".join(f"{k}={json_text.dumps(v, separators=(',', ':'))}" for k, v in config.items())


def shown_value(trial: Trial, objective: str) -> str:
    """What the search minimises with its unit, one number a shape, of a trial that came through."""
    if trial.measured is not None:
        return shown_time(trial.measured)
    return f"{shown_values(trial.compiled)} {OBJECTIVES[objective].unit}" if trial.compiled else "failed"


def shown_values(compiled: Compiled) -> str:
    """The objective's values, one a shape: "6,927 / 3,461"."""
    return " / ".join(map(shown_number, compiled.values))


def shown_number(value: float) -> str:
    """A number with at most six digits that matter and thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
