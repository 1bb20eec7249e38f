"""Arms that stand side by side on one shape, each with code, graph and outputs of its own, and their rounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import torch

from helitune.objectives.arm_times import ArmRound, Standing, launches_for, samples_for
from helitune.objectives.build import ShapeBuild

from .nvml import GpuSensors
from .stand import MOST_LAUNCHES, Stand
from .timed import Event, Timed, per_launch_ms, timed
from .warm_up import until_stable

TRIES = 3
"""So often the arms are made anew because the fastest turned out to need more launches a sample."""


class Arms:
    """Named builds on one shape around the same rotating inputs, made in the order they are given.

    `stand` is the shape's, `graph` says how to time. A build that stands twice is loaded twice: each arm has its
    own module, graph and output buffers.
    """

    def __init__(
        self, stand: Stand, builds: Mapping[str, ShapeBuild], sensors: GpuSensors | None, *, graph: bool
    ) -> None:
        self._rotation = stand.rotation
        self._sensors = sensors
        kernels = {name: stand.load(build) for name, build in builds.items()}
        sets = len(self._rotation.sets)
        launches = launches_for([stand.own_ms], sets, MOST_LAUNCHES)
        self._arms: dict[str, Timed] = {}
        for _ in range(TRIES):
            self._arms.clear()  # its graphs hold outputs: they are not to be there twice
            for name, kernel in kernels.items():
                self._arms[name] = timed(kernel, self._rotation, launches, graph=graph)
            ms = {name: _rough_ms(arm) for name, arm in self._arms.items()}
            wanted = launches_for(list(ms.values()), sets, MOST_LAUNCHES)
            if wanted <= launches:
                break
            launches = wanted
        slowest_ms = launches * max(ms.values())
        self.standing = Standing(launches, samples_for(slowest_ms), ms, self._rotation.cold)

    def warm_up(self, at_most_s: float) -> None:
        """Run the first arm until its times agree or the time is up."""
        first = next(iter(self._arms.values()))
        until_stable(lambda: _rough_ms(first), at_most_s=at_most_s)

    def round(self, order: Sequence[str]) -> ArmRound:
        """One round of the arms in `order`, then of the same the other way round."""
        samples = mirrored(self._arms, order, self.standing.samples, self._rotation.restore)
        read = self._sensors.read() if self._sensors else None
        return ArmRound(
            order=tuple(order),
            samples_ms=samples,
            sm_clock_mhz=read.sm_clock_mhz if read else None,
            temperature_c=read.temperature_c if read else None,
            throttle_reasons=read.throttle_reasons if read else (),
        )


def mirrored(
    arms: Mapping[str, Timed], order: Sequence[str], samples: int, restore: Callable[[], None]
) -> dict[str, tuple[float, ...]]:
    """Milliseconds a launch of each arm, from two turns of `samples` samples: in `order`, then mirrored.

    A drift that is linear over the round is the same for all arms. `restore` puts back what launches changed:
    every turn starts from the same inputs.
    """
    turns = [*order, *reversed(order)]
    restore()
    arms[turns[0]].enqueue(1)  # so that the first turn's start does not wait for the host
    enqueued: list[tuple[str, list[Event]]] = []
    for name in turns:
        restore()
        enqueued.append((name, arms[name].enqueue(samples)))
    enqueued[-1][1][-1].synchronize()
    times: dict[str, tuple[float, ...]] = dict.fromkeys(order, ())
    for name, events in enqueued:
        times[name] += per_launch_ms(events, arms[name].launches)
    return times


def _rough_ms(arm: Timed) -> float:
    """Milliseconds a launch: the least of two samples after one that does not count."""
    events = arm.enqueue(3)
    events[-1].synchronize()
    return min(per_launch_ms(events, arm.launches)[1:])


LARGE_PADS, SMALL_PADS = 4, 4
GRANULE_BYTES = 512
"""What torch's allocator rounds sizes up to."""

LARGE_GRANULE_BYTES = 2 << 20
MOST_PAD_BYTES = 256 << 20


def pad_sizes(seed: int, free_bytes: int) -> list[int]:
    """Bytes of the allocations that displace a run's buffers, drawn from `seed`; together at most a tenth of memory.

    Large ones move what comes after them to other addresses and other pages of the GPU; small ones move the
    small tensors inside the blocks that torch keeps for them.
    """
    rng = random.Random(f"pads {seed}")
    most = min(MOST_PAD_BYTES, free_bytes // (10 * (LARGE_PADS + 1)))
    large = [
        LARGE_GRANULE_BYTES * rng.randint(1, max(1, most // LARGE_GRANULE_BYTES)) for _ in range(LARGE_PADS)
    ]
    small = [GRANULE_BYTES * rng.randint(1, 1000) for _ in range(SMALL_PADS)]
    sizes = large + small
    rng.shuffle(sizes)
    return sizes


def pads(seed: int) -> list[torch.Tensor]:
    """Allocations to be kept as long as the run: all that is allocated after them lies elsewhere than in another."""
    torch.cuda.empty_cache()
    free_bytes, _ = torch.cuda.mem_get_info()
    return [torch.empty(size, dtype=torch.uint8, device="cuda") for size in pad_sizes(seed, free_bytes)]
