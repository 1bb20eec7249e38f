"""Every file of examples/ has what `helitune tune FILE` needs: kernel, reference, inputs, docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NAMES = {
    "add_residual_inplace",
    "attention",
    "cross_entropy",
    "decode_gemv",
    "layer_norm",
    "matmul_bias_gelu",
    "quantize_fp8",
    "rms_norm",
    "rope",
    "softmax",
    "swiglu",
}
REFERENCE_NAMES = (
    "reference",
    "{}_reference",
    "{}_ref",
    "ref_{}",
    "{}_torch",
    "_{}_torch",
    "torch_{}",
    "pytorch_{}",
)

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def is_kernel(function: ast.FunctionDef) -> bool:
    called = (node.func if isinstance(node, ast.Call) else node for node in function.decorator_list)
    return any(ast.unparse(decorator) in ("helion.kernel", "helion.aot_kernel") for decorator in called)


def kernels_of(path: Path) -> list[ast.FunctionDef]:
    return [function for function in functions_of(path) if is_kernel(function)]


def references_of(path: Path) -> list[ast.FunctionDef]:
    names = {pattern.format(path.stem) for pattern in REFERENCE_NAMES}
    return [function for function in functions_of(path) if function.name in names]


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args]


def test_the_examples_are_all_there() -> None:
    assert {path.stem for path in EXAMPLES} >= NAMES


@each_example
def test_it_has_exactly_one_kernel_named_like_the_file(path: Path) -> None:
    assert [kernel.name for kernel in kernels_of(path)] == [path.stem]


@each_example
def test_it_has_one_reference_by_convention_with_the_kernels_parameters(path: Path) -> None:
    (reference,) = references_of(path)
    (kernel,) = kernels_of(path)
    assert parameters(reference) == parameters(kernel)


@each_example
def test_its_reference_names_no_half_precision_dtype(path: Path) -> None:
    # agreement is judged against the reference on float64 inputs: a cast to half would hide the error
    (reference,) = references_of(path)
    attributes = {node.attr for node in ast.walk(reference) if isinstance(node, ast.Attribute)}
    assert not attributes & {"float16", "bfloat16", "half"}


@each_example
def test_its_inputs_function_returns_one_argument_per_kernel_parameter(path: Path) -> None:
    (inputs,) = [function for function in functions_of(path) if function.name == "inputs"]
    assert not parameters(inputs)
    (returned,) = [node.value for node in ast.walk(inputs) if isinstance(node, ast.Return)]
    assert isinstance(returned, ast.Tuple)
    (kernel,) = kernels_of(path)
    assert len(returned.elts) == len(parameters(kernel))


@each_example
def test_it_says_what_it_computes(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring and docstring.splitlines()[0].strip()
