"""Measure this machine's A/A distribution: the calibration kernels, each built twice, again and again."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from helitune.acfs.errors import MachineError
from helitune.objectives import calibration_kernels as kernels
from helitune.objectives.arm_times import ArmRound
from helitune.objectives.build import Build
from helitune.objectives.gpu_process import GpuProcess
from helitune.objectives.outcomes import Failed
from helitune.objectives.times import Tried

from .calibration import Calibration, Rebuilt, Setting
from .request import TuneRequest
from .session import Session
from .validation_record import AGAIN, OWN

StartKernel = Callable[[TuneRequest], AbstractContextManager[Session]]
"""A session of its own for the request of a calibration kernel."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is measured: rebuilt baselines of each kernel, over how many processes, and rounds of each."""

    rebuilt: int
    processes: int
    rounds: int

    @property
    def offsets(self) -> int:
        """Rebuilt baselines of all kernels together."""
        return self.rebuilt * len(kernels.KERNELS)


FULL = Amount(rebuilt=10, processes=2, rounds=40)
SHORT = Amount(rebuilt=7, processes=1, rounds=16)
"""What `validate` does where there is no calibration: 21 baselines, one more than the strict gate asks for."""


def calibrate(
    request: TuneRequest, setting: Setting, start: StartKernel, tell: Tell, amount: Amount = FULL
) -> Calibration:
    """The calibration of this setting. `request` says how to compile and time; its kernel is replaced.

    Every baseline is placed, loaded and captured anew, as every arm of a validation is. Raises MachineError where
    a calibration kernel does not run here.
    """
    rng = random.Random(f"calibration {request.seed}")
    rebuilt: list[Rebuilt] = []
    for file in kernels.KERNELS:
        tell(
            f"calibrate: {file.stem.replace('_', ' ')}, {amount.rebuilt} baselines of {amount.rounds} rounds"
        )
        for process, count in enumerate(_shares(amount.rebuilt, amount.processes), start=1):
            with start(for_kernel(request, file)) as session:
                gpu, own = own_build(session)
                for _ in range(count):
                    rounds = rebuilt_rounds(gpu, own, rng, amount.rounds)
                    rebuilt.append(Rebuilt(file.stem, process, log_ratios(rounds)))
    return Calibration(setting, time.strftime("%Y-%m-%dT%H:%M:%S%z"), tuple(rebuilt))


def rebuilt_rounds(gpu: GpuProcess, own: Build, rng: random.Random, rounds: int) -> list[ArmRound]:
    """Rounds of a baseline and the same built again, both in a placement of their own."""
    names = [OWN, AGAIN]
    rng.shuffle(names)
    stand_anew(gpu, own, dict.fromkeys(names, own), rng.getrandbits(31))
    orders = [rng.sample(names, 2) for _ in range(rounds)]
    return [shapes[0] for shapes in gpu.ask("arm_rounds", orders)]


def stand_anew(gpu: GpuProcess, own: Build, arms: dict[str, Build], seed: int) -> None:
    """Have `arms` stand in a placement drawn from `seed`. Raises MachineError where the own config fails."""
    gpu.ask("place", seed)
    times = gpu.use_own(own)
    if isinstance(times, Tried) or times.wrong:
        why = f"{times.stage}: {times.message}" if isinstance(times, Tried) else times.wrong
        raise MachineError(
            f"a calibration kernel fails on this GPU: {why}",
            where="calibrate",
            next_step="run helitune doctor",
        )
    gpu.ask("stand_arms", arms)


def log_ratios(rounds: Sequence[ArmRound]) -> tuple[float, ...]:
    """log(base / base again) of each round, of medians."""
    return tuple(
        math.log(statistics.median(one.samples_ms[OWN]) / statistics.median(one.samples_ms[AGAIN]))
        for one in rounds
    )


def own_build(session: Session) -> tuple[GpuProcess, Build]:
    """The GPU process of a calibration kernel and its own config's build; MachineError where it does not compile."""
    assert session.gpu is not None
    own = session.baselines[0].candidate
    compiled = session.compiled.evaluate(own)
    if isinstance(compiled, Failed):
        raise MachineError(
            f"a calibration kernel does not compile here: {compiled.stage}: {compiled.message}",
            where=session.request.file,
            next_step="run helitune doctor",
        )
    build = session.compiled.build(own)
    session.stop_compiling()
    return session.gpu, build


def for_kernel(request: TuneRequest, file: Path) -> TuneRequest:
    """The request with a calibration kernel in place of its own, and nothing that was said of that one."""
    return replace(
        request,
        file=str(file),
        kernel=None,
        reference=None,
        args=(),
        packs=(),
        settings=(),
        bytes_moved=(),
        flops=(),
        jobs=1,
    )


def _shares(total: int, parts: int) -> list[int]:
    """`total` in at most `parts` parts as equal as can be, none of them empty."""
    each, rest = divmod(total, parts)
    return [share for part in range(parts) if (share := each + (part < rest))]
