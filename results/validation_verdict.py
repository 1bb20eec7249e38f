"""What a validation decides of its finalists, from the measured rounds alone: look by look, by one of the gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helitune.objectives.outcomes import Failed

from .article_gate import decide_article
from .blocks import Evidence
from .noise_floor import NoiseFloor
from .strict_gate import decide_family
from .thresholds import Thresholds
from .validation_evidence import (
    Pairing,
    evidence,
    fewest_rounds,
    geometric,
    over_own,
    over_plain,
    series,
)
from .validation_record import Contestant, Validation
from .verdict import Numbers, Reason, Status, Verdict

_SPOILS_ALL = (Status.SLOWER, Status.UNSTABLE, Status.UNDECIDED)
"""A status of one shape that is the status of the whole, whatever the geometric mean says."""

_SEVEREST_FIRST = (*_SPOILS_ALL, Status.NO_OP, Status.SAME, Status.AMBIGUOUS, Status.FASTER)

_REASONS = {"wrong_output": Reason.WRONG_OUTPUT, "flaky_output": Reason.WRONG_OUTPUT, "drift": Reason.DRIFT}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is decided of one finalist.

    `shapes` has a verdict for each shape against the kernel's own config, `geometric` one over all shapes where
    there are several. `over_plain` has one for each shape against the best config without an ACF: what the ACF
    adds; empty where that is the own config or the finalist itself. `failed` says what it failed at.
    """

    finalist: Contestant
    shapes: tuple[Verdict, ...]
    geometric: Verdict | None = None
    over_plain: tuple[Verdict, ...] = ()
    failed: Failed | None = None

    @property
    def whole(self) -> Verdict:
        """The verdict on the finalist: of its shape, else over all shapes, unless one of them spoils it."""
        spoiling = [verdict for verdict in self.shapes if verdict.status in _SPOILS_ALL]
        if self.geometric is not None and not spoiling:
            return self.geometric
        return min(spoiling or self.shapes, key=lambda verdict: _SEVEREST_FIRST.index(verdict.status))

    @property
    def open(self) -> bool:
        """Whether a preplanned look is left that may still decide."""
        verdicts = [*self.shapes, *([self.geometric] if self.geometric else [])]
        return self.failed is None and any(is_open(verdict) for verdict in verdicts)


def is_open(verdict: Verdict) -> bool:
    """Whether more rounds may change the verdict."""
    return verdict.status is Status.AMBIGUOUS and verdict.next_rounds is not None


def judge(validation: Validation, thresholds: Thresholds | None = None) -> list[Finding]:
    """The findings on all finalists, in the order of the record.

    `thresholds` are by default those that the validation was made with. The looks are gone through from the
    first, whatever the record says was decided: the file alone gives the same verdicts.
    """
    by = thresholds or validation.head.thresholds
    verdicts = _article(validation, by) if by.gate == "article" else _strict(validation, by)
    beside_plain = {} if by.gate == "article" else _over_plain(validation, by)
    shapes = range(len(validation.head.shapes))
    found = []
    for one in validation.head.finalists:
        failed = validation.failed.get(one.trial)
        if failed is not None:
            reason = _REASONS.get(failed.stage, Reason.FAILED)
            verdict = Verdict(Status.UNDECIDED, reason, by.gate, Numbers(runs=len(validation.runs)))
            found.append(Finding(one, (verdict,) * len(shapes), failed=failed))
            continue
        found.append(
            Finding(
                one,
                tuple(verdicts[one.trial, shape] for shape in shapes),
                geometric=verdicts.get((one.trial, None)),
                over_plain=beside_plain.get(one.trial, ()),
            )
        )
    return found


Key = tuple[str, int | None]
"""A finalist on a shape; None stands for all shapes together."""


def _strict(validation: Validation, by: Thresholds) -> dict[Key, Verdict]:
    shapes = range(len(validation.head.shapes))
    pairings = {one.trial: over_own(validation, one) for one in validation.head.finalists}
    reached = {trial: fewest_rounds(validation, pairing) for trial, pairing in pairings.items()}
    verdicts: dict[Key, Verdict] = {}
    for look, rounds in enumerate(by.looks):
        going_on = [
            trial
            for trial in pairings
            if look == 0 or (reached[trial] >= rounds and _any_open(verdicts, trial))
        ]
        if not going_on:
            break
        # all stay in the family, also those that are settled: leaving them out would loosen the level
        family: dict[Key, Evidence] = {}
        for trial, pairing in pairings.items():
            each = [
                evidence(validation, pairing, shape, rounds=rounds, least=by.min_samples) for shape in shapes
            ]
            family |= {(trial, shape): one for shape, one in zip(shapes, each, strict=True)}
            if len(each) > 1:
                family[trial, None] = geometric(each)
        decided = decide_family(list(family.values()), _floor(validation), by, look=look)
        for key, verdict in zip(family, decided, strict=True):
            if key[0] in going_on and (key not in verdicts or is_open(verdicts[key])):
                verdicts[key] = verdict
    return verdicts


def _any_open(verdicts: Mapping[Key, Verdict], trial: str) -> bool:
    return any(is_open(verdict) for key, verdict in verdicts.items() if key[0] == trial)


def _over_plain(validation: Validation, by: Thresholds) -> dict[str, tuple[Verdict, ...]]:
    """What each finalist adds to the best config without an ACF, judged once, at the last look that it reached."""
    shapes = range(len(validation.head.shapes))
    pairings = {
        one.trial: pairing
        for one in validation.head.finalists
        if one.trial not in validation.failed and (pairing := over_plain(validation, one)) is not None
    }
    plain = validation.head.plain
    if plain is None or plain.trial in validation.failed:
        return {}
    looks = {trial: _last_look(validation, pairing, by) for trial, pairing in pairings.items()}
    found: dict[str, tuple[Verdict, ...]] = {}
    for look in sorted(set(looks.values())):
        family = [
            evidence(validation, pairing, shape, rounds=by.looks[look], least=by.min_samples)
            for pairing in pairings.values()
            for shape in shapes
        ]
        decided = decide_family(family, _floor(validation), by, look=look)
        for place, trial in enumerate(pairings):
            if looks[trial] == look:
                found[trial] = tuple(decided[place * len(shapes) : (place + 1) * len(shapes)])
    return found


def _last_look(validation: Validation, pairing: Pairing, by: Thresholds) -> int:
    reached = fewest_rounds(validation, pairing)
    return max((look for look, rounds in enumerate(by.looks) if rounds <= reached), default=0)


def _article(validation: Validation, by: Thresholds) -> dict[Key, Verdict]:
    """The article's gate on the launches of the first look's rounds."""
    rounds = by.looks[0]
    verdicts: dict[Key, Verdict] = {}
    for one in validation.head.finalists:
        pairing = over_own(validation, one)
        enough = fewest_rounds(validation, pairing) >= rounds
        for shape in range(len(validation.head.shapes)):
            if enough:
                verdicts[one.trial, shape] = decide_article(series(validation, pairing, shape, rounds), by)
            else:
                numbers = Numbers(runs=len(validation.runs))
                verdicts[one.trial, shape] = Verdict(
                    Status.UNDECIDED, Reason.TOO_FEW_ROUNDS, "article", numbers
                )
    return verdicts


def _floor(validation: Validation) -> NoiseFloor | None:
    fields: Mapping[str, Any] = validation.head.floor
    return NoiseFloor(**fields) if fields else None
