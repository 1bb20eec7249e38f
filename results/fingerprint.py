"""The environment a result depends on: versions, target, and the ptxas that made the code."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from helitune.acfs.ptxas import Ptxas
from helitune.objectives.device import Device

PACKAGES = ("helitune", "torch", "triton", "helion", "compileiq")


def fingerprint(ptxas: Ptxas, arch: str, device: Device | None = None) -> dict[str, Any]:
    """Python, package versions, ptxas (version and sha256) and target architecture, as JSON values.

    `device` is the GPU that was measured on; where none was, nothing stands for it.
    """
    gpu = {"gpu": {"name": device.name, "driver": device.driver}} if device is not None else {}
    return {
        "arch": arch,
        **gpu,
        "ptxas": {"version": ptxas.version, "sha256": ptxas.sha256},
        "packages": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
    }


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What changed from `then` to `now`, one "what: old → new" each; the Python patch level does not count."""
    flat_then, flat_now = _flat(then), _flat(now)
    return [
        f"{key}: {flat_then.get(key, 'none')} → {flat_now.get(key, 'none')}"
        for key in sorted({*flat_then, *flat_now} - {"python", "platform", "packages.helitune"})
        if flat_then.get(key) != flat_now.get(key)
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in fields.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value)
    return flat
