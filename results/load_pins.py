"""Pins in a program that serves: `tuned(kernel, "pins")` is called as the kernel is.

    from helitune.results.load_pins import tuned
    softmax = tuned(softmax, "pins")

Each call runs the pinned variant where a pin covers it exactly: dtypes, sizes, strides, alignment and scalars of
the arguments, GPU, versions, the kernel's file, and for an ACF the very ptxas that Triton would run. Every other
call runs the kernel as it is, with one PinWarning for each reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError, UserError
from helitune.acfs.paths import cache_root
from helitune.acfs.store import AcfStore

from .pin import read_pin
from .pin_files import pin_files
from .pin_mismatch import MismatchReport, PinWarning
from .tuned_kernel import LoadedPin, TunedKernel

__all__ = ["PinWarning", "TunedKernel", "tuned"]


def tuned(kernel: Any, pins: Path | str, *, on_mismatch: Literal["own", "raise"] = "own") -> TunedKernel:
    """A Helion kernel with its pins: `pins` is the folder that `helitune pin -o` wrote, or one pin's JSON file.

    Files are read and ACFs checked now, once; CUDA is not touched before the first call. "own" warns where a pin
    cannot be used, and never raises; with "raise" that is the UserError that says so, here or at the call.
    """
    if on_mismatch not in ("own", "raise"):
        raise ValueError(f"on_mismatch is 'own' or 'raise', not {on_mismatch!r}")
    report = MismatchReport(kernel.name, raising=on_mismatch == "raise")
    loaded: list[LoadedPin] = []
    names = _names(kernel)
    for path in _files(Path(pins), names, report):
        try:
            loaded.append(_loaded(path, names))
        except UserError as error:
            report(error)
    # of two pins for one call the one made for fewer others counts
    loaded.sort(key=lambda one: (len(one.pin.shapes), str(one.path)))
    return TunedKernel(kernel, tuple(loaded), report)


def _names(kernel: Any) -> list[str]:
    """What a pin may call the kernel: as its function is called, or as its module calls it."""
    given = [name for name, value in list(kernel.fn.__globals__.items()) if value is kernel]
    return list(dict.fromkeys([kernel.name, *given]))


def _files(pins: Path, kernels: list[str], report: MismatchReport) -> list[Path]:
    try:
        found = {path: None for kernel in kernels for path in pin_files(pins, kernel=kernel)}
        if not found:
            next_step = "name the folder of helitune pin -o, or make a pin"
            raise InputError(f"no pin of {kernels[0]} there", where=str(pins), next_step=next_step)
    except UserError as error:
        report(error)
        return []
    return list(found)


def _loaded(path: Path, kernels: list[str]) -> LoadedPin:
    """The pin in a file, its ACF copied to where the path changes with the content. Raises UserError."""
    pin = read_pin(path)
    if pin.kernel not in kernels:
        what = f"a pin of {pin.kernel}, not of {kernels[0]}"
        raise InputError(what, where=str(path), next_step="name the pin of this kernel, or the folder")
    config = dict(pin.config)
    if pin.acf is not None:
        beside = Acf(pin.acf.name, pin.acf.sha256, path.with_name(pin.acf.file), (pin.gpu,), pin.acf.toolkit)
        stored = AcfStore(cache_root() / "acfs").add(beside)
        config["advanced_controls_file"] = str(stored.path)
    return LoadedPin(path, pin, config)
