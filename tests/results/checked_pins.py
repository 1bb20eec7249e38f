"""Pins to be checked without a GPU and without compiling: what they compile to now and what they take is said here."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import ACF, BETTER, FINGERPRINT, OWN, SOURCE, artifact, make_run, trial
from validation_runs import DEVICE, Gpu, candidate_of, sessions

from helitune.acfs.errors import MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.device import Device
from helitune.objectives.outcomes import Compiled, Failed
from helitune.objectives.times import Tried
from helitune.results import check_arms, check_pin
from helitune.results.calibration import Calibration, Rebuilt, Setting
from helitune.results.check_request import CheckSetting
from helitune.results.check_source import KernelFiles
from helitune.results.checked import Checked
from helitune.results.drift import Recompiled, launches_of
from helitune.results.pin import Pin, pin_text
from helitune.results.pin_choice import make_pin
from helitune.results.thresholds import STRICT

GPU = Device.from_json(DEVICE)
PTXAS = Ptxas(Path("ptxas"), "13.3.73", "ab" * 32)
WITHOUT_ACF = replace(trial(3, 110.0), config=BETTER.config)
RNG = random.Random(7)
CALIBRATION = Calibration(
    Setting.of(GPU, PTXAS, timing="graph", cache="cold", clocks="free"),
    "2026-12-01T10:15:00+0000",
    tuple(
        Rebuilt("memory_bound", 1, tuple(offset + RNG.gauss(0, 0.001) for _ in range(16)))
        for offset in (RNG.gauss(0, 0.0008) for _ in range(21))
    ),
)


def compiled_of(number: int, **fields: Any) -> Compiled:
    """What a candidate compiles to: one launch, its code named by `number`."""
    return Compiled(100.0, 100.0, (100.0,), ((artifact(f"code {number}", **fields),),))


@dataclass
class Rig:
    """A pin on disk with its kernel file, and all that its check is told.

    `ms` are times of the pin, the own config, and the pin's config without its ACF.
    """

    folder: Path
    patch: pytest.MonkeyPatch
    own: Compiled | Failed = field(default_factory=lambda: compiled_of(1))
    pin: Compiled | Failed = field(default_factory=lambda: compiled_of(2))
    without_acf: Compiled | Failed = field(default_factory=lambda: compiled_of(3))
    ms: tuple[float, float, float] = (0.018, 0.02, 0.019)
    fails: Mapping[str, Tried] = field(default_factory=dict)
    wrong_own: str = ""
    noise: float = 0.001
    installed: dict[str, Any] = field(default_factory=lambda: {**FINGERPRINT})
    calibrations: int = 0
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        run = make_run(self.folder, [OWN, BETTER])
        written = make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)
        own = {**written.objective["own"], "artifacts": launches_of(compiled_of(1))}
        self.path = self.folder / "pins" / "softmax" / "sm_90" / "f16.json"
        self.path.parent.mkdir(parents=True)
        assert written.acf is not None
        (self.path.parent / written.acf.file).write_bytes(ACF)
        self.write(replace(written, objective={**written.objective, "own": own}))
        (self.folder / "softmax.py").write_bytes(SOURCE)
        self.patch.setattr(check_pin, "recompile", self._recompile)
        self.patch.setattr(check_pin, "fingerprint", self._fingerprint)
        self.patch.setattr(check_arms, "fresh_sessions", self._sessions)

    def write(self, pin: Pin) -> None:
        self.written = pin
        self.path.write_text(pin_text(pin))

    def check(self, how: CheckSetting | MachineError) -> Checked:
        files = KernelFiles(self.folder)
        return check_pin.check_pin(self.path, how, files, self._calibrate, lambda text: None)

    def measured(self, **fields: Any) -> Checked:
        """The result on a GPU."""
        return self.check(CheckSetting(PTXAS, GPU, thresholds=STRICT, **fields))

    def recompiled(self, **fields: Any) -> Checked:
        """The result without a GPU."""
        return self.check(CheckSetting(PTXAS, **fields))

    def _fingerprint(self, ptxas: Ptxas, arch: str, device: Device | None) -> dict[str, Any]:
        gpu = {"gpu": {"name": device.name, "driver": device.driver}} if device else {}
        return {**self.installed, "arch": arch, **gpu}

    def _recompile(self, request: Any, tools: Any, pin: Pin, acf: Any, *, fits: bool) -> Recompiled:
        self.asked.append(f"recompile for {tools.target.name}")
        ptx = tuple(tuple(a.ptx_sha256 for a in shape) for shape in compiled_of(2).artifacts)
        own, mine = candidate_of(OWN), candidate_of(BETTER)
        return Recompiled(own, mine, self.own, self.pin if fits else None, self.without_acf, ptx)

    def _calibrate(self, request: Any, tools: Any) -> Calibration:
        self.calibrations += 1
        return CALIBRATION

    def _sessions(self, run: Any, request: Any, tools: Any, arms: int) -> Callable[[int, int], Any]:
        assert tools.device is GPU and [acf.sha256 for acf in tools.acfs] == [self.written.acf.sha256]
        self.asked.append(f"{arms} arms")
        plain = candidate_of(WITHOUT_ACF).id
        ids = dict(zip((candidate_of(BETTER).id, candidate_of(OWN).id, plain), self.ms, strict=True))
        trials = [
            replace(one, id=candidate_of(one).id, outcome=outcome)
            for one, outcome in ((OWN, self.own), (BETTER, self.pin), (WITHOUT_ACF, self.without_acf))
        ]
        names = {"pin": candidate_of(BETTER).id, "plain": plain}
        fails = {names.get(name, name): tried for name, tried in self.fails.items()}
        fails |= {f"soak {names[n.split()[1]]}": t for n, t in self.fails.items() if n.startswith("soak")}

        def gpu(number: int, seed: int) -> Gpu:
            ms = {name: [value] for name, value in ids.items()}
            return Gpu(ms=ms, seed=seed, noise=self.noise, fails=fails, wrong=self.wrong_own)

        return sessions(trials, gpu)
