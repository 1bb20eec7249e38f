"""A kernel with its pins: which variant a call runs, decided once for a device and then looked up."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, MachineError, UserError
from helitune.objectives import kernel_call
from helitune.objectives.kernel_call import ArgumentsKey
from helitune.objectives.telling_line import telling_line

from .pin import Pin
from .pin_environment import PTXAS_VARIABLES
from .pin_forms import shown_shapes
from .pin_mismatch import MismatchReport, differing

NOT_PINNED = "a call that is not pinned"


@dataclass(frozen=True, slots=True)
class LoadedPin:
    """A pin that was read: its file, and its config with the checked ACF's path."""

    path: Path
    pin: Pin
    config: dict[str, Any]


class TunedKernel:
    """Called as the kernel is; made by `load_pins.tuned`.

    It holds one entry for each pinned call and device, however many different calls come. Before a variant's
    first call has succeeded, whatever is raised in it costs the pin and not the call: the kernel runs as it is.
    That is Helion, Triton or ptxas refusing before a launch; a kernel of several launches that writes in place may
    have made the first of them.
    """

    def __init__(self, kernel: Any, pins: tuple[LoadedPin, ...], report: MismatchReport) -> None:
        functools.update_wrapper(self, kernel.fn)
        self.kernel = kernel
        self.pins = pins
        self._report = report
        self._parameters = len(kernel.signature.parameters)
        self._tables: dict[int | None, dict[ArgumentsKey, Any]] = {}
        self._proven: set[tuple[int | None, ArgumentsKey]] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the kernel returns."""
        if kwargs:
            args = self.kernel.normalize_args(*args, **kwargs)
        chosen, place = self._chosen(args)
        if place is None or place in self._proven:
            return chosen(*args)
        try:
            result = chosen(*args)
        except Exception as error:  # noqa: BLE001  whatever Helion, Triton or ptxas raise costs the pin only
            self._drop(place, error)
            return self.kernel(*args)
        self._proven.add(place)
        return result

    def choose(self, *args: Any) -> Any:
        """The Helion kernel that a call with these arguments runs: a pin's variant, or the kernel itself."""
        return self._chosen(args)[0]

    def _chosen(self, args: tuple[Any, ...]) -> tuple[Any, tuple[int | None, ArgumentsKey] | None]:
        """The kernel to call, and where its variant stands in the tables."""
        if not self.pins:
            return self.kernel, None
        try:
            device, key = kernel_call.call_key(self._filled(args))
        except (TypeError, RuntimeError, ValueError):
            return self.kernel, None  # no call that could be pinned; what is wrong with it, the kernel says
        table = self._table(device)
        if key in table:
            return table[key], (device, key)
        if table and self._report.is_news(NOT_PINNED):
            self._report(_not_pinned(key, self.pins))
        return self.kernel, None

    def _filled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with the kernel's defaults, as pins record them."""
        if len(args) == self._parameters:
            return args
        filled: tuple[Any, ...] = self.kernel.normalize_args(*args)
        return filled

    def _table(self, device: int | None) -> dict[ArgumentsKey, Any]:
        table = self._tables.get(device)
        if table is None:
            table = self._tables[device] = self._pinned_calls(device)
        return table

    def _pinned_calls(self, device: int | None) -> dict[ArgumentsKey, Any]:
        """The variants for the calls that are pinned on a device."""
        if device is None:
            self._report(_elsewhere(self.pins[0], [f"GPU {self.pins[0].pin.gpu} → no GPU"]))
            return {}
        table: dict[ArgumentsKey, Any] = {}
        for one in self.pins:
            try:
                self._add(one, kernel_call.gpu(device), table)
            except UserError:
                raise
            except Exception as error:  # noqa: BLE001  CUDA or Helion refuse: this pin is not used there
                self._report(
                    MachineError(f"{type(error).__name__}: {telling_line(error)}", where=str(one.path))
                )
        return table

    def _add(self, one: LoadedPin, gpu: kernel_call.Gpu, table: dict[ArgumentsKey, Any]) -> None:
        """Put a pin's calls into the table, where it holds on this GPU."""
        if one.pin.gpu != gpu.arch and any(other.pin.gpu == gpu.arch for other in self.pins):
            return  # pins for other architectures are no mismatch where there are some for this one
        changed = differing(one.pin, kernel_call.source_file(self.kernel), gpu)
        if changed:
            self._report(_elsewhere(one, changed))
            return
        for shape in one.pin.shapes:
            # a variant of its own for each: with dynamic shapes Helion would give one call another's code
            table.setdefault(kernel_call.pinned_key(shape), kernel_call.variant(self.kernel, one.config))

    def _drop(self, place: tuple[int | None, ArgumentsKey], error: Exception) -> None:
        if self._report.raising:
            raise error
        device, key = place
        self._tables[device][key] = self.kernel
        what = f"a pinned call failed: {type(error).__name__}: {telling_line(error)}"
        self._proven.add(place)
        self._report(MachineError(what, next_step="pin again in this environment"))


def _elsewhere(one: LoadedPin, changed: list[str]) -> MachineError:
    next_step = "pin again in this environment"
    if one.pin.acf is not None and any(text.startswith("ptxas ") for text in changed):
        next_step = f"set {' and '.join(PTXAS_VARIABLES)} to ptxas {one.pin.acf.ptxas}, or {next_step}"
    what = f"the pin was made for another environment: {'; '.join(changed)}"
    return MachineError(what, where=str(one.path), next_step=next_step)


def _not_pinned(key: ArgumentsKey, pins: tuple[LoadedPin, ...]) -> InputError:
    shapes = [shape for one in pins for shape in shown_shapes(one.pin.shapes)]
    next_step = f"pinned are {', '.join(shapes[:3])}{' and others' if len(shapes) > 3 else ''}"
    return InputError(NOT_PINNED, where=" ".join(map(_shown, key)), next_step=next_step)


def _shown(argument: Any) -> str:
    if isinstance(argument, str):
        return argument[:40]
    dtype, shape, strides, aligned = argument
    text = f"{str(dtype).removeprefix('torch.')}{list(shape)} of strides {list(strides)}"
    return text if aligned else f"{text}, unaligned"
