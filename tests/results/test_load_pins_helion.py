"""A pin made on one fingerprint, loaded under altered ones by the installed Helion, Triton and ptxas."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import BETTER, CHECK, OWN, make_run

from helitune.acfs.content import digest
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.compile_environment import compile_environment
from helitune.results.fingerprint import fingerprint
from helitune.results.pin import PIN_FORMAT, Pin, PinnedAcf, pin_text
from helitune.results.pin_choice import make_pin
from helitune.results.pin_environment import PTXAS_VARIABLES
from helitune.results.pin_forms import Place
from helitune.search.args import parse_args

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "pins"
SEEDS = ROOT / "acfs" / "data" / "h200-seed"
CONFIG = {"block_sizes": [1], "num_warps": 8}
CALL: list[Any] = [["float16", [1024, 2560], [2560, 1], 0], 1.0]


def with_packages(pin: Pin, **versions: str) -> Pin:
    packages = {**pin.fingerprint["packages"], **versions}
    return replace(pin, fingerprint={**pin.fingerprint, "packages": packages})


def with_ptxas(pin: Pin, **fields: str) -> Pin:
    assert pin.acf is not None
    ptxas = {**pin.fingerprint["ptxas"], **fields}
    acf = replace(pin.acf, ptxas=ptxas["version"])
    return replace(pin, acf=acf, fingerprint={**pin.fingerprint, "ptxas": ptxas})


def measured_on(pin: Pin, name: str) -> Pin:
    return replace(pin, fingerprint={**pin.fingerprint, "gpu": {"name": name}})


@dataclass(frozen=True)
class Altered:
    """One thing that is not as where the pin was made, in the pin, on disk or in the call; and what is said."""

    name: str
    said: str
    pin: Callable[[Pin], Pin] = lambda pin: pin
    disk: Callable[[Path, Pin], object] = lambda path, pin: None
    call: tuple[Any, ...] = tuple(CALL)


def acf_of(path: Path, pin: Pin) -> Path:
    assert pin.acf is not None
    return path.with_name(pin.acf.file)


def flip_a_byte(path: Path, pin: Pin) -> None:
    acf = acf_of(path, pin)
    content = bytearray(acf.read_bytes())
    content[len(content) // 2] ^= 1
    acf.write_bytes(content)


def from_the_future(path: Path, pin: Pin) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": PIN_FORMAT + 1}))


ALTERED = [
    Altered("GPU", "GPU NVIDIA H100 → NVIDIA H200", lambda pin: measured_on(pin, "NVIDIA H100")),
    Altered("arch", "GPU sm_100 → sm_90", lambda pin: replace(pin, gpu="sm_100")),
    Altered(
        "ptxas",
        "ptxas 13.4.92 → 13.3.",
        lambda pin: with_ptxas(pin, version="13.4.92", sha256="0" * 64),
    ),
    Altered("triton", "triton 3.1.4 → ", lambda pin: with_packages(pin, triton="3.1.4")),
    Altered("helion", "helion 1.4.0 → ", lambda pin: with_packages(pin, helion="1.4.0")),
    Altered("torch", "torch 2.9.1 → ", lambda pin: with_packages(pin, torch="2.9.1+cu130")),
    Altered("ACF byte", "was altered", disk=flip_a_byte),
    Altered("ACF missing", "cannot be read", disk=lambda path, pin: acf_of(path, pin).unlink()),
    Altered(
        "shape",
        "not pinned (float16[1024, 2048]",
        call=(["float16", [1024, 2048], [2048, 1], 0], 1.0),
    ),
    Altered(
        "dtype",
        "not pinned (bfloat16[1024, 2560]",
        call=(["bfloat16", [1024, 2560], [2560, 1], 0], 1.0),
    ),
    Altered("schema from the future", "from the future", disk=from_the_future),
    Altered("strides", "of strides [1, 1024]", call=(["float16", [1024, 2560], [1, 1024], 0], 1.0)),
    Altered("alignment", "unaligned", call=(["float16", [1024, 2560], [2560, 1], 1], 1.0)),
    Altered("scalar", "not pinned (", call=(CALL[0], 2.0)),
    Altered("ptxas file", "another file of that version", lambda pin: with_ptxas(pin, sha256="0" * 64)),
    Altered("source", "row_softmax.py edited", lambda pin: replace(pin, source_sha256="0" * 64)),
]
UNALTERED = [
    Altered("unaltered", ""),
    Altered("default left out", "", call=(CALL[0],)),
    Altered("measured here", "", lambda pin: measured_on(pin, "NVIDIA H200")),
    Altered("without ACF", "", lambda pin: replace(pin, acf=None)),
    Altered(
        "another ptxas, no ACF",
        "",
        lambda pin: replace(with_ptxas(pin, version="13.4.92", sha256="0" * 64), acf=None),
    ),
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, ptxas: Ptxas) -> dict[str, dict[str, Any]]:
    """What became of each altered pin; one process judges them all."""
    folder = tmp_path_factory.mktemp("loaded")
    kernel_file = Path(shutil.copy(FIXTURES / "row_softmax.py", folder))
    acf = min(SEEDS.glob("*.acf"))
    original = original_pin(folder, kernel_file, acf, fingerprint(ptxas, "sm_90"))
    cases = []
    for number, altered in enumerate(UNALTERED + ALTERED):
        pin = altered.pin(original)
        place = Place.of(pin, folder / f"pins{number}")
        place.folder.mkdir(parents=True)
        place.json.write_text(pin_text(pin))
        if pin.acf is not None:
            shutil.copy(acf, place.folder / pin.acf.file)
        altered.disk(place.json, pin)
        compiled = altered.name in ("unaltered", "without ACF")
        cases.append((str(folder / f"pins{number}"), altered.call, compiled))
    environment = compile_environment(ptxas, os.environ, folder / "scratch")
    child = subprocess.run(
        [
            *(sys.executable, str(FIXTURES / "loaded_pins_runner.py")),
            *(str(kernel_file), "row_softmax", json.dumps(cases)),
        ],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert child.returncode == 0, child.stderr
    answers = json.loads(child.stdout.splitlines()[-1])
    return {each.name: answer for each, answer in zip(UNALTERED + ALTERED, answers, strict=True)}


def original_pin(folder: Path, kernel_file: Path, acf: Path, now: dict[str, Any]) -> Pin:
    run = make_run(folder / "run", [OWN, BETTER])
    content = acf.read_bytes()
    return replace(
        make_pin(run, run.trials(), BETTER, now, asked=False),
        kernel="row_softmax",
        file="row_softmax.py",
        source_sha256=hashlib.sha256(kernel_file.read_bytes()).hexdigest(),
        shapes=(parse_args("f16[1024,2560] 1.0"),),
        config=CONFIG,
        acf=PinnedAcf(digest(content), acf.stem, "13.3", now["ptxas"]["version"]),
        check=CHECK.to_json(),
    )


@pytest.mark.parametrize("altered", ALTERED, ids=[each.name for each in ALTERED])
def test_an_altered_one_leaves_the_kernel_as_it_is_with_one_warning(
    loaded: dict[str, dict[str, Any]], altered: Altered
) -> None:
    answer = loaded[altered.name]
    assert answer["runs"] == "own" and answer["config"] == {"block_sizes": [1], "num_warps": 1}
    (warning,) = answer["warnings"]
    assert altered.said in warning
    assert altered.said in answer["error"]


@pytest.mark.parametrize("unaltered", UNALTERED, ids=[each.name for each in UNALTERED])
def test_an_unaltered_one_is_used_without_a_word(
    loaded: dict[str, dict[str, Any]], unaltered: Altered, cache_folder: Path
) -> None:
    answer = loaded[unaltered.name]
    assert (answer["runs"], answer["warnings"], answer["error"]) == ("pinned", [], None)
    acf = answer["config"].pop("advanced_controls_file", None)
    assert answer["config"] == CONFIG and answer["static_shapes"] is True
    assert (acf is None) == ("ACF" in unaltered.name)
    if acf is not None:
        assert Path(acf).parent == cache_folder / "acfs"
        assert Path(acf).stem == digest(Path(acf).read_bytes())


def test_the_acf_reaches_ptxas(loaded: dict[str, dict[str, Any]]) -> None:
    with_acf, without = loaded["unaltered"]["code"], loaded["without ACF"]["code"]
    assert len(with_acf) == len(without) == 1 and with_acf != without


@pytest.mark.gpu
@pytest.mark.parametrize("with_ptxas", [True, False])
def test_on_a_gpu_the_pinned_call_runs_and_is_right(tmp_path: Path, ptxas: Ptxas, with_ptxas: bool) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) != (9, 0):
        pytest.skip("the shipped ACFs are for sm_90")
    kernel_file = Path(shutil.copy(FIXTURES / "row_softmax.py", tmp_path))
    acf = min(SEEDS.glob("*.acf"))
    pin = original_pin(tmp_path, kernel_file, acf, fingerprint(ptxas, "sm_90"))
    pin = measured_on(pin, torch.cuda.get_device_name())
    place = Place.of(pin, tmp_path / "pins")
    place.folder.mkdir(parents=True)
    place.json.write_text(pin_text(pin))
    assert pin.acf is not None
    shutil.copy(acf, place.folder / pin.acf.file)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_PTXAS")}
    if with_ptxas:
        environment |= dict.fromkeys(PTXAS_VARIABLES, str(ptxas.path))
    child = subprocess.run(
        [
            sys.executable,
            str(FIXTURES / "serve_on_gpu.py"),
            str(kernel_file),
            "row_softmax",
            str(tmp_path / "pins"),
        ],
        capture_output=True,
        text=True,
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path / "triton")},
    )
    assert child.returncode == 0, child.stderr
    answer = json.loads(child.stdout.splitlines()[-1])
    assert all(call["agrees"] for call in answer["calls"])
    runs = "pinned" if with_ptxas else "own"
    assert [call["runs"] for call in answer["calls"]] == [runs, runs, "own"]
    # not pinned is the last shape; without the variables, Triton's own ptxas is not the ACF's
    (warning,) = answer["warnings"]
    assert ("not pinned" if with_ptxas else "ptxas 13.3.") in warning
    assert (answer["calls"][0]["acf"] is not None) == with_ptxas
