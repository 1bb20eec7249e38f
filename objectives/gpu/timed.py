"""A kernel ready to be timed: blocks of launches over rotating inputs, through a CUDA graph or from the host."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import torch

from .rotation import Rotation

Kernel = Callable[..., Any]
Event = Any
"""A torch.cuda.Event."""


class Timed(Protocol):
    """Something that launches a fixed number of times at each replay."""

    launches: int

    def enqueue(self, replays: int) -> list[Event]:
        """`replays` + 1 events: before the first replay and after each."""
        ...


class GraphTimed:
    """`launches` launches captured in one CUDA graph: what the GPU takes, without the host."""

    def __init__(self, kernel: Kernel, rotation: Rotation, launches: int) -> None:
        self.launches = launches
        self._graph = torch.cuda.CUDAGraph()
        # launched once before: Triton loads a binary at its first launch, which a capture cannot hold
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            kernel(*rotation.sets[0])
        torch.cuda.current_stream().wait_stream(stream)
        # as many outputs alive as sets: each launch writes where the last ones did not
        outputs: deque[Any] = deque(maxlen=len(rotation.sets))
        with torch.cuda.graph(self._graph, stream=stream):
            for launch in range(launches):
                outputs.append(kernel(*rotation.sets[launch % len(rotation.sets)]))
        self._kept = (kernel, rotation, outputs)

    def enqueue(self, replays: int) -> list[Event]:
        """`replays` + 1 events: before the first replay and after each."""
        events = [_recorded()]
        for _ in range(replays):
            self._graph.replay()
            events.append(_recorded())
        return events


class EagerTimed:
    """`launches` launches made by the host one by one: what a caller without CUDA graphs waits for."""

    def __init__(self, kernel: Kernel, rotation: Rotation, launches: int) -> None:
        self.launches = launches
        self._kernel = kernel
        self._rotation = rotation
        kernel(*rotation.sets[0])

    def enqueue(self, replays: int) -> list[Event]:
        """`replays` + 1 events: before the first replay and after each."""
        sets, kernel = self._rotation.sets, self._kernel
        events = [_recorded()]
        for _ in range(replays):
            for launch in range(self.launches):
                kernel(*sets[launch % len(sets)])
            events.append(_recorded())
        return events


def timed(kernel: Kernel, rotation: Rotation, launches: int, *, graph: bool) -> Timed:
    """The kernel ready to be timed in one of both ways."""
    return GraphTimed(kernel, rotation, launches) if graph else EagerTimed(kernel, rotation, launches)


def per_launch_ms(events: list[Event], launches: int) -> tuple[float, ...]:
    """Milliseconds a launch in each replay between `events`, which the GPU must have passed."""
    return tuple(start.elapsed_time(end) / launches for start, end in pairwise(events))


def rough_ms(kernel: Kernel, rotation: Rotation) -> float:
    """Milliseconds of one launch with the host's overhead in it, the least of three."""
    kernel(*rotation.sets[0])
    times: list[float] = []
    for launch in range(3):
        start = _recorded()
        kernel(*rotation.sets[launch % len(rotation.sets)])
        end = _recorded()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)


def _recorded() -> Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
