"""The winners of a run for a pack.

They are the trials that `validate` judged, or, where it judged none, the best by the ranking. run.json keeps the
judgements under `verdicts`: a list of Verdict.to_record() with `trial`, the trial's id, and `shape`, its index.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from helitune.acfs.errors import InputError, NegativeVerdict
from helitune.objectives.json_fields import items, text

from .pack_evidence import COMPILED, Entry, NotAccepted, Winner, judged
from .pin import PinnedAcf
from .pin_choice import acf_content, choose_trial
from .pin_forms import shown_shapes
from .ranking import no_ops
from .run_directory import RunDirectory
from .trial import Trial
from .workload_json import workload_from_json


def run_winners(run: RunDirectory, allow: Set[str]) -> Iterator[Winner | NotAccepted]:
    """Each winner of the run, accepted or not. Raises InputError for a broken run."""
    fields, trials = run.run(), run.trials()
    verdicts = _verdicts(fields, str(run.path / "run.json"))
    if not verdicts:
        yield _of_ranking(run, fields, trials, allow)
    for trial_id, evidence in verdicts.items():
        trial = next((trial for trial in trials if trial.id == trial_id), None)
        if trial is None:
            yield NotAccepted(str(run.path), f"there is no trial {trial_id}")
        else:
            yield _of_trial(run, fields, trial, evidence, allow)


def _of_ranking(
    run: RunDirectory, fields: dict[str, Any], trials: list[Trial], allow: Set[str]
) -> Winner | NotAccepted:
    """The best of a run that was not validated."""
    try:
        best = choose_trial(run, trials, None)
    except NegativeVerdict as negative:
        return NotAccepted(str(run.path), " ".join(negative.what.split()))
    if best.id in no_ops(trials):
        return NotAccepted(str(run.path), f"the ACF of trial {best.number} changes no instruction (NO_OP)")
    if fields["evidence"] != COMPILED:
        return NotAccepted(str(run.path), f"trial {best.number} is not validated: helitune validate {run.id}")
    return _of_trial(run, fields, best, COMPILED, allow)


def _of_trial(
    run: RunDirectory, fields: dict[str, Any], trial: Trial, evidence: object, allow: Set[str]
) -> Winner | NotAccepted:
    source = f"{run.path}, trial {trial.number}"
    if not trial.acf_sha256:
        return NotAccepted(source, "the trial has no ACF")
    record = workload_from_json(fields["workload"])
    entry = Entry(
        source=source,
        kernel=record.kernel,
        source_sha256=record.source_sha256,
        reference=record.reference,
        gpu=fields["fingerprint"]["arch"],
        shapes=tuple(shown_shapes(record.shapes)),
        config=trial.config,
        fingerprint=fields["fingerprint"],
        run={"id": run.id, "created": fields["created"], "trial": trial.id, "number": trial.number},
        evidence=evidence,
    )
    ptxas = fields["fingerprint"]["ptxas"]["version"]
    acf = PinnedAcf(sha256=trial.acf_sha256, name=trial.acf_name, toolkit="", ptxas=ptxas)
    return judged(entry, allow, content=acf_content(run, acf), ptxas=ptxas)


def _verdicts(fields: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The evidence of each judged trial, by its id; InputError for records that are none."""
    by_trial: dict[str, list[dict[str, Any]]] = {}
    try:
        for record in items(fields, "verdicts") if "verdicts" in fields else []:
            by_trial.setdefault(text(record, "trial"), []).append(record)
        return {
            trial: {"kind": "measured", "status": text(records[0], "status"), "verdicts": records}
            for trial, records in by_trial.items()
        }
    except ValueError as error:
        what = f"the run's verdicts cannot be read: {error}"
        raise InputError(what, where=where, next_step="validate the run again") from error
