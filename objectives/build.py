"""What the GPU process is handed to run a candidate: names of files and cache entries, no code of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchBuild:
    """One kernel: its lowering (cache kind "ptx", named by lowering.source_key) and its cubin (kind "cubin")."""

    source_key: str
    cubin_key: str


@dataclass(frozen=True, slots=True)
class ShapeBuild:
    """A candidate on one shape: the Python that Helion generated, its function, and the kernels it launches."""

    host_path: str
    host_name: str
    launches: tuple[LaunchBuild, ...]


Build = tuple[ShapeBuild, ...]
"""A candidate on every shape of its workload."""
