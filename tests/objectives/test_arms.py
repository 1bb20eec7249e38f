"""Arms side by side: how a round goes, how long a sample is, and where buffers land. No GPU: stand-ins for blocks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from helitune.objectives.arm_times import (
    FEWER_SAMPLES,
    SAMPLES,
    ArmRound,
    Standing,
    launches_for,
    samples_for,
)
from helitune.objectives.gpu import arms, host
from helitune.objectives.gpu.arms import mirrored, pad_sizes
from helitune.objectives.gpu.nvml import Sensors


class Clock:
    """A GPU on which time passes as blocks are enqueued; `log` is what happened in which order."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.log: list[str] = []
        self.synchronized: list[float] = []


class Event:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at_ms = clock.now_ms

    def elapsed_time(self, later: Any) -> float:
        return float(later.at_ms - self.at_ms)

    def synchronize(self) -> None:
        self._clock.synchronized.append(self.at_ms)


class Block:
    """A Timed whose launch takes `ms` at time 0, and more by `drift` a millisecond that passes."""

    launches = 4

    def __init__(self, clock: Clock, name: str, ms: float, drift: float = 0.0) -> None:
        self._clock, self._name, self._ms, self._drift = clock, name, ms, drift

    def enqueue(self, replays: int) -> list[Event]:
        self._clock.log.append(f"{self._name} {replays}")
        events = [Event(self._clock)]
        for _ in range(replays):
            self._clock.now_ms += self.launches * (self._ms + self._drift * self._clock.now_ms)
            events.append(Event(self._clock))
        return events


def test_each_arm_has_two_turns_mirrored_and_restored_before_each() -> None:
    clock = Clock()
    three = {name: Block(clock, name, ms) for name, ms in (("own", 0.3), ("again", 0.3), ("x", 0.2))}
    times = mirrored(three, ["x", "own", "again"], 5, lambda: clock.log.append("restore"))
    turns = ["x 5", "own 5", "again 5", "again 5", "own 5", "x 5"]
    assert clock.log == ["restore", "x 1", *(entry for turn in turns for entry in ("restore", turn))]
    assert clock.synchronized == [clock.now_ms]
    assert {name: len(samples) for name, samples in times.items()} == {"x": 10, "own": 10, "again": 10}
    assert times["x"] == pytest.approx([0.2] * 10) and times["own"] == pytest.approx([0.3] * 10)


def test_a_linear_drift_is_the_same_for_all_arms() -> None:
    clock = Clock()
    four = {name: Block(clock, name, 0.3, drift=1e-5) for name in "abcd"}
    times = mirrored(four, list("abcd"), 5, lambda: None)
    means = [sum(samples) / len(samples) for samples in times.values()]
    one_turn = [sum(samples[:5]) / 5 for samples in times.values()]
    assert max(one_turn) / min(one_turn) > 1.0005
    assert max(means) / min(means) < 1.00001


@pytest.mark.parametrize(
    ("ms", "sets", "launches"),
    [
        ([0.02, 0.013], 4, 77),
        ([0.02], 60, 60),
        ([5.0, 7.0], 3, 3),
        ([5.0], 1, 1),
        ([1e-6], 1, 1000),
        ([0.0], 1, 1000),
    ],
)
def test_a_sample_takes_a_millisecond_with_the_fastest_arm_and_visits_every_set(
    ms: list[float], sets: int, launches: int
) -> None:
    assert launches_for(ms, sets, 1000) == launches


def test_long_samples_are_fewer_but_enough_for_a_block() -> None:
    assert (samples_for(1.0), samples_for(50.0)) == (SAMPLES, FEWER_SAMPLES)
    assert 2 * FEWER_SAMPLES >= 5
    assert Standing(50, 5, {"own": 0.02, "x": 0.02}, True).round_ms == pytest.approx(20.0)


class Sensor:
    """The GPU's sensors, read after each round."""

    def read(self) -> Sensors:
        return Sensors(1755, 55, 600.0, ("sw_power_cap",))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A GPU whose blocks take what their kernel says; blocks are made by `timed` with launches of their own."""
    made = Clock()

    def block(kernel: tuple[str, float], rotation: Any, launches: int, *, graph: bool) -> Block:
        one = Block(made, kernel[0], kernel[1])
        one.launches = launches  # type: ignore[misc]
        made.log.append(f"make {kernel[0]} {launches}")
        return one

    monkeypatch.setattr(arms, "timed", block)
    return made


def stand(clock: Clock, own_ms: float, loaded: list[Any]) -> Any:
    """A Stand with two sets of inputs, whose builds are their kernels."""

    def load(build: Any) -> Any:
        loaded.append(build)
        return build

    rotation = SimpleNamespace(sets=[1, 2], cold=True, restore=lambda: clock.log.append("restore"))
    return SimpleNamespace(rotation=rotation, own_ms=own_ms, load=load)


def test_every_arm_is_loaded_and_made_by_itself_and_has_the_launches_of_the_fastest(clock: Clock) -> None:
    loaded: list[Any] = []
    own, fast = ("own", 0.5), ("fast", 0.02)
    builds: Any = {"own": own, "own again": own, "fast": fast}
    made = arms.Arms(stand(clock, 0.5, loaded), builds, None, graph=True)
    assert loaded == [own, own, fast]
    # with the own config's launches the fast one would have samples of 0.04 ms
    assert [line for line in clock.log if line.startswith("make")] == [
        *("make own 2", "make own 2", "make fast 2"),
        *("make own 50", "make own 50", "make fast 50"),
    ]
    assert (made.standing.launches, made.standing.cold) == (50, True)
    assert made.standing.samples == FEWER_SAMPLES, "25 ms are long for the slow ones"
    assert made.standing.ms == pytest.approx({"own": 0.5, "own again": 0.5, "fast": 0.02})
    one = made.round(["fast", "own again", "own"])
    assert one.order == ("fast", "own again", "own") and len(one.samples_ms["fast"]) == 2 * FEWER_SAMPLES
    assert (one.sm_clock_mhz, one.throttle_reasons) == (None, ())


def test_the_host_measures_every_order_on_every_shape_and_forgets_what_stood(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = object.__new__(host.GpuHost)
    gpu._stands = [stand(clock, 0.5, []), stand(clock, 2.0, [])]
    gpu._sensors, gpu._graph, gpu._pads, gpu._worked_at = Sensor(), True, [], 0.0
    builds: Any = {"own": (("own", 0.5), ("own", 2.0)), "x": (("x", 0.4), ("x", 1.5))}
    standing = gpu.stand_arms(builds)
    assert [one.launches for one in standing] == [3, 2]
    rounds = gpu.arm_rounds([["own", "x"], ["x", "own"]])
    assert [[one.order for one in shapes] for shapes in rounds] == [
        [("own", "x")] * 2,
        [("x", "own")] * 2,
    ]
    assert rounds[0][1].samples_ms["x"] == pytest.approx([1.5] * 10)
    assert rounds[0][0].sm_clock_mhz == 1755 and rounds[0][0].throttle_reasons == ("sw_power_cap",)
    monkeypatch.setattr(host, "pads", lambda seed: [torch.empty(512 * seed, dtype=torch.uint8)])
    assert gpu.place(3) == (1536,)
    assert gpu.arm_rounds([["own"]]) == [[]]


def test_no_two_runs_are_placed_alike_and_none_takes_much_memory() -> None:
    free_bytes = 4 << 30
    drawn = [pad_sizes(seed, free_bytes) for seed in range(50)]
    assert len({tuple(sizes) for sizes in drawn}) == 50
    assert pad_sizes(7, free_bytes) == drawn[7]
    for sizes in drawn:
        assert sum(sizes) <= free_bytes / 10 and all(size > 0 and size % 512 == 0 for size in sizes)
    assert sum(pad_sizes(1, 0)) < 16 << 20


def test_a_round_reads_back_as_it_was_written() -> None:
    rng = random.Random(0)
    samples = {arm: tuple(round(rng.random(), 6) for _ in range(10)) for arm in ("own", "again")}
    one = ArmRound(("again", "own"), samples, 1755.0, None, ("sw_power_cap",))
    assert ArmRound.from_json(one.to_json()) == one
