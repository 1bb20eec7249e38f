"""Which trial of a run may be pinned, and what the pin says of how that is known.

A measured run is pinned where `validate` called a finalist FASTER. Anything less is pinned only where it is allowed
by name, and says so in the pin.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from helitune.acfs.errors import InputError, NegativeVerdict

from .pack_evidence import ALLOWABLE
from .pin_choice import COMPILED, choose_trial, require_agreement
from .run_directory import RunDirectory
from .run_verdicts import Whole, read_verdicts, read_wholes
from .trial import Trial
from .verdict import Status

AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class PinEvidence:
    """What a pin says of its evidence: `status` is "compiled" or a verdict's; `record` has the verdict's numbers.

    The record is what results/pack_evidence.py reads; None for a pin that was only compiled.
    """

    status: str
    record: dict[str, Any] | None = None


COMPILED_ONLY = PinEvidence(COMPILED)


def require_allowable(allow: Set[str]) -> None:
    """Raise InputError for a name that nothing can be allowed by."""
    if not allow <= ALLOWABLE.keys():
        what = f"unknown status {min(allow - ALLOWABLE.keys())!r}"
        raise InputError(what, where="--allow", next_step=f"choose from {', '.join(ALLOWABLE)}")


def trial_to_pin(
    run: RunDirectory, trials: list[Trial], asked: Trial | None, allow: Set[str]
) -> tuple[Trial, PinEvidence]:
    """The trial to pin, `asked` or the best, with its evidence; `allow` holds names of ALLOWABLE.

    Raises NegativeVerdict, with the reason and the next step, where nothing may be pinned, and what choose_trial
    raises.
    """
    fields = run.run()
    if fields["evidence"] == COMPILED:
        chosen = choose_trial(run, trials, asked)
        if COMPILED not in allow:
            raise NegativeVerdict(
                "the run was only compiled: no run time was taken, and the ranking is a model's",
                where=str(run.path),
                next_step="tune and validate it on a GPU, or pin it with that mark: --allow compiled",
            )
        return chosen, COMPILED_ONLY
    require_agreement(run)
    whole = _validated(run, fields, asked, allow)
    trial = next((trial for trial in trials if trial.id == whole.trial), None)
    if trial is None or trial.compiled is None:
        raise InputError(
            f"the run has no trial {whole.trial}, which was validated",
            where=str(run.path),
            next_step="validate the run again",
        )
    return trial, PinEvidence(whole.verdict.status.value, _record(run, fields, whole))


def best_faster(wholes: Sequence[Whole]) -> Whole | None:
    """The FASTER finalist with the highest lower bound.

    One with an ACF only where, on some shape, it is FASTER than the best without an ACF too, or that one is not
    FASTER itself: an ACF, and the ptxas that it needs, are for what a config alone does not give.
    """
    faster = sorted(
        (one for one in wholes if one.verdict.accepted),
        key=lambda one: (_lower_bound(one), not one.acf, -one.number),
        reverse=True,
    )
    plain = next((one for one in faster if not one.acf), None)
    for one in faster:
        if plain is None or not one.acf or not one.over_plain or Status.FASTER.value in one.over_plain:
            return one
    return plain


def _validated(run: RunDirectory, fields: dict[str, Any], asked: Trial | None, allow: Set[str]) -> Whole:
    """The finalist to pin; NegativeVerdict where none may be."""
    wholes = read_wholes(fields, str(run.path / "run.json"))
    if asked is not None:
        wholes = [one for one in wholes if one.trial == asked.id]
    if not wholes:
        what = f"trial {asked.number} is" if asked is not None else "the run is"
        trial = f" --trial {asked.number}" if asked is not None else ""
        raise NegativeVerdict(
            f"{what} not validated: times of one process are no evidence that it is faster",
            where=str(run.path),
            next_step=f"helitune validate {run.id}{trial}",
        )
    faster = best_faster(wholes)
    if faster is not None:
        return faster
    ambiguous = [
        one
        for one in wholes
        if one.verdict.status is Status.AMBIGUOUS and (one.verdict.numbers.speedup or 0.0) > 1.0
    ]
    if ambiguous and AMBIGUOUS in allow:
        return max(ambiguous, key=lambda one: one.verdict.numbers.speedup or 0.0)
    raise NegativeVerdict(
        f"nothing to pin: {_why_not(wholes)}",
        where=str(run.path),
        next_step=_next_step(run, ambiguous),
    )


def _why_not(wholes: Sequence[Whole]) -> str:
    """ "no finalist is FASTER: trial 12 is AMBIGUOUS (interval_crosses_floor), …"."""
    each = [f"trial {one.number} is {one.verdict.status} ({one.verdict.reason})" for one in wholes[:4]]
    more = [f"and {len(wholes) - 4} more"] if len(wholes) > 4 else []
    return f"no finalist is FASTER: {', '.join([*each, *more])}"


def _next_step(run: RunDirectory, ambiguous: Sequence[Whole]) -> str:
    if not ambiguous:
        return "keep the kernel's own config, or search more: helitune tune --resume '' --budget N"
    needed = [one.verdict.runs_needed for one in ambiguous if one.verdict.runs_needed is not None]
    runs = f" --runs {min(needed)}" if needed else ""
    return f"helitune validate {run.id}{runs}, or pin it with that mark: --allow ambiguous"


def _lower_bound(whole: Whole) -> float:
    numbers = whole.verdict.numbers
    # the article's gate has no interval
    return numbers.low if numbers.low is not None else numbers.speedup or 0.0


def _record(run: RunDirectory, fields: dict[str, Any], whole: Whole) -> dict[str, Any]:
    """The pin's evidence: the verdict on the whole, those on its shapes, and how they came to be."""
    validation = fields["validation"]
    shapes = [
        record
        for record in read_verdicts(fields, str(run.path / "run.json"))
        if record["trial"] == whole.trial
    ]
    return {
        "kind": "measured",
        **whole.verdict.to_record(),
        "verdicts": shapes,
        "validated": {
            **{
                name: validation.get(name)
                for name in ("when", "number", "runs", "seed", "thresholds", "floor", "calibration")
            },
            # a check measures as the validation did
            **{name: fields["request"].get(name) for name in ("timing", "cache", "lock_clocks")},
        },
    }
