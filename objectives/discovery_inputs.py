"""Find what the kernel is called with: `--args` strings, or a function of the kernel file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from helitune.acfs.errors import InputError
from helitune.search.args import parse_args
from helitune.search.workload import Argument, ScalarArg, Shape, TensorArg

from .discovery_kernel import file_of
from .inputs import describe, fake_arguments, make_arguments
from .inputs_function import argument_lists, call_inputs, call_inputs_fake

FUNCTION_NAMES = ("inputs", "get_inputs")


class Inputs(Protocol):
    """Where arguments come from. `source` is "args", or the name of the function that makes them."""

    source: str
    shapes: tuple[Shape, ...]

    def arguments(self, index: int, *, device: str, seed: int) -> list[Any]:
        """The arguments of shape number `index`, defaults filled in, with real tensors on `device`."""

    def fake_arguments(self, index: int, mode: Any) -> list[Any]:
        """The same with FakeTensors of `mode` on "cuda", which have no values."""


def find_inputs(module: ModuleType, kernel: Any, args: Sequence[str]) -> Inputs:
    """The inputs that `args` describe, else those of the module's `inputs()` or `get_inputs()`.

    InputError where there are none, with an example made from the kernel's signature.
    """
    if args:
        return ArgsInputs(kernel, args)
    for name in FUNCTION_NAMES:
        function = vars(module).get(name)
        if callable(function):
            return FunctionInputs(kernel, function, name, Path(file_of(module)))
    raise InputError(
        f"no inputs for {kernel.name}: the file has no inputs() and no --args are given",
        where=file_of(module),
        next_step=f"say what to call it with: --args '{example_args(kernel)}'",
    )


class ArgsInputs:
    """Inputs made from `--args` strings, one a shape; checked against the kernel's signature."""

    def __init__(self, kernel: Any, args: Sequence[str]) -> None:
        self.source = "args"
        self._kernel = kernel
        self._typed = [_checked(parse_args(text), kernel, text) for text in args]
        self.shapes = tuple(_with_defaults(shape, kernel) for shape in self._typed)

    def arguments(self, index: int, *, device: str, seed: int) -> list[Any]:
        """The arguments of shape number `index`, defaults filled in, with real tensors on `device`."""
        return list(
            self._kernel.normalize_args(*make_arguments(self._typed[index], device=device, seed=seed))
        )

    def fake_arguments(self, index: int, mode: Any) -> list[Any]:
        """The same with FakeTensors of `mode` on "cuda", which have no values."""
        return list(self._kernel.normalize_args(*fake_arguments(self._typed[index], mode)))


class FunctionInputs:
    """Inputs that a function of the kernel file returns; called once at the start, for the shapes."""

    def __init__(self, kernel: Any, function: Callable[[], Any], source: str, file: Path) -> None:
        self.source = source
        self._kernel = kernel
        self._function = function
        self._file = file
        self._check_parameters()
        from torch._subclasses.fake_tensor import FakeTensorMode

        returned = call_inputs_fake(function, FakeTensorMode(), seed=0, file=file)
        self.shapes = tuple(describe(call) for call in self._calls(returned))

    def arguments(self, index: int, *, device: str, seed: int) -> list[Any]:
        """The arguments of shape number `index`, defaults filled in, with real tensors on `device`."""
        return self._calls(call_inputs(self._function, device=device, seed=seed, file=self._file))[index]

    def fake_arguments(self, index: int, mode: Any) -> list[Any]:
        """The same with FakeTensors of `mode` on "cuda", which have no values."""
        return self._calls(call_inputs_fake(self._function, mode, seed=0, file=self._file))[index]

    def _calls(self, returned: Any) -> list[list[Any]]:
        return argument_lists(returned, self._kernel, f"{self.source}()", str(self._file))

    def _check_parameters(self) -> None:
        try:
            inspect.signature(self._function).bind()
        except TypeError as error:
            raise InputError(
                f"{self.source}() is called without arguments: {error}",
                where=str(self._file),
                next_step="give its parameters defaults",
            ) from error
        except ValueError:
            # a builtin without a signature: calling it will tell
            return


def example_args(kernel: Any) -> str:
    """A `--args` string that fits the kernel's parameters without defaults, going by their annotations."""
    required = [p for p in kernel.signature.parameters.values() if p.default is p.empty]
    examples = {"float": "1e-5", "int": "8", "bool": "True", "str": "'text'"}
    return " ".join(examples.get(_annotation(p), "f16[4096,4096]") for p in required)


def _checked(shape: Shape, kernel: Any, text: str) -> Shape:
    parameters = list(kernel.signature.parameters.values())
    least = sum(p.default is p.empty for p in parameters)
    if not least <= len(shape) <= len(parameters):
        takes = str(least) if least == len(parameters) else f"{least} to {len(parameters)}"
        names = ", ".join(p.name for p in parameters)
        raise _misfit(kernel, text, f"{takes} arguments ({names}), not {len(shape)}")
    for parameter, arg in zip(parameters, shape, strict=False):
        wanted = _annotation(parameter)
        if isinstance(arg, TensorArg) and wanted in ("int", "float", "bool", "str"):
            raise _misfit(kernel, text, f"{parameter.name}: {wanted}, not a tensor")
        if isinstance(arg, ScalarArg) and wanted in ("Tensor", "torch.Tensor"):
            raise _misfit(kernel, text, f"{parameter.name} as a tensor, not {arg.value!r}")
        if isinstance(arg, TensorArg) and arg.values == "given":
            raise InputError("~given does not say the values", where=text, next_step="say them, as in =0..1")
    return shape


def _misfit(kernel: Any, text: str, takes: str) -> InputError:
    return InputError(
        f"{kernel.name} takes {takes}",
        where=f"--args {text!r}",
        next_step=f"give for example --args '{example_args(kernel)}'",
    )


def _annotation(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _with_defaults(shape: Shape, kernel: Any) -> Shape:
    """The shape with the kernel's default values appended, up to the first that `--args` cannot say."""
    full: list[Argument] = []
    for value in kernel.normalize_args(*shape):
        if isinstance(value, TensorArg | ScalarArg):
            full.append(value)
        elif value is None or type(value) in (bool, int, float, str):
            full.append(ScalarArg(value))
        else:
            break
    return tuple(full)
