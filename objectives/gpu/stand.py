"""The own config on one shape, ready for candidates to be checked and timed beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from helitune.objectives.build import ShapeBuild
from helitune.objectives.discovery import LoadedWorkload
from helitune.objectives.outputs import Expected, call_on_copies, expected_outputs
from helitune.objectives.times import Race, RoundTimes, ShapeTimes

from .cases import Cases
from .check import Checked, Gate
from .loaded import Loader
from .nvml import GpuSensors
from .rotation import Rotation
from .throttle_reasons import throttling
from .timed import Timed, per_launch_ms, rough_ms, timed
from .warm_up import until_stable

GRAPH_MS = 1.0
"""What one replay of the own config's launches takes at least: long against the gap between replays."""

MOST_LAUNCHES = 1000
COARSE_RATIO = 8.0
"""A candidate slower than this by single launches is not timed further: it is out of every race."""

ORDERS = ("ABBA", "BAAB")


class Stand:
    """One shape: its cases, its rotating inputs, and the own config's block.

    `workload`, `shape` and `seed` make the inputs, `build` is the own config's, `graph` and `cold` say how to
    time; `launches` is known from an earlier process, or found out. `own` is what its check came to; where that is
    wrong nothing is timed.
    """

    def __init__(
        self,
        workload: LoadedWorkload,
        shape: int,
        seed: int,
        loader: Loader,
        build: ShapeBuild,
        sensors: GpuSensors | None,
        *,
        graph: bool,
        cold: bool,
        launches: int | None = None,
    ) -> None:
        self._loader = loader
        self._sensors = sensors
        self._graph = graph
        kernel = loader.load(build)
        cases = Cases(workload, shape, seed, _expectation(workload, kernel))
        tf32 = "tl.dot" in Path(build.host_path).read_text()
        self.gate = Gate(cases, list(workload.kernel.signature.parameters), tf32=tf32)
        self.own: Checked = self.gate.check_own(kernel)
        if self.own.wrong:
            return
        self.rotation = Rotation(cases.arguments, self.gate.mutated, cold=cold)
        self._rough_ms = rough_ms(kernel, self.rotation)
        if launches is None:
            self._base = self._calibrated(kernel)
            self.own_ms = self.warm_up()
        else:
            self._base = timed(kernel, self.rotation, launches, graph=graph)
            self.own_ms = self.warm_up(at_most_s=0.3)

    @property
    def launches(self) -> int:
        """Launches in one sample."""
        return self._base.launches

    def warm_up(self, at_most_s: float = 3.0) -> float:
        """Milliseconds a launch of the own config, once its times agree or the time is up."""
        last = [0.0]

        def block() -> float:
            events = self._base.enqueue(2)
            events[-1].synchronize()
            last[0] = min(per_launch_ms(events, self._base.launches))
            return last[0]

        until_stable(block, at_most_s=at_most_s)
        return last[0]

    def load(self, build: ShapeBuild) -> Callable[..., Any]:
        """A candidate's function on this shape."""
        return self._loader.load(build)

    def time(self, kernel: Callable[..., Any], race: Race) -> ShapeTimes:
        """The candidate's times beside the own config's, in as many rounds as the race allows it."""
        rough = rough_ms(kernel, self.rotation)
        if rough > COARSE_RATIO * self._rough_ms:
            return ShapeTimes(rough, self._rough_ms, (rough / self._rough_ms,), coarse=True)
        candidate = timed(kernel, self.rotation, self._base.launches, graph=self._graph)
        rounds: list[RoundTimes] = []
        while len(rounds) < race.near:
            rounds.append(self.round(candidate, ORDERS[len(rounds) % 2], race.replays))
            if len(rounds) >= race.first and ShapeTimes.of(rounds).ratio > race.reach:
                break
        return ShapeTimes.of(rounds)

    def round(self, candidate: Timed, order: str, replays: int) -> RoundTimes:
        """One round: blocks of the own config (A) and the candidate (B) in the order spelled."""
        self.rotation.restore()
        arms = {"A": self._base, "B": candidate}
        arms[order[0]].enqueue(1)  # so that the first block's start does not wait for the host
        blocks = [(arm, arms[arm].enqueue(replays)) for arm in order]
        blocks[-1][1][-1].synchronize()
        samples: dict[str, tuple[float, ...]] = {"A": (), "B": ()}
        for arm, events in blocks:
            samples[arm] += per_launch_ms(events, arms[arm].launches)
        read = self._sensors.read() if self._sensors else None
        return RoundTimes(
            order=order,
            base_ms=samples["A"],
            candidate_ms=samples["B"],
            sm_clock_mhz=read.sm_clock_mhz if read else None,
            temperature_c=read.temperature_c if read else None,
            throttled=bool(read and throttling(read.throttle_reasons)),
        )

    def _calibrated(self, kernel: Callable[..., Any]) -> Timed:
        """The own config's block, of so many launches that one replay takes GRAPH_MS and visits every set."""
        sets = len(self.rotation.sets)
        launches = max(1, min(sets, 16))
        for _ in range(3):
            base = timed(kernel, self.rotation, launches, graph=self._graph)
            events = base.enqueue(3)
            events[-1].synchronize()
            wanted = _launches(min(per_launch_ms(events, launches)), sets)
            if wanted <= launches:
                break
            launches = wanted
        return base


def _launches(ms: float, sets: int) -> int:
    return max(min(max(math.ceil(GRAPH_MS / max(ms, 1e-6)), sets), MOST_LAUNCHES), 1)


def _expectation(workload: LoadedWorkload, own: Callable[..., Any]) -> Callable[[Sequence[Any]], Expected]:
    """What is expected of a call: the reference's outputs, or the own config's where that is the reference."""
    reference = workload.reference
    if reference is None:
        return lambda arguments: Expected(call_on_copies(own, arguments), None)
    return lambda arguments: expected_outputs(reference, arguments)


def free_memory() -> None:
    """Give back what is cached of freed tensors and graphs, where it has become much."""
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > 8 << 30:
        torch.cuda.empty_cache()
