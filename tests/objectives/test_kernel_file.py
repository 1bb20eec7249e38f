"""Importing kernel files nobody here wrote: their names, their neighbours, and where their failures point."""

from __future__ import annotations

import importlib
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helitune.acfs.errors import InputError
from helitune.objectives.kernel_file import load_kernel_file

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"


@pytest.fixture(autouse=True)
def _fresh_imports() -> Iterator[None]:
    """What a test imports from the fixtures or a temporary folder does not meet the next test."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        file = str(getattr(sys.modules[name], "__dict__", {}).get("__file__") or "")
        if str(KERNELS) in file or "pytest-" in file:
            del sys.modules[name]
    sys.path[:] = path


def line_of(file: str, text: str) -> int:
    return (KERNELS / file).read_text().splitlines().index(text) + 1


def failure(file: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load_kernel_file(KERNELS / file)
    return caught.value


def load_in_a_process(file: Path, after: str) -> subprocess.CompletedProcess[str]:
    code = (
        "from pathlib import Path; from helitune.objectives.kernel_file import load_kernel_file\n"
        f"module = load_kernel_file(Path({str(file)!r}))\n{after}"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=KERNELS.parent)


def test_a_file_gets_its_own_name_and_is_loaded_once() -> None:
    module = load_kernel_file(KERNELS / "plain.py")
    assert module.__name__ == "plain"
    assert importlib.import_module("plain") is module
    assert load_kernel_file(KERNELS / "ops" / ".." / "plain.py") is module
    assert "factor" in inspect.getsource(module.scale.fn)


def test_work_at_import_is_fine_and_stays_off_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = list(sys.argv)
    module = load_kernel_file(KERNELS / "work_at_import.py")
    print("ours")
    captured = capfd.readouterr()
    assert captured.out == "ours\n"
    assert {"printed", "written", "echoed"} <= set(captured.err.split())
    assert module.TABLE.tolist() == [0, 1, 3, 6]
    assert sys.argv == arguments


def test_neighbours_are_found_during_the_import_and_after() -> None:
    module = load_kernel_file(KERNELS / "uses_neighbour.py")
    assert module.FACTOR == 3.0
    assert importlib.import_module("two_kernels").__file__ == str(KERNELS / "two_kernels.py")
    installed = [index for index, path in enumerate(sys.path) if path.endswith("site-packages")]
    assert sys.path.index(str(KERNELS)) > max(installed)


@pytest.mark.slow
def test_a_neighbour_wins_over_an_installed_package_only_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("import colorsys, compileiq\nNAME = compileiq.NAME")
    (tmp_path / "compileiq.py").write_text("NAME = 'neighbour'")
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('this hides the standard library')")
    (tmp_path / "elftools.py").write_text("raise RuntimeError('not for others')")
    done = load_in_a_process(tmp_path / "user.py", "print(module.NAME); import elftools.elf")
    assert done.stdout == "neighbour\n", done.stderr


@pytest.mark.parametrize("stem", ["random", "torch", "my-kernel", "3d conv", "lambda", "yaml"])
def test_a_name_that_is_taken_or_no_name_is_left_alone(stem: str, tmp_path: Path) -> None:
    before = sys.modules.get(stem)
    file = tmp_path / f"{stem}.py"
    shutil.copy(KERNELS / "random.py", file)
    module = load_kernel_file(file)
    assert module.BIAS == 5.0
    assert module.__name__ != stem
    assert module.__name__.isidentifier()
    assert sys.modules.get(stem) is before
    assert importlib.import_module(module.__name__) is module
    assert load_kernel_file(file) is module
    assert "BIAS" in inspect.getsource(module.biased.fn)


@pytest.mark.slow
def test_the_standard_library_stays_what_it_was() -> None:
    after = "import sys; sys.modules.pop('random'); import random; print(random.randint(3, 3))"
    done = load_in_a_process(KERNELS / "random.py", after)
    assert done.stdout == "3\n", done.stderr


def test_a_file_in_a_package_is_imported_as_part_of_it() -> None:
    module = load_kernel_file(KERNELS / "ops" / "lift.py")
    assert (module.__name__, module.AMOUNT) == ("ops.lift", 7.0)


def test_a_package_whose_name_is_taken_still_has_its_relative_imports(tmp_path: Path) -> None:
    shutil.copytree(KERNELS / "ops", tmp_path / "json")
    module = load_kernel_file(tmp_path / "json" / "lift.py")
    assert module.AMOUNT == 7.0
    assert not module.__name__.startswith("json")
    assert not hasattr(importlib.import_module("json"), "lift")


def test_a_kernel_called_at_import_without_a_gpu() -> None:
    error = failure("no_main_guard.py")
    line = line_of("no_main_guard.py", '    return negate(torch.randn(64, device="cuda"))')
    assert error.where == f"{KERNELS / 'no_main_guard.py'}:{line}"
    assert "CUDA" in error.what
    assert "__main__" in error.next_step


def test_exit_at_import() -> None:
    error = failure("exits_at_import.py")
    assert "ended the process (SystemExit 4)" in error.what
    assert error.where == f"{KERNELS / 'exits_at_import.py'}:4"
    assert "__main__" in error.next_step


@pytest.mark.parametrize("file", ["syntax_error.py", "broken_neighbour.py"])
def test_a_syntax_error_points_to_its_own_line(file: str) -> None:
    error = failure(file)
    assert error.what.startswith("SyntaxError: ")
    assert error.where == f"{KERNELS / 'syntax_error.py'}:4"


def test_a_failing_neighbour_points_to_the_import_and_names_the_place() -> None:
    error = failure("failing_neighbour.py")
    assert error.where == f"{KERNELS / 'failing_neighbour.py'}:3"
    assert error.what == "importing it failed with ValueError: two, raised at raises_at_import.py:2"
    assert "failing_neighbour" not in sys.modules


def test_a_missing_package_is_named() -> None:
    error = failure("missing_import.py")
    assert error.where.endswith("missing_import.py:1")
    assert error.next_step.startswith("install no_such_package_anywhere")


def test_null_bytes(tmp_path: Path) -> None:
    (tmp_path / "bytes.py").write_bytes(b"x = 1\0")
    with pytest.raises(InputError) as caught:
        load_kernel_file(tmp_path / "bytes.py")
    assert caught.value.where == str(tmp_path / "bytes.py")


def test_what_is_no_python_file(tmp_path: Path) -> None:
    (tmp_path / "kernel.txt").write_text("x = 1")
    for path, what in (
        (tmp_path / "absent.py", "no such file"),
        (tmp_path, "a folder"),
        (tmp_path / "kernel.txt", "not a Python file"),
    ):
        with pytest.raises(InputError, match=what) as caught:
            load_kernel_file(path)
        assert caught.value.where == str(path)


def test_ctrl_c_during_the_import_stays_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_kernel_file(tmp_path / "interrupted.py")


COMPILE = """
import sys
from pathlib import Path
from helitune.objectives import fake_device, targets
fake_device.install(targets.find_target("sm_90"))
from torch._subclasses.fake_tensor import FakeTensorMode
from helitune.objectives.discovery import load_workload
workload = load_workload(Path(sys.argv[1]), None, None, ["f16[64,64]"])
bound = workload.kernel.bind(tuple(workload.fake_arguments(0, FakeTensorMode())))
print(bound.to_triton_code(bound.config_spec.default_config()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("file", ["plain.py", "random.py", "ops/lift.py", "uses_neighbour.py"])
def test_helion_compiles_what_was_loaded(file: str) -> None:
    """Helion reads the source of the kernel and its globals through the module's name."""
    command = [sys.executable, "-c", COMPILE, str(KERNELS / file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=KERNELS.parent)
    assert "@triton.jit" in done.stdout, done.stderr
