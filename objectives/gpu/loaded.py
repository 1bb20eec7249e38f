"""A build made callable: Helion's generated function, launching the very cubins that were assembled for it.

Nothing is compiled here. Triton's launch path runs as it always does, up to the point where it would compile:
there it is handed the binary. The source that Triton specialises for the real arguments must be the one that
was lowered without a GPU; anything else is drift and raises.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from helitune.objectives.artifacts import unpacked
from helitune.objectives.build import LaunchBuild, ShapeBuild
from helitune.objectives.compile_cache import CompileCache
from helitune.objectives.lowering import Lowered, source_key


class Drift(Exception):
    """The real call is not the one that was compiled for."""


class BuildLost(Exception):
    """A compiled part was trimmed from the cache."""


class Loader:
    """Makes builds callable; `folder` keeps the files that Triton reads binaries from."""

    def __init__(self, cache: CompileCache, folder: Path) -> None:
        self._cache = cache
        self._folder = folder
        self._numbers = itertools.count()

    def load(self, build: ShapeBuild) -> Callable[..., Any]:
        """The function of one shape's arguments. Raises BuildLost; the call itself raises Drift."""
        module = _imported(Path(build.host_path), next(self._numbers))
        binaries = {launch.source_key: self._binary(launch) for launch in build.launches}
        for kernel in _kernels(module):
            _hand_over(kernel, binaries)
        function: Callable[..., Any] = getattr(module, build.host_name)
        return function

    def _binary(self, launch: LaunchBuild) -> dict[str, str]:
        """The files of one kernel, by their names as Triton's cache groups them."""
        stem = hashlib.sha256(f"{launch.source_key}\0{launch.cubin_key}".encode()).hexdigest()[:32]
        files = {
            f"{stem}.json": self._folder / f"{stem}.json",
            f"{stem}.cubin": self._folder / f"{stem}.cubin",
        }
        if not all(path.exists() for path in files.values()):
            lowered, cubin = self._entry("ptx", launch.source_key), self._entry("cubin", launch.cubin_key)
            files[f"{stem}.json"].write_text(Lowered.from_bytes(lowered).metadata)
            files[f"{stem}.cubin"].write_bytes(unpacked(cubin).cubin)
        return {name: str(path) for name, path in files.items()}

    def _entry(self, kind: str, key: str) -> bytes:
        stored = self._cache.get(kind, key)
        if stored is None:
            raise BuildLost(f"{kind} {key} is no longer in the compile cache")
        return stored


def _imported(path: Path, number: int) -> ModuleType:
    """A module of its own for every build: Triton keeps compiled kernels in the function objects."""
    name = f"helitune_build_{number}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kernels(module: ModuleType) -> Iterator[Any]:
    from triton.runtime.jit import JITFunction

    return (value for value in vars(module).values() if isinstance(value, JITFunction))


def _hand_over(kernel: Any, binaries: dict[str, dict[str, str]]) -> None:
    from triton.compiler.compiler import CompiledKernel

    def compile_nothing(source: Any, target: Any = None, options: Any = None, **_: Any) -> Any:
        key = source_key(SimpleNamespace(source=source, target=target, options=options))  # type: ignore[arg-type]
        if key not in binaries:
            raise Drift(
                f"{kernel.fn.__name__} is specialised otherwise for the real arguments than it was compiled for"
            )
        return CompiledKernel(source, binaries[key], key)

    kernel.device_caches[torch.cuda.current_device()]  # creates the binder, which sets kernel.compile
    kernel.compile = compile_nothing
