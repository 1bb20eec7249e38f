"""A pin measured beside the kernel's own config and beside its own config without the ACF.

It is a validation of its own (results/validate_run.py) whose finalists are the pin and its config without the ACF:
new processes, everything compiled anew, outputs checked and soaked before anything is timed. What was recorded
when the pin was made is not looked at.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helitune.objectives.outcomes import Compiled
from helitune.search.args import format_shape
from helitune.search.candidate import Candidate

from .calibration import Calibration
from .check_times import ShapeTimes, Times
from .drift import Recompiled
from .finding_record import validation_record, verdict_records
from .pin import Pin
from .request import TuneRequest
from .run_directory import RunDirectory
from .session import Session, Tools
from .thresholds import Thresholds
from .trial import OWN, Trial
from .validate_run import Plan, contestant, validate
from .validation_evidence import median_ms
from .validation_file import FILE, ValidationFile
from .validation_plan import fresh_sessions
from .validation_record import OWN as OWN_ARM
from .validation_record import Head, Validation
from .validation_verdict import Finding
from .verdict import Verdict

PIN, WITHOUT_ACF = "pin", "pin without ACF"
"""Origins of the trials that stand for the pin."""

Start = Callable[[int, int], AbstractContextManager[Session]]


def measure(
    pin: Pin,
    made: Recompiled,
    request: TuneRequest,
    tools: Tools,
    calibration: Calibration,
    thresholds: Thresholds,
    tell: Callable[[str], None],
    start: Start | None = None,
) -> Times:
    """The pin's times beside its baselines. Raises what validate_run.validate does: the baseline's failures.

    `made` is what the pin and the own config compile to; each run compiles them again and must find the same.
    """
    plan = check_plan(pin, made, request, calibration, thresholds)
    arms = len(plan.head.arms(tuple(one.id for one in plan.finalists)))
    with tempfile.TemporaryDirectory(prefix="helitune-check-", ignore_cleanup_errors=True) as folder:
        run = RunDirectory(Path(folder))
        with ValidationFile(run.path / FILE) as file:
            begin = start or fresh_sessions(run, request, tools, arms)
            validation, findings = validate(plan, begin, file, tell)
    return _times(validation, findings[0], plan)


def check_plan(
    pin: Pin,
    made: Recompiled,
    request: TuneRequest,
    calibration: Calibration,
    thresholds: Thresholds,
) -> Plan:
    """The plan of the validation: the pin first, then its config without the ACF where that is other code than own."""
    assert isinstance(made.own, Compiled) and isinstance(made.pin, Compiled)
    own = _trial(1, OWN, made.own_candidate, made.own)
    mine = _trial(2, PIN, made.pin_candidate, made.pin)
    plain = None
    if isinstance(made.without_acf, Compiled) and made.without_acf.identity != made.own.identity:
        plain = _trial(3, WITHOUT_ACF, Candidate.of(pin.config), made.without_acf)
    finalists = (mine, plain) if plain is not None else (mine,)
    head = Head(
        number=1,
        seed=request.seed,
        shapes=tuple(format_shape(shape).replace("~given", "") for shape in pin.shapes),
        own=contestant(own),
        plain=contestant(plain) if plain else None,
        finalists=tuple(map(contestant, finalists)),
        thresholds=thresholds,
        floor=asdict(calibration.floor()),
        context={
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "timing": request.timing,
            "cache": request.cache,
            "clocks": request.lock_clocks or "free",
            "calibration": {"created": calibration.created, "baselines": len(calibration.rebuilt)},
        },
    )
    return Plan(head, own, plain, finalists)


def _trial(number: int, origin: str, candidate: Candidate, made: Compiled) -> Trial:
    return Trial(
        number=number,
        id=candidate.id,
        origin=origin,
        config=candidate.config,
        acf_sha256=candidate.acf.sha256,
        acf_name=candidate.acf.name,
        outcome=made,
        elapsed_s=0.0,
        at_s=0.0,
    )


def _times(validation: Validation, finding: Finding, plan: Plan) -> Times:
    mine = finding.finalist.trial
    shapes = tuple(
        ShapeTimes(
            over_own=verdict,
            over_no_acf=_over_no_acf(finding, shape, plan),
            pin_ms=median_ms(validation, mine, shape),
            own_ms=median_ms(validation, OWN_ARM, shape),
            no_acf_ms=median_ms(validation, plan.plain.id if plan.plain else OWN_ARM, shape),
        )
        for shape, verdict in enumerate(finding.shapes)
    )
    return Times(finding.whole, shapes, _evidence(validation, finding), finding.failed)


def _over_no_acf(finding: Finding, shape: int, plan: Plan) -> Verdict | None:
    """The verdict against the config without the ACF; where that is the own config's code it is the one on that."""
    if not plan.finalists[0].acf_sha256:
        return None
    if plan.plain is None:
        return finding.shapes[shape]
    return finding.over_plain[shape] if finding.over_plain else None


def _evidence(validation: Validation, finding: Finding) -> dict[str, Any]:
    """The pin's evidence, as results/pin_evidence.py makes it of a run that was validated."""
    when = str(validation.head.context["created"])
    how = validation_record(validation, [finding], file="", when=when)
    kept = ("when", "number", "runs", "seed", "thresholds", "floor", "calibration")
    context = {name: validation.head.context[name] for name in ("timing", "cache", "clocks")}
    return {
        "kind": "measured",
        **finding.whole.to_record(),
        "verdicts": verdict_records(validation, [finding]),
        "validated": {**{name: how[name] for name in kept}, **context},
    }
