"""What is found in a kernel file (kernel, reference, inputs), and what is said when one is missing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from helitune.acfs.errors import InputError
from helitune.objectives.discovery import LoadedWorkload, find_kernel, find_reference, load_workload
from helitune.objectives.kernel_file import load_kernel_file
from helitune.search.args import format_shape
from helitune.search.workload import ScalarArg, TensorArg

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"


def load(file: str, kernel: str | None = None, reference: str | None = None, *args: str) -> LoadedWorkload:
    return load_workload(KERNELS / file, kernel, reference, args)


def refusal(file: str, kernel: str | None = None, reference: str | None = None, *args: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load(file, kernel, reference, *args)
    assert caught.value.where
    assert caught.value.next_step
    return caught.value


def test_a_whole_workload() -> None:
    workload = load("plain.py")
    assert workload.record.file == (KERNELS / "plain.py").as_posix()
    source = (KERNELS / "plain.py").read_bytes()
    assert workload.record.source_sha256 == hashlib.sha256(source).hexdigest()
    assert (workload.record.kernel, workload.record.reference) == ("scale", "file:reference")
    assert workload.record.inputs == "inputs"
    assert workload.record.shapes == workload.shapes
    assert [format_shape(shape) for shape in workload.shapes] == [
        "f32[64,32]~given 2.0",
        "f32[128]~given 3.0",
    ]
    assert workload.reference is workload.module.reference
    assert workload.kernel is workload.module.scale
    output = workload.make_inputs(0, device="cpu")[0]
    assert workload.bytes_moved(0, [output]) == 2 * 64 * 32 * 4
    assert workload.flops(0) is None


def test_args_win_over_the_file() -> None:
    workload = load("plain.py", None, None, "f16[8,4]", "f16[2]=1 0.5")
    assert workload.record.inputs == "args"
    assert [format_shape(shape) for shape in workload.shapes] == ["f16[8,4] 2.0", "f16[2]=1 0.5"]
    tensor, factor = workload.make_inputs(1, device="cpu")
    assert (tensor.tolist(), factor) == ([1, 1], 0.5)
    fake, factor = workload.fake_arguments(0, FakeTensorMode())
    assert isinstance(fake, FakeTensor)
    assert (fake.device.type, fake.shape, fake.dtype, factor) == ("cuda", (8, 4), torch.float16, 2.0)


def test_a_record_leads_back_to_the_same_workload() -> None:
    first = load("plain.py", None, None, "f16[8,4]").record
    args = [format_shape(shape) for shape in first.shapes]
    assert load("plain.py", first.kernel, first.reference, *args).record == first
    declared = load("declared.py").record
    assert load("declared.py", declared.kernel, declared.reference).record == declared


# ---- kernels


def test_no_kernel() -> None:
    assert "@helion.kernel()" in refusal("no_kernel.py").next_step


def test_several_kernels_are_listed() -> None:
    error = refusal("two_kernels.py")
    assert error.what == "2 kernels in this file: _add_fwd, add_one"
    assert error.next_step == f"name one: {KERNELS / 'two_kernels.py'}:_add_fwd"


def test_a_named_kernel_and_its_alias() -> None:
    module = load_kernel_file(KERNELS / "two_kernels.py")
    assert find_kernel(module, "add_one") == ("add_one", module.add_one)
    assert find_kernel(module, "add") == ("add", module._add_fwd)
    # the reference may be named after either
    assert find_reference(module, "_add_fwd", None) == (module.add_reference, "file:add_reference")
    assert find_reference(module, "add", None) == (module.add_reference, "file:add_reference")


def test_a_wrong_kernel_name() -> None:
    error = refusal("two_kernels.py", "add_on")
    assert error.what == "no kernel 'add_on' in this file; it has _add_fwd, add_one"
    assert error.next_step.endswith("two_kernels.py:add_one")
    assert "add_reference is a function" in refusal("two_kernels.py", "add_reference").what


def test_an_imported_kernel_counts_only_where_there_is_no_own() -> None:
    assert load("uses_neighbour.py", None, None, "f16[8]").kernel_name == "grow"
    assert load("uses_neighbour.py", "triple", "self", "f16[8]").kernel_name == "triple"
    imported = load("only_neighbour.py", None, None, "f16[8]")
    assert (imported.kernel_name, imported.reference_name) == ("triple", "file:triple_torch")


# ---- references


def test_no_reference_names_both_ways_out() -> None:
    error = refusal("two_kernels.py", "add_one", None, "f16[8]")
    assert error.what.startswith("no reference for add_one")
    # the one named after this kernel first
    names = "by the names, perhaps --reference baseline_add_one or --reference add_reference, or take"
    assert names in error.next_step and "--reference self" in error.next_step


def test_several_references_are_listed() -> None:
    error = refusal("several_references.py", None, None, "f16[8]")
    assert error.what == "2 references for square: reference, ref_square"
    assert load("several_references.py", None, "square_torch", "f16[8]").reference_name == "file:square_torch"


def test_self_another_module_and_a_path_in_the_file() -> None:
    module = load_kernel_file(KERNELS / "plain.py")
    assert find_reference(module, "scale", "self") == (None, "self")
    assert find_reference(module, "scale", "torch:square") == (torch.square, "torch:square")
    assert find_reference(module, "scale", "constants:triple_torch")[1] == "constants:triple_torch"
    assert find_reference(module, "scale", "torch.square") == (torch.square, "file:torch.square")
    assert find_reference(module, "scale", "file:reference") == (module.reference, "file:reference")


@pytest.mark.parametrize(
    ("spec", "what", "next_step"),
    [
        ("referense", "no 'referense' in plain", "did you mean reference?"),
        ("nowhere:f", "importing nowhere failed with ModuleNotFoundError", "install nowhere"),
        ("torch:no_such_function", "no 'no_such_function' in torch", "module:function"),
        ("torch:pi", "pi is a float, not a function", "takes the kernel's arguments"),
        ("scale", "scale is the kernel itself", "--reference self"),
    ],
)
def test_wrong_references(spec: str, what: str, next_step: str) -> None:
    error = refusal("plain.py", None, spec)
    assert what in error.what
    assert next_step in error.next_step


def test_a_model_is_built_from_its_own_arguments_and_follows_the_inputs() -> None:
    workload = load("bench_model.py")
    assert workload.reference_name == "file:Model"
    assert workload.record.inputs == "get_inputs"
    (x,) = workload.make_inputs(0, device="cpu")
    assert workload.reference is not None
    for dtype in (torch.float32, torch.float16, torch.float64):
        output = workload.reference(x.to(dtype))
        assert output.dtype == dtype
        assert torch.equal(output, x.to(dtype))


def with_reference(folder: Path, definition: str) -> InputError | None:
    """What loading says of a reference `judge`, defined after a kernel scale(x, factor=2.0)."""
    file = folder / "fitting.py"
    file.write_text((KERNELS / "plain.py").read_text() + "\n\n" + definition)
    try:
        load_workload(file, None, "judge", ["f16[8]"])
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("definition", "takes"),
    [
        ("def judge(x: torch.Tensor): pass", "(x)"),
        ("def judge(x, y, z=1, *, w): pass", "(x, y, z=1, *, w)"),
        ("judge = lambda: None", "()"),
        ("class judge(torch.nn.Module):\n    def forward(self, x): pass", "(x)"),
    ],
)
def test_a_reference_that_does_not_fit_the_arguments(tmp_path: Path, definition: str, takes: str) -> None:
    error = with_reference(tmp_path, definition)
    assert error is not None
    assert error.what == f"the reference judge takes {takes}, the kernel scale is called with (x, factor)"
    file, _, line = error.where.rpartition(":")
    assert file == str(tmp_path / "fitting.py")
    source = Path(file).read_text().splitlines()
    assert definition.splitlines()[-1] == source[int(line) - 1]


@pytest.mark.parametrize(
    "definition",
    [
        "def judge(x, factor): pass",
        "def judge(*tensors): pass",
        "judge = torch.mul",
        "judge = torch.nn.ReLU()",
        "class judge(torch.nn.Module):\n    def forward(self, x, factor, more=None): pass",
        "import functools\njudge = functools.partial(torch.nn.functional.softmax, _stacklevel=3)",
    ],
)
def test_a_reference_that_may_fit_is_taken(tmp_path: Path, definition: str) -> None:
    assert with_reference(tmp_path, definition) is None


# ---- inputs


def test_no_inputs_gives_an_example_for_this_kernel() -> None:
    assert refusal("two_kernels.py", "add").next_step.endswith("--args 'f16[4096,4096] f16[4096,4096]'")


@pytest.mark.parametrize(
    ("file", "args", "what"),
    [
        ("plain.py", "f16[8] 1.0 2.0", "scale takes 1 to 2 arguments (x, factor), not 3"),
        ("two_kernels.py", "f16[8]", "_add_fwd takes 2 arguments (x, y), not 1"),
        ("plain.py", "1.0", "scale takes x as a tensor, not 1.0"),
        ("plain.py", "f16[8] f16[8]", "scale takes factor: float, not a tensor"),
        ("plain.py", "f16[8]~given", "~given does not say the values"),
        ("plain.py", "f17[8]", "unknown dtype 'f17'"),
    ],
)
def test_args_that_do_not_fit_the_kernel(file: str, args: str, what: str) -> None:
    kernel = "_add_fwd" if file == "two_kernels.py" else None
    assert refusal(file, kernel, "self", args).what == what


def test_inputs_functions_that_do_not_fit() -> None:
    assert "missing a required argument: 'size'" in refusal("parameters_inputs.py").what
    assert "inputs() returned a tuple of 2, which copy(x: " in refusal("misfit_inputs.py").what
    error = refusal("failing_inputs.py")
    assert "inputs() failed with RuntimeError" in error.what
    assert error.where == f"{KERNELS / 'failing_inputs.py'}:20"


# ---- declared workloads


def test_a_declared_workload_says_everything() -> None:
    workload = load("declared.py")
    assert (workload.kernel_name, workload.reference_name) == ("gather", "file:workload.reference")
    assert workload.record.inputs == "calls"
    assert [format_shape(shape) for shape in workload.shapes] == [
        "f32[16,8]~given i64[16]~given",
        "f32[32,8]~given i64[32]~given",
    ]
    assert (workload.bytes_moved(1, []), workload.flops(1)) == (200, 2)
    table, index = workload.make_inputs(1, device="cpu")
    assert workload.reference is not None
    assert torch.equal(workload.reference(table, index), table[index])


def test_the_command_line_wins_over_a_declared_workload() -> None:
    workload = load("declared.py", "workload", "self", "f16[4,8] i64[2]<4", "f16[8,8] i64[2]<8")
    assert (workload.kernel_name, workload.reference_name) == ("gather", "self")
    assert workload.shapes[0] == (TensorArg("f16", (4, 8), (8, 1)), TensorArg("i64", (2,), (1,), "<4"))
    other = load("declared.py", "unrelated", "torch:relu", "f16[4]")
    assert (other.kernel_name, other.declared_bytes) == ("unrelated", ())


def test_bytes_for_another_number_of_shapes() -> None:
    assert refusal("declared.py", None, None, "f16[4,8] i64[2]<4").what == "2 bytes_moved for 1 shapes"


def test_a_default_that_args_cannot_say_is_passed_but_not_recorded(tmp_path: Path) -> None:
    source = (KERNELS / "plain.py").read_text()
    source = source.replace("factor: float = 2.0)", "factor: float = 2.0, after=torch.relu)")
    (tmp_path / "with_callable.py").write_text(source)
    workload = load_workload(tmp_path / "with_callable.py", None, "self", ["f16[8]"])
    assert workload.shapes == ((TensorArg("f16", (8,), (1,)), ScalarArg(2.0)),)
    assert workload.make_inputs(0, device="cpu")[1:] == [2.0, torch.relu]
