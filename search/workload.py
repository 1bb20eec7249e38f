"""The workload: which kernel, on which inputs, judged by which reference. Plain data, no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TensorArg:
    """One tensor argument: dtype in short form ("f16"), shape, strides in elements, and what fills it.

    `values` is one of "normal" (floats: standard normal; the default), "zeros", "ones",
    "=V" (constant V), "<N" (integers or floats in [0, N)), "LO..HI" (uniform in [LO, HI)),
    "perm" (a permutation of 0..n-1), or "given" (the values come from the kernel file's own inputs function).
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    values: str = "normal"


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """One scalar argument, passed as it is."""

    value: int | float | bool | str | None


Argument = TensorArg | ScalarArg
Shape = tuple[Argument, ...]
"""All arguments of one call of the kernel: what the field calls one shape of the workload."""


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A workload as it is stored in run.json and guarded by a pin.

    `reference` is "file:NAME", "module:function" or "self"; `inputs` is "args" (built from `shapes`) or the
    name of the function in the kernel file that made them. `source_sha256` covers the kernel file.
    """

    file: str
    kernel: str
    source_sha256: str
    reference: str
    inputs: str
    shapes: tuple[Shape, ...]
    seed: int = 0


@dataclass(frozen=True)
class Workload:
    """A workload declared in Python, for what the kernel file's conventions cannot say.

    Put one at module level of the kernel file: `workload = Workload(kernel=softmax, reference=torch_softmax,
    inputs=["f16[4096,2560]"])`. `kernel` is the Helion kernel (or its name), `reference` a callable taking the
    same arguments (or "self"), `inputs` a list of `--args` strings or a function that returns the arguments of
    one call, or a list of such argument tuples (several shapes). `bytes_moved` and `flops`, per shape, override
    what is derived from the arguments.
    """

    kernel: Any
    reference: Callable[..., Any] | str
    inputs: Sequence[str] | Callable[[], Any]
    bytes_moved: Sequence[int] = field(default=())
    flops: Sequence[int] = field(default=())
