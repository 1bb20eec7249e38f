"""Find the Helion kernel of a module, and the Workload that a module may declare for it."""

from __future__ import annotations

import difflib
import sys
from types import ModuleType
from typing import Any

from helitune.acfs.errors import InputError
from helitune.search.workload import Workload


def find_kernel(module: ModuleType, name: str | None) -> tuple[str, Any]:
    """The name and the Helion kernel: the one called `name`, or the only one that the module defines.

    Kernels imported from elsewhere count only where the module defines none. InputError where there is none,
    where there are several, and for a name that is not a kernel's.
    """
    kernels = _kernels(module)
    if name is not None:
        return _named_kernel(module, kernels, name)
    own = {n: kernel for n, kernel in kernels.items() if not _is_imported(kernel, module)}
    found = own or kernels
    if not found:
        raise InputError(
            "no Helion kernel in this file",
            where=file_of(module),
            next_step="decorate a function at module level with @helion.kernel()",
        )
    if len(found) > 1:
        raise InputError(
            f"{len(found)} kernels in this file: {', '.join(found)}",
            where=file_of(module),
            next_step=f"name one: {file_of(module)}:{next(iter(found))}",
        )
    return next(iter(found.items()))


def find_workload(module: ModuleType, name: str | None) -> Workload | None:
    """The Workload declared at module level and called `name` or for the kernel `name`; or None."""
    declared = {n: value for n, value in vars(module).items() if isinstance(value, Workload)}
    if name in declared:
        return declared[name]
    if name is not None:
        declared = {n: w for n, w in declared.items() if _is_kernel_of(w, module, name)}
    distinct = {id(workload): workload for workload in declared.values()}
    if len(distinct) > 1:
        raise InputError(
            f"{len(declared)} workloads in this file: {', '.join(declared)}",
            where=file_of(module),
            next_step=f"name one: {file_of(module)}:{next(iter(declared))}",
        )
    return next(iter(distinct.values()), None)


def declared_kernel_name(module: ModuleType, workload: Workload) -> str:
    """The module's name for the kernel of a declared Workload; InputError where that is no kernel of it."""
    if isinstance(workload.kernel, str):
        return workload.kernel
    for name, kernel in _kernels(module).items():
        if kernel is workload.kernel:
            return name
    raise InputError(
        f"the workload's kernel is {workload.kernel!r}, not a Helion kernel of this file",
        where=file_of(module),
        next_step="give kernel= the decorated function, or its name",
    )


def file_of(module: ModuleType) -> str:
    """The path of the module's file."""
    return str(module.__file__)


def is_kernel(value: Any) -> bool:
    """Whether `value` is what @helion.kernel or @helion.aot_kernel makes of a function."""
    # helion is imported only when asked: compile processes first install their target device
    from helion.runtime.kernel import Kernel

    return isinstance(value, Kernel)


def _kernels(module: ModuleType) -> dict[str, Any]:
    """Every kernel of the module once, under its own name where the module has it under that name."""
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if is_kernel(value) and (id(value) not in names or name == value.name):
            names[id(value)] = name
    return {name: vars(module)[name] for name in names.values()}


def _is_imported(kernel: Any, module: ModuleType) -> bool:
    """Whether another module has this very kernel; a kernel made here from another's function is our own."""
    home = sys.modules.get(kernel.fn.__module__)
    return home is not None and home is not module and any(v is kernel for v in vars(home).values())


def _named_kernel(module: ModuleType, kernels: dict[str, Any], name: str) -> tuple[str, Any]:
    value = vars(module).get(name)
    if is_kernel(value):
        return name, value
    if value is not None:
        what = f"{name} is a {type(value).__name__}, not a Helion kernel"
    else:
        what = f"no kernel {name!r} in this file"
    close = difflib.get_close_matches(name, kernels, n=1, cutoff=0.4) or list(kernels)[:1]
    hint = f"{file_of(module)}:{close[0]}" if close else "a function decorated with @helion.kernel()"
    listing = f"; it has {', '.join(kernels)}" if kernels else ""
    raise InputError(what + listing, where=file_of(module), next_step=f"name {hint}")


def _is_kernel_of(workload: Workload, module: ModuleType, name: str) -> bool:
    value = vars(module).get(name)
    return workload.kernel == name or (value is not None and workload.kernel is value)
