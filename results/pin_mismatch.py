"""Where a pin does not hold, said once; and what of an environment differs from where it was verified."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

from helitune.acfs.errors import UserError
from helitune.acfs.ptxas import find_ptxas
from helitune.objectives import kernel_call

from .pin import Pin
from .pin_environment import gpu_name, pinned_versions


class PinWarning(UserWarning):
    """A pin is not used, and the kernel runs as it is."""


class MismatchReport:
    """Warns of each reason once for a kernel; raises it every time where that was asked for."""

    def __init__(self, kernel: str, *, raising: bool) -> None:
        self.raising = raising
        self._kernel = kernel
        self._told: set[str] = set()

    def is_news(self, what: str) -> bool:
        """Whether a reason has still to be reported."""
        return self.raising or what not in self._told

    def __call__(self, reason: UserError) -> None:
        """Report `reason`; one with the same `what` is the same, wherever it was found."""
        if self.raising:
            raise reason
        if reason.what not in self._told:
            self._told.add(reason.what)
            warnings.warn(f"{self._kernel} runs as it is: {reason.line()}", PinWarning, stacklevel=3)


def differing(pin: Pin, source: Path, gpu: kernel_call.Gpu) -> list[str]:
    """What differs from where `pin` was verified, one "name pinned → found" each; empty where nothing does.

    `source` is the kernel's file. A pin of evidence `compiled` knows an architecture and no GPU name; a measured
    one holds on GPUs of its name only.
    """
    changed = [
        f"{name} {pinned} → {found}"
        for name, pinned in pinned_versions(pin).items()
        if (found := kernel_call.installed_version(name)) != pinned
    ]
    name = gpu_name(pin)
    if pin.gpu != gpu.arch:
        changed.append(f"GPU {pin.gpu} → {gpu.arch}")
    elif name is not None and name != gpu.name:
        changed.append(f"GPU {name} → {gpu.name}")
    if _sha256(source) != pin.source_sha256:
        changed.append(f"{pin.file} edited" if source.name == pin.file else f"{pin.file} → {source.name}")
    if pin.acf is not None:
        changed += _ptxas_change(pin, pin.acf.ptxas, gpu.arch)
    return changed


def _ptxas_change(pin: Pin, version: str, arch: str) -> list[str]:
    """An ACF is for one build of ptxas, and that must be the one that Triton will run."""
    try:
        found = find_ptxas(str(kernel_call.triton_ptxas(arch)))
    except UserError as error:
        return [f"ptxas {version} → {error.what}"]
    except RuntimeError as error:
        return [f"ptxas {version} → {error}"]
    recorded = pin.fingerprint["ptxas"]
    if found.version != version or found.version != recorded["version"]:
        return [f"ptxas {version} → {found.version} ({found.path})"]
    if found.sha256 != recorded.get("sha256"):
        return [f"ptxas {version} → another file of that version ({found.path})"]
    return []


def _sha256(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
