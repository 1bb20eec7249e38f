"""The installed Helion's own ahead-of-time lookup picks what `helitune pin --aot` wrote, and only where it holds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helitune.acfs.ptxas import Ptxas
from helitune.objectives.compile_environment import compile_environment
from helitune.results.pin import Pin, pin_text, read_pin
from helitune.results.pin_aot_form import aot_path, write_aot
from helitune.results.pin_forms import Place

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[1] / "fixtures" / "pins"
HELITUNE = str(Path(sys.executable).with_name("helitune"))
WIDE: list[Any] = [["float16", [1024, 2560], [2560, 1]]]
FLAT: list[Any] = [["bfloat16", [512, 1024], [1024, 1]], 1.0]
TURNED: list[Any] = [["float16", [1024, 2560], [1, 1024]], 1.0]
SMALL: list[Any] = [["float16", [64, 64], [64, 1]]]
TUNE = [
    *("tune", "aot_softmax.py", "--quiet", "--args", "f16[1024,2560]", "--args", "bf16[512,1024]"),
    *("--acf-pack", "h200-seed", "--strategy", "random", "--seed", "1", "--budget", "4"),
    *("--set", "num_warps=4", "--set", "block_sizes=1", "--set", "pid_type=flat"),
]


def helitune(folder: Path, *arguments: str) -> str:
    done = subprocess.run([HELITUNE, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a kernel file, and one trial with an ACF pinned for both of its shapes."""
    folder = tmp_path_factory.mktemp("original")
    shutil.copy(FIXTURES / "aot_softmax.py", folder)
    helitune(folder, *TUNE)
    lines = next(folder.glob(".helitune/runs/*/trials.jsonl")).read_text().splitlines()
    trial = next(t for t in map(json.loads, lines) if t["outcome"] == "compiled" and t["acf"])
    out = helitune(folder, "pin", "--aot", "--allow", "compiled", "--trial", str(trial["number"]))
    assert "pins/_helion_aot_aot_softmax_cuda_sm90.py, of 1 pin: found by" in out
    assert "HELION_HEURISTIC_DIR=pins" in " ".join(out.split())
    return folder


def pinned(original: Path) -> Pin:
    return read_pin(next((original / "pins").glob("*/*/*_v1p0.json")))


def copied(original: Path, folder: Path) -> Path:
    shutil.copytree(original, folder, ignore=shutil.ignore_patterns(".helitune"))
    return folder


def altered(original: Path, folder: Path, pin: Pin) -> Path:
    """A copy whose only pin is `pin`."""
    copied(original, folder)
    shutil.rmtree(folder / "pins")
    place = Place.of(pin, folder / "pins")
    place.folder.mkdir(parents=True)
    place.json.write_text(pin_text(pin))
    if pin.acf is not None:
        shutil.copy(original / "pins" / pin.kernel / "sm_90" / pin.acf.file, place.folder)
    write_aot(pin, folder / "pins")
    return folder


@pytest.fixture(scope="module")
def answers(
    original: Path, tmp_path_factory: pytest.TempPathFactory, ptxas: Ptxas
) -> dict[str, dict[str, Any]]:
    """What Helion took in each case; one process asks for them all."""
    root = tmp_path_factory.mktemp("cases")
    pin = pinned(original)
    packages = {**pin.fingerprint["packages"], "triton": "3.1.4"}
    folders = {
        "as made": original,
        "two pins": copied(original, root / "two"),
        "beside": copied(original, root / "beside"),
        "my pins": copied(original, root / "my pins"),
        "without ACF": altered(original, root / "plain", replace(pin, acf=None)),
        "another Triton": altered(
            original, root / "triton", replace(pin, fingerprint={**pin.fingerprint, "packages": packages})
        ),
        "ACF byte": copied(original, root / "byte"),
        "older GPU's file": altered(original, root / "older", replace(pin, gpu="sm_80")),
        "edited": copied(original, root / "edited"),
        "no file": copied(original, root / "none"),
    }
    two = replace(pin, acf=None, shapes=pin.shapes[1:], config={"block_sizes": [2], "num_warps": 2})
    place = Place.of(two, folders["two pins"] / "pins")
    place.json.write_text(pin_text(two))
    assert write_aot(two, folders["two pins"] / "pins").pins == 2
    for path in (folders["beside"] / "pins").iterdir():
        path.rename(folders["beside"] / path.name)
    (acf,) = (folders["ACF byte"] / "pins").rglob("*.acf")
    acf.write_bytes(acf.read_bytes()[:-1])
    with (folders["edited"] / "aot_softmax.py").open("a") as handle:
        handle.write("# edited\n")
    aot_path(pin, folders["no file"] / "pins").unlink()
    calls = [WIDE, FLAT, TURNED, [*WIDE, 1.0], TURNED, SMALL]
    cases = [
        (str(folder / "aot_softmax.py"), None if name == "beside" else str(folder / "pins"), calls)
        for name, folder in folders.items()
    ]
    # strided calls first: Helion's memory of what it took is asked from the other side
    cases.append((str(original / "aot_softmax.py"), str(original / "pins"), [TURNED, SMALL, WIDE, FLAT]))
    environment = compile_environment(ptxas, os.environ, root / "scratch") | {"HOME": str(root / "home")}
    child = subprocess.run(
        [sys.executable, str(FIXTURES / "aot_runner.py"), "aot_softmax", json.dumps(cases)],
        capture_output=True,
        text=True,
        cwd=root,
        env=environment,
    )
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout.splitlines()[-1])
    return dict(zip([*folders, "strided first"], found, strict=True))


def ran(answer: dict[str, Any]) -> list[str]:
    """For each call "pinned" or "default"."""
    return ["default" if call["config"] == call["default"] else "pinned" for call in answer["calls"]]


@pytest.mark.parametrize("name", ["as made", "beside", "my pins"])
def test_pinned_calls_get_the_pins_code_and_others_helions_default(
    original: Path, answers: dict[str, dict[str, Any]], name: str
) -> None:
    pin, answer = pinned(original), answers[name]
    assert ran(answer) == ["pinned", "pinned", "default", "pinned", "default", "default"]
    assert answer["warnings"] == []
    expected = [[launch["code_sha256"] for launch in shape] for shape in pin.artifacts]
    assert [call["code"] for call in answer["calls"][:2]] == expected
    assert pin.acf is not None
    taken = Path(answer["calls"][0]["config"]["advanced_controls_file"])
    assert hashlib.sha256(taken.read_bytes()).hexdigest() == pin.acf.sha256
    assert " " not in str(taken)
    without = answers["without ACF"]
    assert ran(without) == ran(answer) and "advanced_controls_file" not in without["calls"][0]["config"]
    assert without["calls"][0]["code"] != expected[0]


def test_each_shape_gets_the_config_of_its_own_pin(
    original: Path, answers: dict[str, dict[str, Any]]
) -> None:
    wide, flat, *_ = answers["two pins"]["calls"]
    assert wide["config"]["num_warps"] == pinned(original).config["num_warps"] == 4
    assert flat["config"] == {"block_sizes": [2], "num_warps": 2}
    assert answers["two pins"]["warnings"] == []


def test_what_a_strided_call_got_is_not_given_to_a_pinned_one(answers: dict[str, dict[str, Any]]) -> None:
    assert ran(answers["strided first"]) == ["default", "default", "pinned", "pinned"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("another Triton", "triton 3.1.4 → "),
        ("ACF byte", "ACF is missing or altered"),
        ("older GPU's file", "gpu sm_80 → sm_90"),
        ("edited", "aot_softmax.py edited"),
    ],
)
def test_elsewhere_every_call_gets_helions_default_with_one_warning(
    answers: dict[str, dict[str, Any]], name: str, said: str
) -> None:
    assert set(ran(answers[name])) == {"default"}
    (warning,) = answers[name]["warnings"]
    assert warning.startswith("pin of aot_softmax not used: ") and said in warning


def test_the_default_is_what_helion_takes_without_the_file(answers: dict[str, dict[str, Any]]) -> None:
    without = answers["no file"]
    assert set(ran(without)) == {"default"}
    assert [call["code"] for call in answers["edited"]["calls"]] == [
        call["code"] for call in without["calls"]
    ]
