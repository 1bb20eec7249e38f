"""The text of a pin's Python form, and what it does without a kernel to compile."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, CHECK, FINGERPRINT, OWN, make_run

from helitune.results.pin import Pin
from helitune.results.pin_choice import make_pin
from helitune.results.pin_environment import PTXAS_VARIABLES
from helitune.results.pin_python_form import agreed, literal, module_name, python_text
from helitune.search.args import parse_args

CONFIG: dict[str, Any] = {
    "block_sizes": [4, 64],
    "indexing": ["pointer", "tensor_descriptor"] * 4,
    "loop_orders": [[1, 0], [0, 1]],
    "num_warps": 8,
    "pid_type": "flat",
    "range_flattens": [None, True, False],
}


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    run = make_run(tmp_path / "run", [OWN, BETTER])
    return replace(make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False), config=CONFIG)


def python_file(pin: Pin, folder: Path, *, acf: bytes | None = ACF) -> Path:
    folder.mkdir(parents=True)
    path = folder / "f16_4096x2560.py"
    path.write_text(python_text(pin, Path("/elsewhere/softmax.py")))
    if acf is not None:
        (folder / f"{ACF_SHA256}.acf").write_bytes(acf)
    return path


def run_with(path: Path, code: str, **environment: str) -> Any:
    """What `code` puts into `answer`, where `pin` is the module at `path`."""
    program = (
        f"import json, runpy, types, torch\npin = types.SimpleNamespace(**runpy.run_path({str(path)!r}))\n"
    )
    program += f"{code}\nprint(json.dumps(answer))"
    child = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        env={"HOME": str(path.parent), "PATH": "/usr/bin:/bin", **environment},
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


def test_it_needs_nothing_of_ours_and_is_short(pin: Pin) -> None:
    text = python_text(replace(pin, acf=None), Path("softmax.py"))
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert imports and not any("helitune" in line for line in imports)
    assert len(text.splitlines()) <= 125
    assert "speedup" not in text.lower()


def test_nothing_of_the_acf_is_left_without_one(pin: Pin) -> None:
    text = python_text(replace(pin, acf=None), Path("softmax.py")).lower()
    assert "acf" not in text and "secrets" not in text and "$" not in text
    # any ptxas will do
    assert "ptxas" not in text and "import os" not in text


def test_it_names_the_acf_by_its_content_and_no_absolute_path(pin: Pin) -> None:
    text = python_text(pin, Path("/home/someone/softmax.py"))
    assert f'ACF_SHA256 = "{ACF_SHA256}"' in text
    assert "/home/someone" not in text


def test_it_says_what_was_verified_on_which_shapes(pin: Pin) -> None:
    (documentation, *_) = python_text(pin, Path("softmax.py")).split("import hashlib")
    assert "agree with softmax_reference on f16[1024,640] (scaled down)." in " ".join(documentation.split())
    many = replace(CHECK, reference="self", shapes=tuple(f"f16[{n}]" for n in range(8)), factors=(1,) * 8)
    assert agreed(replace(pin, check=many.to_json())).endswith(
        "without a reference, on f16[0], f16[1], f16[2] and 5 more"
    )


def test_its_documentation_survives_any_shape(pin: Pin) -> None:
    odd = replace(CHECK, shapes=('f16[8] \'""" \\N\'',), factors=(1,))
    text = python_text(replace(pin, check=odd.to_json()), Path("softmax.py"))
    documentation = ast.get_docstring(ast.parse(text))
    assert documentation is not None and odd.shown_shapes in " ".join(documentation.split())


@pytest.mark.skipif(shutil.which("ruff", path=str(Path(sys.executable).parent)) is None, reason="needs ruff")
@pytest.mark.parametrize("with_acf", [True, False])
@pytest.mark.parametrize("width", [88, 100, 120])
def test_it_is_formatted(pin: Pin, tmp_path: Path, with_acf: bool, width: int) -> None:
    path = python_file(pin if with_acf else replace(pin, acf=None), tmp_path / "pins")
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    style = ["format", "--isolated", "--no-cache", "--diff", f"--line-length={width}", str(path)]
    lint = [
        "check",
        "--isolated",
        "--no-cache",
        "--select=E,F,W,I,B,UP,SIM,C4",
        "--line-length=110",
        str(path),
    ]
    for command in (style, lint):
        done = subprocess.run(ruff + command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        CONFIG,
        [["float16", [4096, 2560], [2560, 1]], "1e-05"] * 5,
        "quotes ' and \" and \\ and \n and ä",
        [[list(range(40))], {"a": list(range(40))}],
        True,
        None,
        1e-5,
    ],
)
@pytest.mark.parametrize("column", [0, 60])
def test_literals_mean_what_they_were_made_from(value: object, column: int) -> None:
    found: dict[str, object] = {}
    exec(f"value = {literal(value, column)}", found)
    assert found["value"] == value


def test_a_module_in_a_package_has_its_full_name(tmp_path: Path) -> None:
    package = tmp_path / "ops" / "norm"
    package.mkdir(parents=True)
    (tmp_path / "ops" / "__init__.py").touch()
    (package / "__init__.py").touch()
    assert module_name(package / "softmax.py") == "ops.norm.softmax"
    assert module_name(tmp_path / "softmax.py") == "softmax"


@pytest.mark.slow
@pytest.mark.parametrize(("acf", "what"), [(None, "missing"), (ACF + b" ", "altered")])
def test_importing_it_without_its_acf_is_an_error(
    pin: Pin, tmp_path: Path, acf: bytes | None, what: str
) -> None:
    path = python_file(pin, tmp_path / what, acf=acf)
    child = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True)
    assert child.returncode == 1
    assert "missing or altered" in child.stderr and f"{ACF_SHA256}.acf" in child.stderr


@pytest.mark.slow
def test_white_space_in_its_path_does_not_reach_triton(pin: Pin, tmp_path: Path) -> None:
    path = python_file(pin, tmp_path / "my pins")
    acf = Path(
        run_with(path, "answer = pin.CONFIG.config['advanced_controls_file']", HOME=str(tmp_path / "home"))
    )
    assert not any(c.isspace() for c in str(acf)) and acf.is_relative_to(tmp_path / "home")
    assert hashlib.sha256(acf.read_bytes()).hexdigest() == ACF_SHA256
    assert [p.name for p in acf.parent.iterdir()] == [acf.name]


@pytest.mark.slow
def test_it_guards_dtypes_shapes_strides_and_scalars(pin: Pin, tmp_path: Path) -> None:
    texts = ("f16[8,4] 1e-5 None", "f16[8,4]{1,8} 1e-5 'torch.float16'")  # a dtype is recorded as its name
    path = python_file(replace(pin, shapes=tuple(map(parse_args, texts))), tmp_path / "pins")
    calls = {
        "torch.empty(8, 4, dtype=torch.float16), 1e-5, None": True,
        "torch.empty(4, 8, dtype=torch.float16).t(), 1e-5, torch.float16": True,
        "torch.empty(8, 4, dtype=torch.float16), 1e-5, torch.float16": False,
        "torch.empty(8, 4, dtype=torch.float16), 1e-6, None": False,
        "torch.empty(8, 4, dtype=torch.bfloat16), 1e-5, None": False,
        "torch.empty(8, 5, dtype=torch.float16), 1e-5, None": False,
        "torch.empty(8, 4, dtype=torch.float16), 1e-5": False,
        "[torch.empty(8, 4, dtype=torch.float16)], 1e-5, None": False,
        "": False,
    }
    code = f"answer = [{', '.join(f'pin.matches({call})' for call in calls)}]"
    assert dict(zip(calls, run_with(path, code), strict=True)) == calls


@pytest.mark.slow
def test_elsewhere_the_kernel_stays_as_it_was_with_one_warning(pin: Pin, tmp_path: Path) -> None:
    elsewhere = {**FINGERPRINT, "packages": {**FINGERPRINT["packages"], "helion": "1.4.0"}}  # type: ignore[dict-item]
    path = python_file(replace(pin, fingerprint=elsewhere), tmp_path / "pins")
    code = """
import warnings
kernel = types.SimpleNamespace(fn=lambda x: x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    same = pin.guarded(kernel) is kernel
answer = [same, [str(w.message) for w in caught], pin.check_environment(kernel)]
"""
    same, messages, changed = run_with(path, code)
    assert same and len(messages) == 1 and "pin of softmax not used" in messages[0]
    assert "helion 1.4.0 → " in changed[0] and messages[0].endswith("; ".join(changed))
    # this process was given no ptxas
    for name in PTXAS_VARIABLES:
        assert f"{name} ptxas 13.3.73 → not set" in changed
    # and the kernel stands in no file of that content
    assert changed[-1] == "softmax.py edited"
    assert "[" not in messages[0] and "→ ;" not in messages[0]


@pytest.mark.slow
def test_what_is_missing_elsewhere_is_said_in_words(pin: Pin, tmp_path: Path) -> None:
    path = python_file(pin, tmp_path / "pins")
    no_ptxas, old = tmp_path / "folder", tmp_path / "ptxas"
    no_ptxas.mkdir()
    old.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    old.chmod(0o755)
    (tmp_path / "softmax.py").write_text("def fn(x):\n    return x\n")
    code = f"""
torch.cuda.is_available = lambda: False
pin.check_environment.__globals__["ENVIRONMENT"]["no_such_package"] = "1.0"
kernel = types.SimpleNamespace(**runpy.run_path({str(tmp_path / "softmax.py")!r}))
answer = pin.check_environment(kernel)
"""
    changed = run_with(path, code, **dict(zip(PTXAS_VARIABLES, map(str, (old, no_ptxas)), strict=True)))
    assert "gpu sm_90 → no GPU" in changed
    assert f"{PTXAS_VARIABLES[0]} ptxas 13.3.73 → ptxas 12.8.93" in changed
    assert f"{PTXAS_VARIABLES[1]} ptxas 13.3.73 → no ptxas ({no_ptxas})" in changed
    assert "softmax.py edited" in changed
    assert "no_such_package 1.0 → none" in changed


@pytest.mark.slow
def test_where_it_holds_only_pinned_calls_get_the_variant(pin: Pin, tmp_path: Path) -> None:
    path = python_file(replace(pin, shapes=(parse_args("f16[8,4] 1e-5"),)), tmp_path / "pins")
    code = """
import inspect
def fn(x, eps=1e-5):
    return "own"
class Kernel:
    signature = inspect.signature(fn)
    __call__ = staticmethod(fn)
Kernel.fn = staticmethod(fn)
# neither the pinned environment nor a GPU to launch on is here: both are put in place of the file's own
inside = pin.guarded.__globals__
inside["ENVIRONMENT"], inside["tuned"] = {}, lambda kernel: lambda *args: "pinned"
call = pin.guarded(Kernel())
x = torch.empty(8, 4, dtype=torch.float16)
answer = [call(x), call(x, 1e-5), call(x, 1e-6), call(x.float()), call(x.t())]
"""
    assert run_with(path, code) == ["pinned", "pinned", "own", "own", "own"]
