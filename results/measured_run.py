"""What a search on a GPU does around the search itself: the own config first, the finalists last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from helitune.acfs.errors import MachineError, NegativeVerdict
from helitune.objectives.check_result import CheckResult
from helitune.objectives.gpu_process import GpuProcess
from helitune.objectives.limits_record import Machine, MachineLimits, load_limits, save_limits
from helitune.objectives.measured import MeasuredEvaluator
from helitune.objectives.outcomes import Failed
from helitune.objectives.times import OwnTimes, Race
from helitune.search.args import format_shape

from .finals import Final, finalists
from .limit_share import fastest_possible_ms
from .session import Session
from .trial import Trial

SOAK_REPEATS = 100
FINAL_RACE = Race(first=16, near=16, replays=5)
"""Rounds of a finalist: ABBA, five samples of at least a millisecond in each block."""


@dataclass(frozen=True, slots=True)
class OnGpu:
    """The own config on this GPU, and the GPU's limits."""

    own: OwnTimes
    limits: MachineLimits
    check: CheckResult


def begin(session: Session) -> OnGpu:
    """The own config checked and timed, with the limits of this GPU; candidates are measured beside it then.

    Raises NegativeVerdict where its output is wrong, MachineError where it does not run here.
    """
    gpu, evaluator = _parts(session)
    session.start_workers()
    limits = _limits(session, gpu)
    own = evaluator.use_own(session.baselines[0].candidate)
    if isinstance(own, Failed):
        raise _own_failed(own, session)
    evaluator.refuse_below(_floors(session, own, limits))
    return OnGpu(own, limits, _check_result(session, own))


def measure_finalists(session: Session, trials: Sequence[Trial], tell: Callable[[str], None]) -> list[Final]:
    """The finalists of a search: compiled by plain Helion to the same code, soaked, and measured anew."""
    gpu, evaluator = _parts(session)
    chosen = finalists(trials)
    if not chosen:
        return []
    tell(f"{len(chosen)} finalist(s): compiled by plain Helion, soaked {SOAK_REPEATS} times, measured again")
    finals: dict[str, Final] = {}
    with ThreadPoolExecutor(len(chosen), thread_name_prefix="plain") as threads:
        drifts = list(threads.map(lambda trial: _drift(session, trial), chosen))
    for trial, drift in zip(chosen, drifts, strict=True):
        if drift:
            finals[trial.id] = Final(trial.id, 0, stage="drift", message=drift)
    sound = [trial for trial in chosen if trial.id not in finals]
    builds = [evaluator.build(session.candidate(trial)) for trial in sound]
    for trial, soaked in zip(sound, gpu.soak(builds, SOAK_REPEATS) if sound else (), strict=True):
        if soaked.stage:
            finals[trial.id] = Final(trial.id, SOAK_REPEATS, stage=soaked.stage, message=soaked.message)
    for trial, build in zip(sound, builds, strict=True):
        if trial.id not in finals:
            tried = gpu.try_build(build, FINAL_RACE)
            finals[trial.id] = Final(
                trial.id, SOAK_REPEATS, tried.shapes, tried.max_rel_error, tried.stage, tried.message
            )
    return [finals[trial.id] for trial in chosen]


def _parts(session: Session) -> tuple[GpuProcess, MeasuredEvaluator]:
    assert session.gpu is not None and session.measured is not None
    return session.gpu, session.measured


def _drift(session: Session, trial: Trial) -> str:
    """Empty where plain Helion compiles the trial to the code that was measured, else how not."""
    assert trial.compiled is not None
    shapes = range(len(session.description.record.shapes))
    try:
        plain = tuple(
            code for shape in shapes for code in session.compile_plainly(session.candidate(trial), shape)
        )
    except Exception as error:  # noqa: BLE001  whatever keeps plain Helion from compiling it disqualifies it
        return f"plain Helion does not compile it: {error}"
    return "" if plain == trial.compiled.code else "plain Helion compiles it to other code than was measured"


def _limits(session: Session, gpu: GpuProcess) -> MachineLimits:
    """This GPU's limits, measured once per machine and driver."""
    device = session.tools.device
    assert device is not None
    machine = Machine.of(device)
    known = load_limits(machine)
    if known is None:
        known = gpu.ask("limits")
        save_limits(machine, known)
    return known


def _floors(session: Session, own: OwnTimes, limits: MachineLimits) -> list[float | None]:
    """The least milliseconds of each shape; None where the own config is faster, so that the bytes are no floor."""
    floors: list[float | None] = []
    moved_bytes = session.bytes_moved(own.mutated_bytes)
    for ms, cold, moved in zip(own.ms, own.cold, moved_bytes, strict=True):
        floor = fastest_possible_ms(moved, limits, cold=cold)
        floors.append(floor if 0 < floor < ms else None)
    return floors


def _own_failed(failed: Failed, session: Session) -> NegativeVerdict | MachineError:
    kernel = session.description.record.kernel
    if failed.stage == "wrong_output":
        return NegativeVerdict(
            f"{kernel}'s own config disagrees with {session.description.record.reference} on this GPU: "
            f"{failed.message}",
            where=session.request.file,
            next_step="correct the kernel or its reference; its candidates are not worth timing",
        )
    return MachineError(
        f"{kernel}'s own config fails on this GPU at {failed.stage}: {failed.message}",
        where=session.request.file,
        next_step="run the kernel once with plain Helion; --set can leave the failing values out",
    )


def _check_result(session: Session, own: OwnTimes) -> CheckResult:
    record = session.description.record
    judge = "itself" if record.reference == "self" else record.reference.removeprefix("file:")
    return CheckResult(
        agrees=True,
        reference=record.reference,
        shapes=tuple(format_shape(shape).replace("~given", "") for shape in record.shapes),
        rounds=("values of 3 seeds", "special values"),
        message=f"{record.kernel} agrees with {judge} on the GPU, max rel error {own.max_rel_error:.2g}",
        evidence="gpu",
        factors=(1,) * len(record.shapes),
    )
