"""Looks at the installed packages by importing them, and prints a line of JSON before and after each look.

`python -m helitune.objectives.installed_stack_child ARCH TOOLKIT UUID`, in the user's own environment: what plain
Helion and Triton would do there is the question. A package that crashes its importer ends this process, and the
lines that came before still count.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .gpu.nvml import open_nvml
from .telling_line import telling_line

PACKAGES = ("torch", "triton", "helion", "compileiq")
_IMPORTED = {"compileiq": "compileiq.ciq"}
"""What is imported of a package, where its own name imports nothing yet."""
_REACH_TIMEOUT_S = 5.0


def main(arch: str, toolkit: str, uuid: str) -> None:
    """Print what was found of each package, of Triton's ptxas, the search space, torch's CUDA and NVML."""
    looks: dict[str, Callable[[], dict[str, Any]]] = {
        "triton_ptxas": lambda: triton_ptxas(arch),
        "search_space": lambda: search_space(toolkit),
    }
    if uuid:
        looks |= {"sensors": lambda: sensors(uuid), "cuda": torch_cuda}
    looks |= {name: partial(package, name) for name in PACKAGES}
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a package prints while it is imported is no answer of ours

    def report(about: str, fields: dict[str, Any]) -> None:
        print(json.dumps({"about": about, **fields}), file=channel, flush=True)

    for name, look in looks.items():
        report("looking", {"at": name})
        report(name, _found(look))
    report("end", {})


def package(name: str) -> dict[str, Any]:
    """The package's version, "" without one, and why it cannot be imported."""
    return {
        "version": _version(name),
        "error": _error_of(partial(importlib.import_module, _IMPORTED.get(name, name))),
    }


def triton_ptxas(arch: str) -> dict[str, Any]:
    """The ptxas that Triton picks for `arch` ("sm_90"): path, toolkit version, and the PTX version it will write."""
    from triton.backends.nvidia.compiler import get_ptxas, ptx_get_version

    tool = get_ptxas(int(arch.removeprefix("sm_")))
    return {"path": str(tool.path), "toolkit": tool.version, "ptx_version": ptx_get_version(tool.version)}


def search_space(toolkit: str) -> dict[str, Any]:
    """Where CompileIQ will take the space of ptxas controls from: how ("mirror", "cache", "network"), and which."""
    from compileiq.search_spaces import resolver

    mirror = os.environ.get(resolver.LOCAL_DIR_ENV_VAR)
    if mirror:
        # with a mirror the resolver reads and verifies the file, and opens no connection
        return {"how": "mirror", "where": str(resolver.resolve("ptxas", toolkit))}
    cached = sorted(resolver._cache_root().glob(f"*/*_ptxas{toolkit}*.bin"))
    if cached:
        return {"how": "cache", "where": str(cached[-1])}
    return {"how": "network", "where": _reached(f"{resolver.GH_API}/repos/{resolver._release_repo()}")}


def _reached(address: str) -> str:
    """The address, where it answers; ConnectionError in a few words where it does not."""
    import requests

    try:
        requests.get(address, timeout=_REACH_TIMEOUT_S).raise_for_status()
    except requests.RequestException as error:
        status = (
            f"status {error.response.status_code}" if error.response is not None else type(error).__name__
        )
        raise ConnectionError(f"{address} does not answer ({status})") from None
    return address


def torch_cuda() -> dict[str, Any]:
    """The CUDA version that torch was built for ("" for a CPU build), and how many GPUs it sees."""
    import torch

    built_for = torch.version.cuda or ""
    if built_for:
        torch.cuda.init()  # unlike is_available, it says what is wrong
    return {"built_for": built_for, "gpus": torch.cuda.device_count()}


def sensors(uuid: str) -> dict[str, Any]:
    """One reading of the GPU's sensors, `readable` false where NVML cannot be opened."""
    opened = open_nvml(uuid)
    if opened is None:
        return {"readable": False}
    state = opened.read()
    return {
        "readable": True,
        "sm_clock_mhz": state.sm_clock_mhz,
        "temperature_c": state.temperature_c,
        "power_w": state.power_w,
        "throttle_reasons": list(state.throttle_reasons),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _found(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a look gives, or {"error": why it gives nothing}."""
    found: dict[str, Any] = {}
    error = _error_of(lambda: found.update(look()))
    return {"error": error, **found}


def _error_of(call: Callable[[], object]) -> str:
    """ "" where the call returns, else the error's class and the line that says what is wrong."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  whatever a package raises is what is wrong with it
        return f"{type(error).__name__}: {telling_line(error)}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:4])
