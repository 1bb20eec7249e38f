"""The text and the place of the form that @helion.aot_kernel() loads; nothing compiles."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, FINGERPRINT, OWN, make_run

from helitune.acfs.errors import InputError
from helitune.results.pin import Pin, pin_text
from helitune.results.pin_aot_form import MARK, aot_heuristic, write_aot
from helitune.results.pin_choice import make_pin
from helitune.results.pin_forms import Place
from helitune.search.args import parse_args

NAME = "_helion_aot_softmax_cuda_sm90.py"


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    run = make_run(tmp_path / "run", [OWN, BETTER])
    return make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)


@pytest.fixture
def pins(pin: Pin) -> list[Pin]:
    """With an ACF and without, of two kernels of one file."""
    small = replace(pin, acf=None, shapes=(parse_args("f16[8,4] 1e-5"), parse_args("f16[4,4]{1,4} None")))
    return [pin, small, replace(pin, kernel="log_softmax")]


def write(pin: Pin, root: Path) -> None:
    place = Place.of(pin, root)
    place.folder.mkdir(parents=True, exist_ok=True)
    place.json.write_text(pin_text(pin))
    if pin.acf is not None:
        (place.folder / pin.acf.file).write_bytes(ACF)


def values(text: str) -> dict[str, object]:
    """The constants at the top of a generated file."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def test_it_has_the_functions_that_helion_asks_for_each_kernel(pins: list[Pin]) -> None:
    functions = {
        node.name for node in ast.parse(aot_heuristic(pins)).body if isinstance(node, ast.FunctionDef)
    }
    assert functions >= {"key_softmax", "autotune_softmax", "key_log_softmax", "autotune_log_softmax"}


def test_it_holds_each_pin_with_where_it_holds(pins: list[Pin]) -> None:
    found = values(aot_heuristic(pins))
    assert found["FILE"] == "softmax.py"
    by_call = {(entry["kernel"], str(entry["calls"])): entry for entry in found["PINS"]}  # type: ignore[attr-defined]
    assert len(by_call) == 3
    first = by_call["softmax", "[[['float16', [4096, 2560], [2560, 1]]]]"]
    assert first["config"] == pins[0].config and first["environment"]["gpu"] == "sm_90"
    assert first["acf"] == f"softmax/sm_90/{ACF_SHA256}.acf"
    small = by_call[
        "softmax", "[[['float16', [8, 4], [4, 1]], '1e-05'], [['float16', [4, 4], [1, 4]], 'None']]"
    ]
    assert small["acf"] is None and "TRITON_PTXAS_PATH" not in small["environment"]


def test_the_same_pins_give_the_same_text(pins: list[Pin]) -> None:
    assert aot_heuristic(pins) == aot_heuristic(pins[::-1])


def test_nothing_of_an_acf_is_left_without_one(pins: list[Pin]) -> None:
    text = aot_heuristic([replace(pin, acf=None) for pin in pins]).lower()
    assert "acf" not in text and "ptxas" not in text and "$" not in text and "import os" not in text
    assert "helitune." not in text and "import helitune" not in text


def test_nothing_that_helions_export_would_take_for_a_list_of_configs(pins: list[Pin]) -> None:
    # it would index that list with our keys
    assert "CONFIGS" not in aot_heuristic(pins) and "_C = [" not in aot_heuristic(pins)


@pytest.mark.parametrize(
    "change",
    [{"file": "other.py"}, {"gpu": "sm_100"}, {"source_sha256": "0" * 64}],
    ids=lambda c: next(iter(c)),
)
def test_pins_of_several_origins_do_not_mix(pin: Pin, change: dict[str, str]) -> None:
    with pytest.raises(InputError, match="do not go into one file"):
        aot_heuristic([pin, replace(pin, **change)])  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("ruff", path=str(Path(sys.executable).parent)) is None, reason="needs ruff")
@pytest.mark.parametrize("with_acf", [True, False])
def test_it_is_formatted(pins: list[Pin], tmp_path: Path, with_acf: bool) -> None:
    path = tmp_path / NAME
    path.write_text(aot_heuristic(pins if with_acf else [replace(pin, acf=None) for pin in pins]))
    ruff = str(Path(sys.executable).with_name("ruff"))
    checks = [["check", "--isolated", "--no-cache", "--select=E,F,W,I,B,UP,SIM,C4", "--line-length=110"]]
    checks += [["format", "--isolated", "--no-cache", "--diff", f"--line-length={n}"] for n in (88, 120)]
    for check in checks:
        done = subprocess.run([ruff, *check, str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_gathers_what_is_pinned_of_the_kernel_file(pins: list[Pin], tmp_path: Path) -> None:
    root = tmp_path / "pins"
    for pin in pins:
        write(pin, root)
    write(replace(pins[0], gpu="sm_100"), root)
    write(replace(pins[0], kernel="matmul", file="matmul.py"), root)
    older = replace(pins[0], source_sha256="0" * 64, shapes=(parse_args("f16[2,2]"),))
    write(older, root)
    (root / "softmax" / "sm_90" / "broken.json").write_text("{")
    form = write_aot(pins[0], root)
    assert (form.path, form.pins) == (root / NAME, 3)
    assert form.path.read_text() == aot_heuristic(pins)
    broken, edited = sorted(form.left_out, key=lambda reason: "another version" in reason)
    assert "broken.json" in broken and "not JSON" in broken
    assert "another version of softmax.py" in edited and "f16_2x2.json" in edited


def test_only_a_file_of_ours_is_replaced(pin: Pin, tmp_path: Path) -> None:
    root = tmp_path / "pins"
    write(pin, root)
    write_aot(pin, root)
    assert MARK in (root / NAME).read_text().splitlines()[0]
    write_aot(pin, root)
    (root / NAME).write_text('"""Auto-generated heuristics for kernels: softmax"""\n')
    with pytest.raises(InputError, match=f"{NAME}.*move it away"):
        write_aot(pin, root)
    assert (root / NAME).read_text().startswith('"""Auto-generated')


def test_what_comes_from_a_pin_file_stays_data(pin: Pin, tmp_path: Path) -> None:
    hostile = '"""; raise SystemExit; """ $kernel \\N{DEGREE SIGN}'
    odd = replace(pin, acf=None, config={"num_warps": hostile}, shapes=(parse_args("f16[8]"),))
    write(odd, tmp_path)
    fields = json.loads(next(tmp_path.glob("*/*/*.json")).read_text())
    assert fields["config"]["num_warps"] == hostile
    found = values(aot_heuristic([odd]))
    assert found["PINS"][0]["config"] == {"num_warps": hostile}  # type: ignore[index]
