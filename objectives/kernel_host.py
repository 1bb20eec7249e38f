"""The kernel inside a compile worker: bound once a shape on the fake device, lowered once a config."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helitune.acfs.errors import InputError, UserError
from helitune.search.args import format_shape
from helitune.search.candidate import canonical
from helitune.search.space import Dimension, Value
from helitune.search.workload import WorkloadRecord

from .compile_cache import CompileCache
from .trip_counts import Loop, trip_counts

if TYPE_CHECKING:
    from .config_space import ConfigSpace


@dataclass(frozen=True, slots=True)
class Baseline:
    """A config measured before any search: `name` says whose ("own", "helion default", "helion seed 2").

    `slots` are its values in the config space; `acf_path` is the ACF it brings, "" for none.
    """

    name: str
    config: dict[str, Any]
    slots: tuple[Value, ...]
    acf_path: str


@dataclass(frozen=True, slots=True)
class Description:
    """What a search needs to know of a workload: its record, space, baselines, and bytes moved per shape."""

    record: WorkloadRecord
    dimensions: tuple[Dimension, ...]
    baselines: tuple[Baseline, ...]
    bytes_moved: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoweredLaunch:
    """One launch of a config on one shape: where its PTX is cached, and what scoring needs beside the cubin."""

    ptx_key: str
    ptx_sha256: str
    ptxas_flags: tuple[str, ...]
    grid: tuple[int, ...]
    num_warps: int
    shared_bytes: int
    loops: tuple[Loop, ...]


def serve(channel: Connection) -> None:
    """Answer calls on `channel` until it closes: ("returned", value) or ("raised", error)."""
    channel.send(os.getpid())
    host: KernelHost | None = None
    while True:
        try:
            method, arguments = channel.recv()
        except EOFError:
            return
        try:
            if method == "load":
                host, answer = KernelHost(**arguments[0]), None
            else:
                answer = getattr(host, method)(*arguments)
            channel.send(("returned", answer))
        except UserError as error:
            channel.send(("raised", error))
        except MemoryError:
            raise  # the memory limit: this process is no longer to be trusted
        except BaseException as error:  # noqa: BLE001  whatever a compiler raises costs one candidate
            channel.send(("raised", (type(error).__name__, _telling_line(error))))


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
        self._shapes: dict[int, _BoundShape] = {}

    def describe(self) -> Description:
        """Record, config space, baselines and bytes moved; every shape must have the same config keys."""
        from .config_space import ConfigSpace

        first = self._shape(0)
        space = ConfigSpace(first.bound)
        self._require_one_space(space)
        named = _baseline_configs(first.bound)
        normal = [first.bound.config_spec.normalized_config(_without_acf(config)) for _, config in named]
        space.include(normal)
        baselines = tuple(
            Baseline(name, _as_json(config), space.flatten(config), _acf_path(given))
            for (name, given), config in zip(named, normal, strict=True)
        )
        shapes = range(len(self._workload.shapes))
        return Description(
            record=self._workload.record,
            dimensions=space.dimensions(),
            baselines=baselines,
            bytes_moved=tuple(self._workload.bytes_moved(i, self._shape(i).outputs()) for i in shapes),
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
                config = _as_json(space.unflatten(row))
                for index in range(1, len(self._workload.shapes)):
                    self._shape(index).bound.config_spec.normalized_config(config)
                answers.append(config)
            except (InvalidConfig, ValueError, TypeError, KeyError, AssertionError) as error:
                answers.append(f"{type(error).__name__}: {_telling_line(error)}")
        return answers

    def build(self, config: Mapping[str, Any], shape: int) -> list[LoweredLaunch]:
        """The launches of `config` on shape number `shape`, each with its PTX in the cache."""
        return self._shape(shape).build(config, self._cache)

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

    def _shape(self, index: int) -> _BoundShape:
        if index not in self._shapes:
            self._shapes[index] = _BoundShape(self._workload, index)
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


class _BoundShape:
    """The kernel bound to one shape of the workload, with FakeTensors as its arguments."""

    def __init__(self, workload: Any, index: int) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self._fake_mode = FakeTensorMode()
        self._arguments = workload.fake_arguments(index, self._fake_mode)
        try:
            self.bound = workload.kernel.bind(tuple(self._arguments))
        except Exception as error:
            raise InputError(
                f"Helion cannot bind {workload.kernel_name} to {format_shape(workload.shapes[index])!r}: "
                f"{type(error).__name__}: {_telling_line(error)}",
                where=workload.record.file,
                next_step="check --args against the kernel's arguments",
            ) from error

    def outputs(self) -> list[Any]:
        """The FakeTensors that the kernel returns, by running its host function for Helion's default config."""
        _, returned = self._capture(self.bound.config_spec.default_config())
        from .triton_launches import outputs_of

        return outputs_of(returned)

    def build(self, config: Mapping[str, Any], cache: CompileCache) -> list[LoweredLaunch]:
        """The launches of `config`, PTX taken from the cache or lowered into it."""
        import helion

        launches, _ = self._capture(helion.Config(**_unfrozen(config)))
        return [_lowered(launch, source, cache) for launch, source in launches]

    def _capture(self, config: Any) -> tuple[list[tuple[Any, str]], Any]:
        from .triton_launches import capture_launches

        host_function = self.bound.compile_config(config, allow_print=False)
        source = Path(host_function.__code__.co_filename).read_text()
        launches, returned = capture_launches(host_function, self._arguments, self._fake_mode)
        return [(launch, source) for launch in launches], returned


def _lowered(launch: Any, source: str, cache: CompileCache) -> LoweredLaunch:
    from .lowering import Lowered, lower, source_key

    key = source_key(launch)
    stored = cache.get("ptx", key)
    if stored is None:
        lowered = lower(launch)
        cache.put("ptx", key, lowered.to_bytes())
    else:
        lowered = Lowered.from_bytes(stored)
    return LoweredLaunch(
        ptx_key=key,
        ptx_sha256=lowered.ptx_sha256,
        ptxas_flags=lowered.ptxas_flags,
        grid=launch.grid,
        num_warps=lowered.num_warps,
        shared_bytes=lowered.shared_bytes,
        loops=tuple(trip_counts(source, launch.name, launch.scalars, launch.grid)),
    )


def _baseline_configs(bound: Any) -> list[tuple[str, Any]]:
    """The kernel's own configs, Helion's default and its seeds, named, without repeats."""
    spec = bound.config_spec
    named = [("own" if i == 0 else f"own {i + 1}", config) for i, config in enumerate(bound.kernel.configs)]
    named.append(("helion default" if named else "own", spec.default_config()))
    seeds = spec.create_config_generation().seed_flat_config_pairs()
    named += [(f"helion seed {i + 1}", config) for i, (_, config) in enumerate(seeds)]
    kept: dict[str, tuple[str, Any]] = {}
    for name, config in named:
        kept.setdefault(canonical(_as_json(spec.normalized_config(config))), (name, config))
    return list(kept.values())


def _without_acf(config: Any) -> dict[str, Any]:
    return {key: value for key, value in dict(config).items() if key != "advanced_controls_file"}


def _acf_path(config: Any) -> str:
    return str(dict(config).get("advanced_controls_file") or "")


def _as_json(config: Any) -> dict[str, Any]:
    """A Helion config as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(config)))
    return plain


def _unfrozen(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in config.items()}


def _limit_memory(memory_bytes: int) -> None:
    """Bound this process's address space to what it has now plus `memory_bytes`."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _telling_line(error: BaseException) -> str:
    """The line of an error that says what is wrong: Triton begins with the place and ends with the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return (lines[-1] if lines[0].startswith("at ") else lines[0])[:500]
