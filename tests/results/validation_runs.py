"""A validation without a GPU: stand-ins for a session and its GPU process at their methods, with plain records."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pin_runs import ACF_SHA256, artifact, make_run, trial

from helitune.acfs.acf import NO_ACF, Acf
from helitune.objectives.arm_times import ArmRound, Standing
from helitune.objectives.outcomes import Compiled, Measured
from helitune.objectives.times import OwnTimes, ShapeTimes, Tried
from helitune.results.finals import Final
from helitune.results.run_directory import RunDirectory
from helitune.results.thresholds import STRICT, Thresholds
from helitune.results.trial import OWN, Trial
from helitune.results.validate_run import contestant
from helitune.results.validation_record import Head
from helitune.search.candidate import Candidate

DEVICE = {
    "index": 0,
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "driver": "580.1",
    "capability": [9, 0],
    "sms": 132,
    "memory_bytes": 141 << 30,
    "l2_bytes": 60 << 20,
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "registers_per_sm": 65536,
    "shared_per_sm_bytes": 233472,
    "shared_per_block_reserved_bytes": 1024,
    "sm_clock_khz": 1980000,
    "memory_clock_khz": 3201000,
    "memory_bus_bits": 6144,
}
FLOOR = {"quantile95": 0.002, "offset_variance": 1e-6, "offset_noise": 2.5e-7, "offsets": 20}


def measured(
    number: int, ratio: float, *, acf: bool = False, origin: str = "random", shapes: int = 1
) -> Trial:
    """A measured trial whose time is `ratio` times the own config's, with code of its own."""
    compiled = trial(number, 100.0, acf=acf, origin=origin)
    code = tuple((artifact(f"code {number} on {shape}"),) for shape in range(shapes))
    built = Compiled(100.0, 100.0, (100.0,) * shapes, code)
    times = tuple(ShapeTimes(0.02 * ratio, 0.02, (ratio, ratio)) for _ in range(shapes))
    return replace(compiled, outcome=Measured.of(built, times, 0.001))


OWN_TRIAL = measured(1, 1.0, origin=OWN)
PLAIN = measured(2, 0.95)
WITH_ACF = measured(3, 0.93, acf=True)


def measured_run(folder: Path, trials: Sequence[Trial], **fields: Any) -> RunDirectory:
    """A run of these trials as `tune` leaves it on a GPU; all but the own config are finalists."""
    run = make_run(folder, list(trials))
    stored = run.run()
    finals = [Final(t.id, 100, t.measured.shapes) for t in trials if t.measured and t.origin != OWN]
    now = {
        "evidence": "measured",
        "device": DEVICE,
        "request": {**stored["request"], "objective": "time", "device": "0"},
        "fingerprint": {**stored["fingerprint"], "gpu": {"name": "NVIDIA H200", "driver": "580.1"}},
        "finals": [final.to_json() for final in finals],
        "work": [{"bytes": 2 * 2 * 4096 * 2560, "flops": {}}],
        "limits": {
            "copy_bytes_per_s": 4.3e12,
            "read_bytes_per_s": 4.5e12,
            "write_bytes_per_s": 4.4e12,
            "flops_per_s": {"f16": 7.9e14},
        },
    }
    run.write_run({**stored, **now, **fields})
    return run


def head(
    finalists: Sequence[Trial], plain: Trial | None, thresholds: Thresholds = STRICT, **fields: Any
) -> Head:
    """What a validation of these finalists begins with."""
    shapes = len(OWN_TRIAL.compiled.values) if not finalists else len(finalists[0].compiled.values)
    own = measured(1, 1.0, origin=OWN, shapes=shapes)
    plain_head = Head(
        number=1,
        seed=0,
        shapes=tuple(f"f16[{64 << shape},64]" for shape in range(shapes)),
        own=contestant(own),
        plain=contestant(plain) if plain else None,
        finalists=tuple(map(contestant, finalists)),
        thresholds=thresholds,
        floor=FLOOR,
        context={"created": "2026-12-01T10:15:00+0000"},
    )
    return replace(plain_head, **fields)


@dataclass
class Gpu:
    """Stands for objectives.gpu_process.GpuProcess: arms take `ms` of their build, with noise."""

    ms: Mapping[str, Sequence[float]]
    seed: int
    noise: float = 0.001
    fails: Mapping[str, Tried] = field(default_factory=dict)
    offsets: Mapping[str, float] = field(default_factory=dict)
    wrong: str = ""
    reasons: tuple[str, ...] = ("sw_power_cap",)
    asked: list[str] = field(default_factory=list)
    arms: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.shapes = len(next(iter(self.ms.values())))

    def use_own(self, own: Any) -> OwnTimes | Tried:
        self.asked.append("use_own")
        return OwnTimes(self.wrong, tuple(self.ms[own]), (True,) * self.shapes, (0,) * self.shapes, 0.001)

    def try_build(self, build: Any, race: Any) -> Tried:
        self.asked.append("try_build")
        return self.fails.get(build, Tried())

    def soak(self, builds: Sequence[Any], repeats: int) -> list[Tried]:
        self.asked.append(f"soak {repeats}")
        return [self.fails.get(f"soak {build}", Tried()) for build in builds]

    def ask(self, method: str, *arguments: Any, timeout_s: float = 0.0) -> Any:
        self.asked.append(method)
        return getattr(self, method)(*arguments)

    def place(self, seed: int) -> tuple[int, ...]:
        self.arms = {}
        return (512, seed % 512)

    def stand_arms(self, builds: Mapping[str, Any]) -> list[Standing]:
        assert not self.arms, "arms stand in a new placement"
        self.arms = dict(builds)
        return [
            Standing(50, 5, {name: self.ms[build][shape] for name, build in builds.items()}, True)
            for shape in range(self.shapes)
        ]

    def arm_rounds(self, orders: Sequence[Sequence[str]]) -> list[list[ArmRound]]:
        return [[self._round(order, shape) for shape in range(self.shapes)] for order in orders]

    def _round(self, order: Sequence[str], shape: int) -> ArmRound:
        samples = {}
        for name in order:
            build = self.arms[name]
            ms = self.ms[build][shape] * (1 + self.offsets.get(name, 0.0)) * self.rng.gauss(1, self.noise)
            samples[name] = tuple(ms * self.rng.gauss(1, 0.002) for _ in range(10))
        return ArmRound(tuple(order), samples, 1755.0, 55.0, self.reasons)


def sessions(
    trials: Sequence[Trial], gpus: Callable[[int, int], Gpu], recompiled: Mapping[str, Any] | None = None
) -> Callable[[int, int], Any]:
    """What starts runs whose GPU processes are `gpus`; `recompiled` replaces what a trial compiles to anew."""

    @contextmanager
    def start(number: int, seed: int) -> Iterator[Any]:
        def evaluate(candidate: Candidate) -> Any:
            found = by_config[candidate.config_json, candidate.acf.sha256]
            return (recompiled or {}).get(found.id, found.compiled)

        def build(candidate: Candidate) -> str:
            return by_config[candidate.config_json, candidate.acf.sha256].id

        by_config = {(c.config_json, c.acf.sha256): t for t in trials for c in [candidate_of(t)]}
        stopped: list[bool] = []
        yield SimpleNamespace(
            gpu=gpus(number, seed),
            compiled=SimpleNamespace(evaluate=evaluate, build=build),
            candidate=candidate_of,
            request=SimpleNamespace(file="softmax.py"),
            stop_compiling=lambda: stopped.append(True),
        )
        assert stopped, "the compile processes end before anything is measured"

    return start


def candidate_of(trial_: Trial) -> Candidate:
    acf = Acf("first", ACF_SHA256, Path("first.acf"), ("sm_90",), "13.3") if trial_.acf_sha256 else NO_ACF
    return Candidate.of(trial_.config, acf)


def recoded(trial_: Trial) -> Compiled:
    """The trial compiled to other code."""
    assert trial_.compiled is not None
    other = hashlib.sha256(b"other").hexdigest()
    return replace(
        trial_.compiled,
        artifacts=tuple((replace(shape[0], code_sha256=other),) for shape in trial_.compiled.artifacts),
    )
