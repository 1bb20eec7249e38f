"""Made-up kernels: how long a config would take, from what is known to decide it. No measurement stands behind them.

They have the axes of Helion's real config spaces (10^12 to 10^16 configs) and the shapes of real landscapes:
registers that run out and spill, shared memory that does not suffice, waves that do not fill the GPU, keys that
another key makes irrelevant, and many keys that hardly matter. Each instance draws its own minor effects.
Times are relative; what is invalid has none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from helitune.search.space import Dimension, Genome, Value

Config = Mapping[str, Any]
"""Value of each axis by its label."""

SMS, REGISTERS, SHARED_BYTES, MAX_WARPS = 132, 65536, 232_448, 64

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
STAGES = (1, 2, 3, 4, 5, 6, 7, 8)
EVICTIONS = ("", "first", "last")
INDEXING = ("pointer", "tensor_descriptor")
PIDS = ("flat", "persistent_blocked", "persistent_interleaved")


class Invalid(Exception):
    """No kernel can be generated for the config; `free` where normalising already says so."""

    def __init__(self, *, free: bool) -> None:
        super().__init__()
        self.free = free


@dataclass(frozen=True, slots=True)
class Cost:
    """Relative time of a config, and what an ACF's effect on it depends on."""

    time: float
    features: tuple[int, ...]
    spills: bool


@dataclass(frozen=True)
class KernelModel:
    """A made-up kernel: axes, cost of a config, and the configs that its author and Helion would start from."""

    axes: dict[str, tuple[Value, ...]]
    cost: Callable[[Config], Cost]
    starts: tuple[dict[str, Value], ...]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The axes as a joint space takes them."""
        return tuple(
            Dimension(label, None, (slot,), tuple((value,) for value in values))
            for slot, (label, values) in enumerate(self.axes.items())
        )

    def config(self, genome: Genome) -> dict[str, Value]:
        """The normalised config of a genome: keys that others make irrelevant have their default."""
        config = {
            label: values[index] for (label, values), index in zip(self.axes.items(), genome, strict=False)
        }
        if config["pid_type"] == "flat":
            config["num_sm_multiplier"], config["maxnreg"] = self.axes["num_sm_multiplier"][0], None
        if all(config[label] == "pointer" for label in config if label.startswith("indexing")):
            config["host_tensor_descriptors"] = False
        return config

    def genome(self, start: Mapping[str, Value]) -> Genome:
        """The genome of a start without an ACF; keys it leaves out have their default."""
        places = (values.index(start.get(label, values[0])) for label, values in self.axes.items())
        return (*places, 0)


def row_kernel(source: random.Random, *, columns: int, accesses: int) -> KernelModel:
    """A softmax or norm over rows: bound by memory while enough bytes are in flight."""
    chunks = tuple(p for p in POWERS if p >= 8 and p < columns)
    axes: dict[str, tuple[Value, ...]] = {
        "block_sizes[0]": POWERS,
        "reduction_loops[0]": (None, *chunks),
        **_range_axes("0"),
        **_common_axes(accesses),
        "reduction_fusion": (False, True),
    }
    minor = _Minor(source, axes, ("range", "indexing", "load_eviction", "reduction_fusion", "host"))
    width = 2 ** math.ceil(math.log2(columns))
    pipelined = source.uniform(0.5, 1.0)

    def cost(config: Config) -> Cost:
        rows, warps = config["block_sizes[0]"], config["num_warps"]
        chunk = config["reduction_loops[0]"] or width
        if rows * chunk > 2**20:
            raise Invalid(free=True)
        looped = chunk < width
        per_thread = rows * chunk / (32 * warps)
        stages = config["num_stages"] if looped else 1
        registers = 22 + 1.2 * per_thread + 3 * config["range_unroll_factors[0]"] * looped
        resident, spilled = _residency(config, registers, 8 * rows + 2 * rows * chunk * (stages - 1))
        in_flight = resident * warps * 32 * min(per_thread, 24) * (1 + 0.3 * pipelined * (stages > 1))
        bandwidth = 1 - math.exp(-in_flight / 12_000)
        passes = 1.0 + (0.35 + 0.1 * (config["load_eviction_policies[0]"] != "last")) * looped
        idle = 1 + 0.25 * max(0.0, -math.log2(per_thread))
        overhead = 1 + 0.02 * (width / chunk) ** 0.7 * looped
        time = passes * idle * overhead / (bandwidth + 0.01) * _waves(config, 4096 / rows, resident)
        return minor.cost(config, time, registers, spilled, warps)

    own: dict[str, Value] = {"block_sizes[0]": 4, "num_warps": 8}
    seeds = tuple({"block_sizes[0]": b, "num_warps": w} for b, w in ((1, 4), (2, 4), (1, 8), (8, 4)))
    looped: dict[str, Value] = {"block_sizes[0]": 1, "reduction_loops[0]": 1024}
    return KernelModel(axes, cost, (own, {}, looped, *seeds))


def matmul_kernel(source: random.Random) -> KernelModel:
    """A matmul with an epilogue: bound by tensor cores where the tile feeds them."""
    axes: dict[str, tuple[Value, ...]] = {
        "block_sizes[0]": POWERS[4:],
        "block_sizes[1]": (*POWERS[4:], 4096),
        "block_sizes[2]": (*POWERS[4:], 4096),
        "loop_orders[0]": ((0, 1), (1, 0)),
        "l2_groupings[0]": POWERS[:7],
        **_range_axes("0"),
        **_range_axes("1"),
        **_common_axes(3),
    }
    minor = _Minor(source, axes, ("range", "indexing", "load_eviction", "loop_orders", "host"))
    descriptors = source.uniform(-0.06, 0.04)

    def cost(config: Config) -> Cost:
        m, n, k = (config[f"block_sizes[{axis}]"] for axis in range(3))
        warps, stages = config["num_warps"], config["num_stages"]
        if max(m * n, m * k, n * k) > 2**20:
            raise Invalid(free=True)
        shared = (m + n) * k * 2 * stages
        if shared > SHARED_BYTES:
            raise Invalid(free=False)
        registers = 40 + m * n / (32 * warps) + (m + n) * min(k, 64) / (64 * warps)
        registers += 6 * config["range_unroll_factors[1]"]
        resident, spilled = _residency(config, registers, shared)
        fed = min(1.0, m / 64) ** 0.5 * min(1.0, n / 64) ** 0.5 * (1 if warps >= 4 else 0.7)
        hidden = 1 - 0.5 * math.exp(-(stages - 1) * k / 64) * 0.8 ** (resident - 1)
        if config["indexing[0]"] == config["indexing[1]"] == "tensor_descriptor":
            hidden *= 1 - (descriptors if k >= 64 else 0.08)
        traffic = 64 * (1 / m + 1 / n) * (1 + 0.3 * abs(math.log2(config["l2_groupings[0]"] / 8)) / 3)
        compute = 1 / (fed * hidden * (1 - 0.04 * abs(math.log2(n / m))))
        time = (compute**4 + (0.8 * traffic) ** 4) ** 0.25
        time *= _waves(config, (4096 / m) * (4096 / n), resident)
        return minor.cost(config, time, registers, spilled, warps)

    tile = {f"block_sizes[{axis}]": size for axis, size in enumerate((128, 128, 32))}
    own: dict[str, Value] = {**tile, "num_warps": 8, "num_stages": 3, "l2_groupings[0]": 4}
    large: dict[str, Value] = {**own, "block_sizes[1]": 256, "block_sizes[2]": 64, "num_stages": 2}
    small: dict[str, Value] = {**own, "block_sizes[0]": 64, "num_warps": 4, "num_stages": 4}
    return KernelModel(axes, cost, (own, {}, large, small))


class _Minor:
    """Small effects drawn for one instance: most values of most minor axes do nothing, a few interact."""

    def __init__(
        self, source: random.Random, axes: Mapping[str, tuple[Value, ...]], prefixes: tuple[str, ...]
    ) -> None:
        labels = [label for label in axes if label.startswith(prefixes)]
        self._alone = [
            (label, {value: source.gauss(0, 0.012) for value in axes[label][1:]})
            for label in labels
            if source.random() < 0.45
        ]
        majors = [label for label in axes if label not in labels]
        self._pairs = [
            (label, major, source.getrandbits(30)) for label in labels for major in source.sample(majors, 1)
        ]
        self._salt = source.getrandbits(30)

    def cost(self, config: Config, time: float, registers: float, spilled: float, warps: int) -> Cost:
        """The cost of a config whose major keys give `time`."""
        log = sum(effects.get(config[label], 0.0) for label, effects in self._alone)
        for label, major, salt in self._pairs:
            log += max(0.0, unit(salt, config[label], config[major]) - 0.85) * 0.12
        log += (unit(self._salt, *config.values()) - 0.5) * 0.012  # what nobody can explain
        log += 0.12 * math.log2(1 + spilled)
        bucket = min(4, int(math.log2(max(registers, 16) / 16)))
        features = (POWERS.index(warps), bucket, PIDS.index(config["pid_type"]))
        return Cost(time * math.exp(log), features, spilled > 0)


def _range_axes(loop: str) -> dict[str, tuple[Value, ...]]:
    return {
        f"range_unroll_factors[{loop}]": (0, 1, 2, 3, 4),
        f"range_num_stages[{loop}]": (0, 1, 2, 3, 4),
        f"range_multi_buffers[{loop}]": (None, False, True),
        f"range_flattens[{loop}]": (None, False, True),
    }


def _common_axes(accesses: int) -> dict[str, tuple[Value, ...]]:
    return {
        "num_warps": (4, 1, 2, 8, 16, 32),
        "num_stages": STAGES,
        **{f"indexing[{i}]": INDEXING for i in range(accesses + 1)},
        "host_tensor_descriptors": (False, True),
        "pid_type": PIDS,
        "num_sm_multiplier": POWERS[:8],
        **{f"load_eviction_policies[{i}]": EVICTIONS for i in range(accesses)},
        "maxnreg": (None, 32, 64, 128, 256),
    }


def _residency(config: Config, registers: float, shared: float) -> tuple[int, float]:
    """Blocks that one SM holds at once, and the registers that do not fit and spill."""
    warps = config["num_warps"]
    limit = min(255, REGISTERS // (32 * warps), config["maxnreg"] or 255)
    used = max(16.0, min(registers, limit))
    resident = min(REGISTERS / (used * 32 * warps), MAX_WARPS / warps, SHARED_BYTES / max(shared, 1024), 32)
    return max(1, int(resident)), max(0.0, registers - limit)


def _waves(config: Config, blocks: float, resident: int) -> float:
    """The loss from a last wave that does not fill the GPU, or from persistent blocks that do not share evenly."""
    places = SMS * resident
    if config["pid_type"] == "flat":
        loss = math.ceil(blocks / places) / (blocks / places)
        return 1 + 0.5 * (min(loss, 40.0) - 1)
    started = min(blocks, SMS * config["num_sm_multiplier"])
    waves = math.ceil(started / places) / (started / places)
    shares = math.ceil(blocks / started) / (blocks / started)
    locality = 0.98 if config["pid_type"] == "persistent_interleaved" else 1.0
    return locality * (1 + 0.5 * (waves * shares - 1))


def unit(*key: object) -> float:
    """A number in [0, 1) that only `key` decides; Python's own hash of texts differs in every process."""
    state = 2166136261
    for part in key:
        state = ((state ^ _word(part)) * 16777619 + 0x9E3779B9) & 0xFFFFFFFF
        state ^= state >> 15
    return (state * 2654435761 & 0xFFFFFFFF) / 2**32


def _word(part: object) -> int:
    return part if isinstance(part, int) else int.from_bytes(repr(part).encode()[-6:], "little") & 0xFFFFFFFF
