"""Find the function that a kernel's output is judged by."""

from __future__ import annotations

import copy
import difflib
import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from helitune.acfs.errors import InputError

from .cpu_redirect import cuda_means_cpu
from .discovery_kernel import file_of, is_kernel
from .user_code import call_user_code

Reference = Callable[..., Any]

CONVENTIONS = (
    "reference",
    "{kernel}_reference",
    "{kernel}_ref",
    "ref_{kernel}",
    "{kernel}_torch",
    "_{kernel}_torch",
    "torch_{kernel}",
    "pytorch_{kernel}",
    "Model",
)
_LOOK_ALIKE = ("ref", "torch", "baseline", "eager", "naive", "golden")


def find_reference(module: ModuleType, kernel_name: str, spec: str | None) -> tuple[Reference | None, str]:
    """The reference and its name: "file:NAME", "module:function", or (None, "self").

    `spec` is what --reference says (those names, or a bare NAME of the file); without it the file is searched
    for the names of CONVENTIONS. InputError where there is none, where there are several, or where it is
    no function.
    """
    if spec is None:
        return _by_convention(module, kernel_name)
    if spec == "self":
        return None, "self"
    source, _, name = spec.rpartition(":")
    if source in ("", "file"):
        value, found = _attribute(module, name), f"file:{name}"
    else:
        value, found = _attribute(_imported(source, module), name), spec
    if is_kernel(value) and value is vars(module).get(kernel_name):
        raise InputError(
            f"{name} is the kernel itself",
            where=file_of(module),
            next_step="name a PyTorch function, or --reference self for its own default config",
        )
    return _callable(value, module, name), found


def require_fit(
    reference: Reference, name: str, kernel: Any, arguments: Sequence[Any], module: ModuleType
) -> None:
    """None where the reference can be called with the kernel's arguments, defaults filled in; else InputError.

    A builtin that has no signature passes: its call will tell.
    """
    filled = kernel.normalize_args(*arguments)
    try:
        signature = inspect.signature(reference)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*filled)
    except TypeError as error:
        bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        taken = signature.replace(parameters=bare, return_annotation=signature.empty)
        called = ", ".join(list(kernel.signature.parameters)[: len(filled)])
        raise InputError(
            f"the reference {name.removeprefix('file:')} takes {taken}, "
            f"the kernel {kernel.name} is called with ({called})",
            where=_place(reference) or file_of(module),
            next_step="give the reference the kernel's parameters, or name another with --reference",
        ) from error


def _place(reference: Reference) -> str:
    """file:line of the function, empty for what has none."""
    function = reference.model.forward if isinstance(reference, ModelReference) else reference
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


class ModelReference:
    """A KernelBench-style `Model(*get_init_inputs())` as a function of its forward's arguments.

    The model is built at the first call, with seed 0, and follows its arguments' device and float dtype.
    """

    def __init__(self, model: type[torch.nn.Module], module: ModuleType) -> None:
        self.model = model
        self._module = module
        forward = inspect.signature(model.forward)
        # what inspect.signature answers for this object: forward without self
        self.__signature__ = forward.replace(parameters=list(forward.parameters.values())[1:])
        self._built: torch.nn.Module | None = None
        self._copies: dict[tuple[torch.device, torch.dtype | None], torch.nn.Module] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        dtype = next((t.dtype for t in tensors if t.is_floating_point() and t.dtype.itemsize > 1), None)
        if (device, dtype) not in self._copies:
            # a copy each: going to f16 and back would lose the weights' digits
            self._copies[device, dtype] = copy.deepcopy(self._model()).to(device=device, dtype=dtype)
        with torch.no_grad():
            return self._copies[device, dtype](*args, **kwargs)

    def _model(self) -> torch.nn.Module:
        if self._built is None:
            self._built = call_user_code(self._build, Path(file_of(self._module)), self.model.__name__)
        return self._built

    def _build(self) -> torch.nn.Module:
        torch.manual_seed(0)
        with cuda_means_cpu():
            arguments: Any = getattr(self._module, "get_init_inputs", tuple)()
            by_name = isinstance(arguments, dict)
            return self.model(**arguments) if by_name else self.model(*arguments)


def _by_convention(module: ModuleType, kernel_name: str) -> tuple[Reference, str]:
    found: dict[int, str] = {}
    kernel = vars(module).get(kernel_name)
    aliases = [kernel_name] + [n for n, value in vars(module).items() if is_kernel(value) and value is kernel]
    for name in (pattern.format(kernel=alias) for alias in aliases for pattern in CONVENTIONS):
        value = vars(module).get(name)
        if callable(value) and not is_kernel(value) and (name != "Model" or _is_model(value)):
            found.setdefault(id(value), name)
    names = list(found.values())
    if len(names) == 1:
        return _callable(vars(module)[names[0]], module, names[0]), f"file:{names[0]}"
    if names:
        raise InputError(
            f"{len(names)} references for {kernel_name}: {', '.join(names)}",
            where=file_of(module),
            next_step=f"choose one: --reference {names[0]}",
        )
    raise InputError(
        f"no reference for {kernel_name}: nothing to judge its output by",
        where=file_of(module),
        next_step=f"{_suggestion(module, kernel_name)}, or take --reference self "
        "(the kernel's own default config, a weaker check)",
    )


def _suggestion(module: ModuleType, kernel_name: str) -> str:
    """What to type: the module's own functions whose names look like a reference's, else NAME."""
    functions = [(n, v) for n, v in vars(module).items() if isinstance(v, FunctionType)]
    own = [name for name, function in functions if function.__module__ == module.__name__]
    alike = [name for name in own if any(word in name.lower() for word in _LOOK_ALIKE)]
    if not alike:
        return "name one with --reference NAME"
    alike.sort(key=lambda name: kernel_name not in name)
    flags = " or ".join(f"--reference {name}" for name in alike[:3])
    return f"going by the names, perhaps {flags}"


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _callable(value: Any, module: ModuleType, name: str) -> Reference:
    if _is_model(value):
        return ModelReference(value, module)
    if not callable(value):
        raise InputError(
            f"{name} is a {type(value).__name__}, not a function",
            where=file_of(module),
            next_step="name a function that takes the kernel's arguments",
        )
    return value  # type: ignore[no-any-return]


def _attribute(module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            functions = [n for n, v in vars(module).items() if callable(v) and not is_kernel(v)]
            close = difflib.get_close_matches(name, functions, n=1, cutoff=0.7)
            next_step = f"did you mean {close[0]}?" if close else "name a function in it, or module:function"
            raise InputError(f"no {name!r} in {module.__name__}", where=file_of(module), next_step=next_step)
        value = getattr(value, part)
    return value


def _imported(source: str, module: ModuleType) -> ModuleType:
    file = Path(file_of(module))
    return call_user_code(lambda: importlib.import_module(source), file, f"--reference: importing {source}")
