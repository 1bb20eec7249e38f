"""The kernel inside a compile worker: bound once a shape on the fake device, lowered once a config."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helitune.acfs.errors import InputError
from helitune.search.args import format_shape
from helitune.search.space import Dimension, Value
from helitune.search.workload import WorkloadRecord

from .artifact import Artifact
from .artifacts import read_cached
from .baseline_configs import Baseline, acf_path, as_json, baseline_configs, without_acf
from .bound_shape import BoundShape, LoweredLaunch
from .compile_cache import CompileCache
from .flop_count import FlopCount
from .telling_line import telling_line

if TYPE_CHECKING:
    from .config_space import ConfigSpace


@dataclass(frozen=True, slots=True)
class Description:
    """What a search needs to know of a workload: its record, space, baselines, and bytes and FLOPs per shape."""

    record: WorkloadRecord
    dimensions: tuple[Dimension, ...]
    baselines: tuple[Baseline, ...]
    bytes_moved: tuple[int, ...]
    flops: tuple[FlopCount | None, ...] = ()


class KernelHost:
    """A kernel file loaded in this process, answering questions about its configs.

    `file`, `kernel`, `reference` and `args` are what the command line said; `cache_root` is where PTX goes.
    """

    def __init__(
        self,
        file: str,
        kernel: str | None,
        reference: str | None,
        args: Sequence[str],
        cache_root: str,
        memory_bytes: int,
    ) -> None:
        from .discovery import load_workload

        _limit_memory(memory_bytes)
        self._cache = CompileCache(Path(cache_root))
        self._workload = load_workload(Path(file), kernel, reference, args)
        self._shapes: dict[int, BoundShape] = {}

    def describe(self) -> Description:
        """Record, config space, baselines and bytes moved; every shape must have the same config keys."""
        from .config_space import ConfigSpace
        from .flops import workload_flops

        first = self._shape(0)
        space = ConfigSpace(first.bound)
        self._require_one_space(space)
        named = baseline_configs(first.bound)
        normal = [first.bound.config_spec.normalized_config(without_acf(config)) for _, config in named]
        space.include(normal)
        baselines = tuple(
            Baseline(name, as_json(config), space.flatten(config), acf_path(given))
            for (name, given), config in zip(named, normal, strict=True)
        )
        shapes = range(len(self._workload.shapes))
        return Description(
            record=self._workload.record,
            dimensions=space.dimensions(),
            baselines=baselines,
            bytes_moved=tuple(self._workload.bytes_moved(i, self._shape(i).outputs()) for i in shapes),
            flops=tuple(workload_flops(self._workload, i) for i in shapes),
        )

    def normalise(self, rows: Sequence[Sequence[Value]]) -> list[dict[str, Any] | str]:
        """The normalised config of each row of slot values, or the reason why there is none.

        A config must be valid on every shape of the workload.
        """
        from helion.exc import InvalidConfig

        from .config_space import ConfigSpace

        space = ConfigSpace(self._shape(0).bound)
        answers: list[dict[str, Any] | str] = []
        for row in rows:
            try:
                config = as_json(space.unflatten(row))
                for index in range(1, len(self._workload.shapes)):
                    self._shape(index).bound.config_spec.normalized_config(config)
                answers.append(config)
            except (InvalidConfig, ValueError, TypeError, KeyError, AssertionError) as error:
                answers.append(f"{type(error).__name__}: {telling_line(error)}")
        return answers

    def slots(self, config: Mapping[str, Any]) -> tuple[Value, ...] | str:
        """One value a slot for `config`, or the reason why Helion's space has no such config."""
        from helion import Config
        from helion.exc import InvalidConfig

        from .config_space import ConfigSpace

        spec = self._shape(0).bound.config_spec
        space = ConfigSpace(self._shape(0).bound)
        try:
            wanted = spec.normalized_config(without_acf(Config(**config)))
            slots = space.flatten(wanted)
            lost = _differing(as_json(wanted), as_json(space.unflatten(slots)))
        except (InvalidConfig, ValueError, TypeError, KeyError, AssertionError) as error:
            return f"{type(error).__name__}: {telling_line(error)}"
        return f"it cannot express {', '.join(lost)}" if lost else slots

    def build(self, config: Mapping[str, Any], shape: int) -> list[LoweredLaunch]:
        """The launches of `config` on shape number `shape`, each with its PTX in the cache."""
        return self._shape(shape).build(config, self._cache)

    def read_artifact(self, launch: LoweredLaunch, cubin_key: str) -> Artifact:
        """What the cubin in the cache says of one launch."""
        return read_cached(self._cache, launch, cubin_key)

    def _require_one_space(self, first: ConfigSpace) -> None:
        """Raise InputError where another shape of the workload has other config keys than the first."""
        from .config_space import ConfigSpace

        labels = [dimension.label for dimension in first.dimensions()]
        for index in range(1, len(self._workload.shapes)):
            others = [d.label for d in ConfigSpace(self._shape(index).bound).dimensions()]
            if labels != others:
                differing = sorted(set(labels) ^ set(others))
                raise InputError(
                    f"{format_shape(self._workload.shapes[index])!r} has another config space than "
                    f"{format_shape(self._workload.shapes[0])!r}: {', '.join(differing)}",
                    where=self._workload.record.file,
                    next_step="tune shapes that Helion configures differently in runs of their own",
                )

    def _shape(self, index: int) -> BoundShape:
        if index not in self._shapes:
            self._shapes[index] = BoundShape(self._workload, index)
        return self._shapes[index]

    def save_helion_form(self, config: Mapping[str, Any], path: str) -> None:
        """Write `config` as helion.Config.save does."""
        from .plain_compile import save_helion_form

        save_helion_form(config, Path(path))

    def compile_plainly(self, form: Mapping[str, Any] | str, shape: int) -> tuple[str, ...]:
        """CODE_SHA256:GRID of each launch of `form` on shape number `shape`, compiled without our shortcuts.

        `form` is a config, or the path of a pin's Helion or Python form.
        """
        from .plain_compile import plain_code

        return plain_code(self._workload, form, shape)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The keys whose values differ."""
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def _limit_memory(memory_bytes: int) -> None:
    """Bound this process's address space to what it has now plus `memory_bytes`."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
