"""What a finished `tune` prints on stdout: the ranking, why candidates failed, and the next step."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Any

from helitune.acfs.errors import Interrupted, NegativeVerdict
from helitune.objectives.compiled_objectives import OBJECTIVES
from helitune.objectives.outcomes import Compiled
from helitune.results.ranking import Ranking, failures, no_ops
from helitune.results.trial import Trial

if TYPE_CHECKING:
    from .pipeline import Tuned

EVIDENCE = (
    "evidence: compiled. It ranks candidates for this target; it is no run time, and no speedup is claimed."
)


def report_tuned(tuned: Tuned, *, json: bool) -> None:
    """Print how a run ended; raises Interrupted or NegativeVerdict where that is how."""
    fields = tuned.run.run()
    if json:
        print(json_text.dumps(summary(tuned.run.id, fields, tuned.trials, tuned.ranking)))
    else:
        print_ranking(tuned.run.id, fields, tuned.trials, tuned.ranking)
    if tuned.interrupted:
        raise Interrupted(
            f"interrupted; {len(tuned.trials)} trials are kept",
            where=str(tuned.run.path),
            next_step=f"go on with: helitune tune --resume {tuned.run.id}",
        )
    require_improvement(tuned.ranking, tuned.trials)
    if not json:
        print("next: helitune pin -o pins/")


def require_improvement(ranking: Ranking, trials: list[Trial]) -> None:
    """Raise NegativeVerdict where nothing ranks above the kernel's own config, saying why."""
    if ranking.best is None:
        reasons = failures(trials).most_common(1)
        stage, message = reasons[0][0] if reasons else ("", "nothing was tried")
        raise NegativeVerdict(
            f"none of {len(trials)} candidates compiled; most often {stage}: {message}",
            where="tune",
            next_step="see the failures above, and try --set, --compile-timeout or another --target",
        )
    if not ranking.improved:
        raise NegativeVerdict(
            f"nothing of {len(trials)} candidates ranks above the kernel's own config",
            where="tune",
            next_step="keep the kernel's own config, or search more with --budget or another --strategy",
        )


def print_ranking(run_id: str, fields: dict[str, Any], trials: list[Trial], ranking: Ranking) -> None:
    """Print the ranking of a run as text."""
    objective = fields["request"]["objective"]
    print(f"run {run_id}: {len(trials)} candidates for {fields['fingerprint']['arch']}, {fields['status']}")
    print(EVIDENCE)
    print(_heading(objective))
    for label, trial in _rows(ranking):
        print(_row(label, trial, objective))
    _print_best(ranking)
    print_failures(trials)
    _print_notes(trials, ranking)


def _rows(ranking: Ranking) -> list[tuple[str, Trial]]:
    named = [("own", ranking.own), ("best, no ACF", ranking.without_acf), ("best", ranking.best)]
    return [(label, trial) for label, trial in named if trial is not None]


def _heading(objective: str) -> str:
    unit = OBJECTIVES[objective].unit
    measured = f"{objective} ({unit})"
    return f"  {'':13} {'trial':>5} {measured:>24} {'registers':>9} {'spill B':>8} {'shared B':>9}  ACF"


def _row(label: str, trial: Trial, objective: str) -> str:
    compiled = trial.compiled
    if compiled is None:
        return f"  {label:13} {trial.number:>5} failed at {trial.outcome.stage}: {trial.outcome.message}"  # type: ignore[union-attr]
    first = compiled.artifacts[0]
    return (
        f"  {label:13} {trial.number:>5} {shown_number(_mean(compiled)):>24} "
        f"{max(a.registers for a in first):>9} {sum(a.spill_bytes for a in first):>8} "
        f"{max(a.shared_bytes for a in first):>9}  {trial.acf_name or 'none'}"
    )


def _print_best(ranking: Ranking) -> None:
    if ranking.best is None:
        return
    own = ranking.own.config if ranking.own else {}
    changed = {k: v for k, v in ranking.best.config.items() if own.get(k, _ABSENT) != v}
    print(f"best config, where it differs from own: {shown_config(changed) if changed else 'nowhere'}")
    if ranking.ties:
        print(
            f"{len(ranking.ties)} other candidate(s) score the same; ties go to fewer issue cycles, then no ACF"
        )


_ABSENT = object()


def print_failures(trials: list[Trial]) -> None:
    """Print how many candidates failed at which stage and why, most frequent first."""
    counted = failures(trials)
    if not counted:
        return
    print(f"failed: {sum(counted.values())} of {len(trials)}")
    for (stage, message), count in counted.most_common(8):
        print(f"  {count:>4} {stage:16} {message}")
    if len(counted) > 8:
        print(f"  … and {len(counted) - 8} kinds more: see trials.jsonl")


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
        "failures": [
            {"stage": stage, "message": message, "count": count}
            for (stage, message), count in failures(trials).most_common()
        ],
    }


def shown_config(config: dict[str, Any]) -> str:
    """A config on one line, as `block_sizes=[1] num_warps=8`."""
    return " ".join(f"{k}={json_text.dumps(v, separators=(',', ':'))}" for k, v in config.items())


def shown_value(compiled: Compiled, objective: str) -> str:
    """The objective's value with its unit; several shapes by their mean."""
    return f"{shown_number(_mean(compiled))} {OBJECTIVES[objective].unit}"


def shown_number(value: float) -> str:
    """A number with at most six digits that matter and thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def _mean(compiled: Compiled) -> float:
    return sum(compiled.values) / len(compiled.values)
