"""A kernel bound to one shape of its workload on the fake device, and a config of it lowered to PTX."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.search.args import format_shape

from .compile_cache import CompileCache
from .telling_line import telling_line
from .trip_counts import Loop, trip_counts


@dataclass(frozen=True, slots=True)
class LoweredLaunch:
    """One launch of a config on one shape: where its PTX is cached, and what else assembling and scoring need.

    `host_path` is the Python that Helion generated for the config, whose function `host_name` makes the launch;
    `text_sha256` covers the PTX with its debug lines, `ptx_sha256` its code alone; `host_sha256` what the function
    does besides launching.
    """

    ptx_key: str
    ptx_sha256: str
    text_sha256: str
    host_path: str
    host_name: str
    host_sha256: str
    ptxas_flags: tuple[str, ...]
    grid: tuple[int, ...]
    num_warps: int
    shared_bytes: int
    loops: tuple[Loop, ...]


class BoundShape:
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
                f"{type(error).__name__}: {telling_line(error)}",
                where=workload.record.file,
                next_step="check --args against the kernel's arguments",
            ) from error

    def outputs(self) -> list[Any]:
        """The FakeTensors that the kernel returns, by running its host function for Helion's default config."""
        _, _, returned = self._capture(self.bound.config_spec.default_config())
        from .triton_launches import outputs_of

        return outputs_of(returned)

    def build(self, config: Mapping[str, Any], cache: CompileCache) -> list[LoweredLaunch]:
        """The launches of `config`, PTX taken from the cache or lowered into it."""
        import helion

        from .host_work import HostWork

        work = HostWork()
        host_function, launches, _ = self._capture(helion.Config(**config), work)
        host_sha256 = work.sha256()
        return [_lowered(launch, host_function, host_sha256, cache) for launch in launches]

    def _capture(self, config: Any, work: Any = None) -> tuple[Any, list[Any], Any]:
        """The generated host function, its launches, and what it returned."""
        from .triton_launches import capture_launches

        host_function = self.bound.compile_config(config, allow_print=False)
        launches, returned = capture_launches(host_function, self._arguments, self._fake_mode, work)
        return host_function, launches, returned


def _lowered(launch: Any, host_function: Any, host_sha256: str, cache: CompileCache) -> LoweredLaunch:
    from .lowering import Lowered, lower, source_key

    path = host_function.__code__.co_filename
    source = Path(path).read_text()
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
        text_sha256=hashlib.sha256(lowered.ptx.encode()).hexdigest(),
        host_path=path,
        host_name=host_function.__name__,
        host_sha256=host_sha256,
        ptxas_flags=lowered.ptxas_flags,
        grid=launch.grid,
        num_warps=lowered.num_warps,
        shared_bytes=lowered.shared_bytes,
        loops=tuple(trip_counts(source, launch.name, launch.scalars, launch.grid)),
    )
