"""From a kernel file to a workload: its kernel, its reference, and its inputs.

What the command line says comes first, then a `Workload` declared in the file, then the file's conventions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from helitune.acfs.errors import InputError
from helitune.search.dtypes import tensor_bytes
from helitune.search.workload import Shape, TensorArg, Workload, WorkloadRecord

from .discovery_inputs import ArgsInputs, FunctionInputs, Inputs, find_inputs
from .discovery_kernel import declared_kernel_name, file_of, find_kernel, find_workload
from .discovery_reference import find_reference, require_fit
from .inputs import describe
from .kernel_file import load_kernel_file

__all__ = ["LoadedWorkload", "find_inputs", "find_kernel", "find_reference", "load_workload"]


@dataclass(frozen=True)
class LoadedWorkload:
    """A workload in this process: the kernel itself, its reference (None for "self"), and its inputs.

    `declared_bytes` and `declared_flops` are what a Workload object states per shape, else empty.
    """

    module: ModuleType
    kernel: Any
    kernel_name: str
    reference: Callable[..., Any] | None
    reference_name: str
    inputs: Inputs
    record: WorkloadRecord
    declared_bytes: tuple[int, ...] = ()
    declared_flops: tuple[int, ...] = ()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The arguments of each call, described as plain data."""
        return self.inputs.shapes

    def make_inputs(self, index: int, *, device: str, seed: int = 0) -> list[Any]:
        """The positional arguments of shape number `index`: real tensors on `device` ("cuda" or "cpu")."""
        return self.inputs.arguments(index, device=device, seed=seed)

    def fake_arguments(self, index: int, mode: Any) -> list[Any]:
        """The positional arguments of shape number `index` with FakeTensors of `mode` on "cuda"."""
        return self.inputs.fake_arguments(index, mode)

    def bytes_moved(self, index: int, outputs: Sequence[Any]) -> int:
        """Bytes that one call must move: as declared, else each input read once and each output written once.

        `outputs` are the tensors, real or fake, that the kernel returns. Tensors in lists do not count.
        """
        if self.declared_bytes:
            return self.declared_bytes[index]
        moved = (*self.shapes[index], *describe(outputs))
        return sum(tensor_bytes(arg) for arg in moved if isinstance(arg, TensorArg))

    def flops(self, index: int) -> int | None:
        """Floating-point operations of one call as declared, or None."""
        return self.declared_flops[index] if self.declared_flops else None


def load_workload(
    file: Path, kernel: str | None, reference: str | None, args: Sequence[str]
) -> LoadedWorkload:
    """The workload of a kernel file; InputError, with the next step, where that is not clear.

    `kernel` is NAME of FILE:NAME, `reference` what --reference says, `args` one `--args` string a shape.
    """
    module = load_kernel_file(file)
    declared = find_workload(module, kernel)
    if declared is not None:
        kernel = declared_kernel_name(module, declared)
    name, found = find_kernel(module, kernel)
    inputs = _inputs(module, found, declared, args)
    judge, judge_name = _reference(module, name, declared, reference)
    if judge is not None:
        for shape in inputs.shapes:
            require_fit(judge, judge_name, found, shape, module)
    record = WorkloadRecord(
        file=file.as_posix(),
        kernel=name,
        source_sha256=hashlib.sha256(Path(file_of(module)).read_bytes()).hexdigest(),
        reference=judge_name,
        inputs=inputs.source,
        shapes=inputs.shapes,
    )
    declared_bytes, declared_flops = _declared_numbers(module, declared, len(inputs.shapes))
    return LoadedWorkload(
        module, found, name, judge, judge_name, inputs, record, declared_bytes, declared_flops
    )


def _declared_numbers(
    module: ModuleType, declared: Workload | None, shapes: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """bytes_moved and flops of a declared Workload, one number a shape or none."""
    if declared is None:
        return (), ()
    for what, values in (("bytes_moved", declared.bytes_moved), ("flops", declared.flops)):
        if values and len(values) != shapes:
            raise InputError(
                f"{len(values)} {what} for {shapes} shapes",
                where=file_of(module),
                next_step=f"give {what}= one number for each shape, or none",
            )
    return tuple(declared.bytes_moved), tuple(declared.flops)


def _inputs(module: ModuleType, kernel: Any, declared: Workload | None, args: Sequence[str]) -> Inputs:
    if args or declared is None:
        return find_inputs(module, kernel, args)
    if not callable(declared.inputs):
        return ArgsInputs(kernel, list(declared.inputs))
    source = _name_in(module, declared.inputs) or "workload.inputs"
    return FunctionInputs(kernel, declared.inputs, source, Path(file_of(module)))


def _reference(
    module: ModuleType, kernel_name: str, declared: Workload | None, spec: str | None
) -> tuple[Callable[..., Any] | None, str]:
    if spec is None and declared is not None:
        if not isinstance(declared.reference, str):
            spec = _name_in(module, declared.reference) or f"{_name_in(module, declared)}.reference"
        else:
            spec = declared.reference
    return find_reference(module, kernel_name, spec)


def _name_in(module: ModuleType, value: Any) -> str | None:
    """The name under which the module has this very object."""
    return next((name for name, member in vars(module).items() if member is value), None)
