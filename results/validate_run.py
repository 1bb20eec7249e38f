"""A validation from its plan to its findings: runs in processes of their own, measured in turn, look by look.

The processes of all runs stay alive until the verdict: each holds its buffers and its code where they landed, only
one of them measures at a time, and a run that is asked for more rounds goes on where it stopped. Started anew for
every look, it would be placed anew as well, and be another run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from .session import Session
from .trial import Trial
from .validation_file import ValidationFile
from .validation_looks import Tell, measure_looks
from .validation_process import LATER_REPEATS, RunProcess
from .validation_record import Contestant, Head, Validation
from .validation_verdict import Finding

StartRun = Callable[[int, int], AbstractContextManager[Session]]
"""A session of its own for a run of this number and seed, with an empty cache."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is validated: the head of the record, its trials, and how long to wait between runs in seconds."""

    head: Head
    own: Trial
    plain: Trial | None
    finalists: tuple[Trial, ...]
    cool_down_s: float = 0.0


def validate(
    plan: Plan, start: StartRun, file: ValidationFile, tell: Tell
) -> tuple[Validation, list[Finding]]:
    """What was measured and what it says of each finalist; every line is in `file` as soon as it is known.

    Raises InputError, NegativeVerdict and MachineError as RunProcess.prepare does.
    """
    validation = Validation(plan.head)
    file.append(plan.head.to_json())
    with ExitStack() as stack:
        runs: list[RunProcess] = []
        for number, seed in enumerate(run_seeds(plan.head), start=1):
            tell(f"run {number} of {plan.head.thresholds.runs}: compile anew, check, soak, build every arm")
            run = RunProcess(stack.enter_context(start(number, seed)), number, seed)
            repeats = plan.head.thresholds.soak_repeats
            begun = run.prepare(
                plan.own, plan.plain, plan.finalists, repeats if number == 1 else min(LATER_REPEATS, repeats)
            )
            file.append(begun.to_json())
            validation = validation.with_run(begun)
            runs.append(run)
            _tell_failures(validation, begun.run, tell)
        validation, findings = measure_looks(validation, runs, file.append, tell, plan.cool_down_s)
    file.append({"kind": "end", "verdicts": [_ended(finding) for finding in findings]})
    return validation, findings


def run_seeds(head: Head) -> list[int]:
    """A seed for each run, decided by the validation's seed and number."""
    rng = random.Random(f"{head.seed} {head.number}")
    return [rng.getrandbits(31) for _ in range(head.thresholds.runs)]


def contestant(trial: Trial) -> Contestant:
    """A trial as the record names it: its code is equal to another's where it does the same, on the host too."""
    assert trial.compiled is not None
    launches = [
        [f"{one.code_sha256}:{'x'.join(map(str, one.grid))}" for one in shape]
        for shape in trial.compiled.artifacts
    ]
    host = trial.compiled.host or ("",) * len(launches)
    code = tuple(" ".join([*each, work]).strip() for each, work in zip(launches, host, strict=True))
    return Contestant(trial.id, trial.number, trial.acf_name, code)


def _tell_failures(validation: Validation, run: int, tell: Tell) -> None:
    numbers = {one.trial: one.number for one in validation.head.finalists}
    for trial, failed in validation.runs[run - 1].failed.items():
        tell(f"  trial {numbers.get(trial, trial)} failed at {failed.stage}: {failed.message}")
    if len(validation.failed) == len(validation.head.finalists):
        tell("no finalist is left to be measured")


def _ended(finding: Finding) -> dict[str, object]:
    whole = finding.whole
    return {"trial": finding.finalist.trial, "status": whole.status.value, "reason": whole.reason.value}
