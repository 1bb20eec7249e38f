"""The environment of compile processes: the chosen ptxas for Triton, and nothing that changes results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from helitune.acfs.ptxas import Ptxas

_CHANGES_RESULTS = ("HELION_", "TRITON_", "PTXAS_OPTIONS", "DISABLE_PTXAS_OPT", "MLIR_", "LLVM_")


def ignored_variables(environment: Mapping[str, str]) -> list[str]:
    """Names of variables that would change what Helion, Triton or ptxas make, and are therefore not passed on."""
    return sorted(name for name in environment if name.startswith(_CHANGES_RESULTS))


def without_what_changes_results(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without the variables that `ignored_variables` names."""
    return {k: v for k, v in environment.items() if not k.startswith(_CHANGES_RESULTS)}


def compile_environment(
    ptxas: Ptxas, environment: Mapping[str, str], scratch: Path | None = None
) -> dict[str, str]:
    """`environment` for compile processes: both of Triton's ptxas variables set, no GPU visible.

    Generated source and what Triton caches of it go to `scratch`, which the caller removes: paths stand in
    debug lines only, never in code, and what is worth keeping is in our own cache.
    """
    scratch = scratch or Path(tempfile.gettempdir()) / f"helitune-codegen-{os.geteuid()}"
    return {**_of_workers(ptxas, environment, scratch), "CUDA_VISIBLE_DEVICES": ""}


def gpu_environment(
    ptxas: Ptxas, environment: Mapping[str, str], scratch: Path, device: str
) -> dict[str, str]:
    """As `compile_environment`, for the process that runs what was compiled: it sees the GPU of this UUID alone."""
    return {
        **_of_workers(ptxas, environment, scratch),
        "CUDA_VISIBLE_DEVICES": device,
        # asking how many GPUs there are must not start CUDA in a process that forks
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }


def _of_workers(ptxas: Ptxas, environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    return {
        **without_what_changes_results(environment),
        # Triton chooses by architecture and version which of the two it reads
        "TRITON_PTXAS_PATH": str(ptxas.path),
        "TRITON_PTXAS_BLACKWELL_PATH": str(ptxas.path),
        "TRITON_DEFAULT_FP_FUSION": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "HELION_AUTOTUNE_LOG_LEVEL": "0",
        "PYTHONUNBUFFERED": "1",
    }
