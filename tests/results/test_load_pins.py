"""Pins in a serving process: which kernel a call runs, and what is said where a pin is not used. Nothing compiles."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, FINGERPRINT, OWN, SOURCE, make_run

from helitune.acfs.errors import InputError, MachineError, UserError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives import kernel_call
from helitune.results import pin_mismatch
from helitune.results.load_pins import PinWarning, tuned
from helitune.results.pin import PIN_FORMAT, Pin, pin_text
from helitune.results.pin_choice import make_pin
from helitune.results.pin_files import MAX_PINS
from helitune.results.pin_forms import Place
from helitune.search.args import format_shape, parse_args

PTXAS = Ptxas(Path("/opt/ptxas"), "13.3.73", "ab" * 32)
PINNED, OTHER = "f16[4096,2560]", "f16[8,8]"


def source(x: str, eps: str = "1e-05") -> str:
    return f"own {x}"


class Kernel:
    """As much of a Helion kernel as the loader asks: what a call returns says which one ran."""

    name = "softmax"

    def __init__(self, label: str = "own") -> None:
        self.fn, self.signature, self.label = source, inspect.signature(source), label

    def __call__(self, *args: Any) -> str:
        return f"{self.label} {' '.join(args)}"

    def normalize_args(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    run = make_run(tmp_path / "run", [OWN, BETTER])
    made = make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)
    return replace(made, shapes=(parse_args(f"{PINNED} 1e-05"),))


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    return tmp_path / "pins"


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The serving process, in place of torch, Triton and Helion: arguments are texts, devices are numbers."""
    stand = SimpleNamespace(device=0, gpus={0: kernel_call.Gpu("sm_90", "NVIDIA H200")}, ptxas=PTXAS, made=[])
    versions = {name: text.partition("+")[0] for name, text in FINGERPRINT["packages"].items()}
    file = tmp_path / "softmax.py"
    file.write_bytes(SOURCE)

    def variant(kernel: Kernel, config: dict[str, Any]) -> Kernel:
        stand.made.append(config)
        return Kernel("pinned")

    monkeypatch.setattr(kernel_call, "call_key", lambda args: (stand.device, tuple(args)))
    monkeypatch.setattr(kernel_call, "pinned_key", lambda shape: tuple(format_shape(shape).split()))
    monkeypatch.setattr(kernel_call, "gpu", lambda device: stand.gpus[device])
    monkeypatch.setattr(kernel_call, "triton_ptxas", lambda arch: stand.ptxas.path)
    monkeypatch.setattr(kernel_call, "installed_version", versions.__getitem__)
    monkeypatch.setattr(kernel_call, "source_file", lambda kernel: file)
    monkeypatch.setattr(kernel_call, "variant", variant)
    monkeypatch.setattr(pin_mismatch, "find_ptxas", lambda path: stand.ptxas)
    stand.versions, stand.file = versions, file
    return stand


def write(pin: Pin, pins: Path) -> Path:
    place = Place.of(pin, pins)
    place.folder.mkdir(parents=True, exist_ok=True)
    place.json.write_text(pin_text(pin))
    if pin.acf is not None:
        (place.folder / pin.acf.file).write_bytes(ACF)
    return place.json


@contextmanager
def told() -> Iterator[list[str]]:
    """The PinWarnings given inside."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    assert all(issubclass(each.category, PinWarning) for each in caught)
    messages += [str(each.message) for each in caught]


def calls(pins: Path, *texts: str) -> tuple[list[str], list[str]]:
    """What calls with these arguments return, and all warnings, the loading's included."""
    with told() as messages:
        kernel = tuned(Kernel(), pins)
        results = [kernel(*text.split()) for text in texts]
    return results, messages


def test_pinned_calls_get_the_variant_and_others_the_kernel_with_one_warning(pin: Pin, pins: Path) -> None:
    write(pin, pins)
    texts = [f"{PINNED} 1e-05", PINNED, OTHER, f"{PINNED} 1e-06", OTHER, "f16[16,16]", PINNED]
    results, messages = calls(pins, *texts)
    assert [result.split()[0] for result in results] == ["pinned"] * 2 + ["own"] * 4 + ["pinned"]
    (message,) = messages
    assert message.startswith("softmax runs as it is: a call that is not pinned (f16[8,8] 1e-05)")
    assert "pinned are f16[4096,2560] 1e-05" in message


def test_keyword_arguments_and_what_is_no_call(pin: Pin, pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(pin, pins)
    kernel = tuned(Kernel(), pins)
    assert kernel(PINNED, eps="1e-05").startswith("pinned")
    assert kernel(eps="1e-05", x=PINNED).startswith("pinned")
    # the kernel itself says what is wrong
    assert kernel("one", "two", "three") == "own one two three"
    assert (kernel.__name__, kernel.kernel.label) == ("source", "own")


def test_the_acf_is_used_from_where_its_path_changes_with_its_content(
    pin: Pin, pins: Path, cache_folder: Path, process: SimpleNamespace
) -> None:
    json_path = write(pin, pins)
    kernel = tuned(Kernel(), pins)
    # what happens to the pin after it was read happens to nobody else
    json_path.with_name(f"{ACF_SHA256}.acf").write_bytes(b"another")
    assert kernel(PINNED).startswith("pinned")
    (config,) = process.made
    assert config == {
        **pin.config,
        "advanced_controls_file": str(cache_folder / "acfs" / f"{ACF_SHA256}.acf"),
    }
    assert Path(config["advanced_controls_file"]).read_bytes() == ACF


def test_a_pin_without_an_acf_asks_for_no_ptxas(pin: Pin, pins: Path, process: SimpleNamespace) -> None:
    write(replace(pin, acf=None), pins)
    process.ptxas = Ptxas(Path("/usr/bin/ptxas"), "12.9.86", "cd" * 32)
    assert calls(pins, PINNED) == ([f"pinned {PINNED}"], [])
    assert process.made == [pin.config]


def elsewhere(process: SimpleNamespace, what: str) -> None:
    """Change one thing of the process."""
    if what in process.versions:
        process.versions[what] = "9.9"
    elif what == "arch":
        process.gpus[0] = kernel_call.Gpu("sm_100", "NVIDIA B200")
    elif what == "ptxas":
        process.ptxas = replace(PTXAS, version="13.4.92", sha256="cd" * 32)
    elif what == "ptxas file":
        process.ptxas = replace(PTXAS, sha256="cd" * 32)
    elif what == "source":
        process.file.write_bytes(SOURCE + b"\n")
    elif what == "no GPU":
        process.device = None


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("helion", "helion 1.5.1 → 9.9"),
        ("triton", "triton 3.9.0 → 9.9"),
        ("torch", "torch 2.13.0 → 9.9"),
        ("arch", "GPU sm_90 → sm_100"),
        ("no GPU", "GPU sm_90 → no GPU"),
        ("ptxas", "ptxas 13.3.73 → 13.4.92 (/opt/ptxas)"),
        ("ptxas file", "ptxas 13.3.73 → another file of that version (/opt/ptxas)"),
        ("source", "softmax.py edited"),
    ],
)
def test_elsewhere_the_kernel_runs_with_one_warning(
    pin: Pin, pins: Path, process: SimpleNamespace, what: str, said: str
) -> None:
    path = write(pin, pins)
    write(replace(pin, shapes=(parse_args(f"{OTHER} 1e-05"),)), pins)
    before = path.read_bytes()
    elsewhere(process, what)
    results, messages = calls(pins, PINNED, OTHER, PINNED, "f16[1,1]")
    assert all(result.startswith("own") for result in results)
    (message,) = messages
    assert f"made for another environment: {said} (" in message
    assert ("set TRITON_PTXAS_PATH" in message) == what.startswith("ptxas")
    assert path.read_bytes() == before


def test_a_measured_pin_holds_on_gpus_of_its_name(pin: Pin, pins: Path, process: SimpleNamespace) -> None:
    write(replace(pin, fingerprint={**FINGERPRINT, "gpu": {"name": "NVIDIA H200"}}), pins)
    assert calls(pins, PINNED) == ([f"pinned {PINNED}"], [])
    process.gpus[0] = kernel_call.Gpu("sm_90", "NVIDIA H100 80GB HBM3")
    results, messages = calls(pins, PINNED)
    assert results == [f"own {PINNED}"] and "GPU NVIDIA H200 → NVIDIA H100" in messages[0]


def test_a_compiled_pin_names_no_gpu_and_holds_on_its_architecture(
    pin: Pin, pins: Path, process: SimpleNamespace
) -> None:
    write(pin, pins)
    process.gpus[0] = kernel_call.Gpu("sm_90", "NVIDIA H100 80GB HBM3")
    assert pin.evidence == "compiled" and calls(pins, PINNED) == ([f"pinned {PINNED}"], [])


def test_each_device_is_judged_by_itself(pin: Pin, pins: Path, process: SimpleNamespace) -> None:
    write(pin, pins)
    process.gpus[1] = kernel_call.Gpu("sm_80", "NVIDIA A100")
    kernel = tuned(Kernel(), pins)
    with told() as messages:
        found = []
        for process.device in (1, 0, 1, 0):
            found.append(kernel(PINNED).split()[0])
    assert found == ["own", "pinned", "own", "pinned"] and len(messages) == 1


def test_pins_for_other_architectures_are_no_mismatch_beside_a_fitting_one(pin: Pin, pins: Path) -> None:
    write(pin, pins)
    write(replace(pin, gpu="sm_100"), pins)
    assert calls(pins, PINNED) == ([f"pinned {PINNED}"], [])


def test_of_two_pins_the_more_particular_counts(pin: Pin, pins: Path, process: SimpleNamespace) -> None:
    # the less particular one comes first by name
    both = (parse_args("f16[1,1] 1e-05"), *pin.shapes)
    write(replace(pin, acf=None, shapes=both, config={"num_warps": 1}), pins)
    write(replace(pin, acf=None, config={"num_warps": 2}), pins)
    kernel = tuned(Kernel(), pins)
    kernel(PINNED)
    assert process.made[0] == {"num_warps": 2}


def spoiled(path: Path, what: str) -> None:
    """Spoil one thing of a pin on disk."""
    acf = path.with_name(f"{ACF_SHA256}.acf")
    fields = json.loads(path.read_text())
    if what == "ACF byte":
        acf.write_bytes(ACF[:-1] + bytes([ACF[-1] ^ 1]))
    elif what == "ACF missing":
        acf.unlink()
    elif what == "ACF pipe":
        acf.unlink()
        os.mkfifo(acf)
    elif what == "future":
        path.write_text(
            json.dumps(fields | {"format": PIN_FORMAT + 1, "config": ["as a later version has it"]})
        )
    elif what == "edited":
        path.write_text(json.dumps(fields | {"config": {"num_warps": 8}}))
    elif what == "unchecked ACF":
        path.write_text(json.dumps(fields | {"config": {"advanced_controls_file": "/tmp/x.acf"}}))
    elif what == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif what == "too long":
        with path.open("r+b") as handle:
            handle.truncate(1 << 40)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("ACF byte", "the pin's ACF first was altered"),
        ("ACF missing", "the pin's ACF first cannot be read: No such file"),
        ("ACF pipe", "the pin's ACF first cannot be read: not a regular file"),
        ("future", f"format {PIN_FORMAT + 1}, from the future"),
        ("edited", "changed by hand"),
        ("unchecked ACF", "config names an ACF"),
        ("pipe", "not a regular file"),
        ("too long", "not a pin"),
    ],
)
def test_a_spoiled_pin_is_named_and_the_others_are_used(
    pin: Pin, pins: Path, tmp_path: Path, what: str, said: str
) -> None:
    write(replace(pin, acf=None, shapes=(parse_args(f"{OTHER} 1e-05"),)), pins)
    path = write(pin, pins)
    spoiled(path, what)
    results, messages = calls(pins, PINNED, OTHER)
    assert results == [f"own {PINNED}", f"pinned {OTHER}"]
    assert said in messages[0] and str(path.parent) in messages[0]
    assert len(messages) == 2 and "not pinned" in messages[1]
    with pytest.raises(InputError, match=said):
        tuned(Kernel(), pins, on_mismatch="raise")


def test_raise_says_the_same_as_an_error_each_time(pin: Pin, pins: Path, process: SimpleNamespace) -> None:
    write(pin, pins)
    kernel = tuned(Kernel(), pins, on_mismatch="raise")
    assert kernel(PINNED).startswith("pinned")
    for _ in range(2):
        with pytest.raises(InputError, match=r"not pinned \(f16\[8,8\]"):
            kernel(OTHER)
    elsewhere(process, "triton")
    kernel = tuned(Kernel(), pins, on_mismatch="raise")
    for _ in range(2):
        with pytest.raises(MachineError, match=r"triton 3\.9\.0 → 9\.9"):
            kernel(PINNED)
    with pytest.raises(ValueError, match="'own' or 'raise'"):
        tuned(Kernel(), pins, on_mismatch="warn")  # type: ignore[arg-type]


def test_a_variant_that_fails_costs_the_pin_and_not_the_call(
    pin: Pin, pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> str:
        raise RuntimeError("ptxas exit 255")

    write(pin, pins)
    monkeypatch.setattr(kernel_call, "variant", lambda kernel, config: fails)
    results, messages = calls(pins, PINNED, PINNED)
    assert results == [f"own {PINNED}"] * 2
    assert len(messages) == 1 and "a pinned call failed: RuntimeError: ptxas exit 255" in messages[0]
    with pytest.raises(RuntimeError, match="exit 255"):
        tuned(Kernel(), pins, on_mismatch="raise")(PINNED)


def test_a_variant_that_has_worked_is_the_kernel(
    pin: Pin, pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["first"])

    def once(*args: Any) -> str:
        return next(answers)

    write(pin, pins)
    monkeypatch.setattr(kernel_call, "variant", lambda kernel, config: once)
    kernel = tuned(Kernel(), pins)
    assert kernel(PINNED) == "first"
    with pytest.raises(StopIteration):
        kernel(PINNED)


def test_where_helion_refuses_the_config_the_kernel_runs(
    pin: Pin, pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(kernel: Any, config: Any) -> Any:
        raise TypeError("unexpected keyword")

    write(pin, pins)
    monkeypatch.setattr(kernel_call, "variant", refuses)
    results, messages = calls(pins, PINNED, PINNED)
    assert results == [f"own {PINNED}"] * 2 and len(messages) == 1 and "unexpected keyword" in messages[0]


def test_a_thousand_different_calls_leave_nothing_behind(pin: Pin, pins: Path) -> None:
    write(pin, pins)
    with told() as messages:
        kernel = tuned(Kernel(), pins)
        for size in range(1000):
            kernel(f"f16[{size}]")
    assert len(messages) == 1
    assert sum(len(table) for table in kernel._tables.values()) == 1 and not kernel._proven


def test_a_folder_without_pins_is_said_once(pins: Path) -> None:
    results, messages = calls(pins, PINNED, PINNED)
    assert results == [f"own {PINNED}"] * 2
    assert messages == [
        f"softmax runs as it is: no pin of softmax there ({pins}); name the folder of helitune pin -o, or make a pin"
    ]


def test_one_pin_may_be_named(pin: Pin, pins: Path) -> None:
    path = write(pin, pins)
    assert calls(path, PINNED) == ([f"pinned {PINNED}"], [])
    write(replace(pin, kernel="layer_norm"), pins)
    results, messages = calls(path.parents[2] / "layer_norm" / "sm_90" / path.name, PINNED)
    assert results == [f"own {PINNED}"] and "a pin of layer_norm, not of softmax" in messages[0]


def test_a_kernel_is_found_under_the_name_that_its_module_has_for_it(
    pin: Pin, pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(replace(pin, kernel="row_softmax"), pins)
    kernel = Kernel()
    with told() as messages:
        assert tuned(kernel, pins)(PINNED).startswith("own")
    assert len(messages) == 1 and "no pin of softmax there" in messages[0]
    monkeypatch.setitem(source.__globals__, "row_softmax", kernel)
    assert tuned(kernel, pins)(PINNED).startswith("pinned")


def test_a_folder_of_too_many_pins_is_refused(pins: Path) -> None:
    folder = pins / "softmax" / "sm_90"
    folder.mkdir(parents=True)
    for number in range(MAX_PINS + 1):
        (folder / f"{number}.json").touch()
    results, messages = calls(pins, PINNED)
    assert results == [f"own {PINNED}"] and len(messages) == 1 and f"more than {MAX_PINS} pins" in messages[0]


def test_a_cache_that_cannot_hold_the_acf_is_no_error(
    pin: Pin, pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pin, pins)
    for folder, said in (("my cache", "white space"), ("file", "cannot write")):
        (tmp_path / "file").touch()
        monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path / folder))
        results, messages = calls(pins, PINNED)
        assert results == [f"own {PINNED}"] and len(messages) == 1 and said in messages[0]


def test_it_is_loaded_without_torch_or_helion() -> None:
    code = (
        "import sys, helitune.results.load_pins\n"
        "print(sorted({'torch', 'triton', 'helion', 'numpy', 'compileiq'} & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (child.returncode, child.stdout) == (0, "[]\n"), child.stderr


def test_every_reason_is_one_line_with_a_next_step(pin: Pin, pins: Path) -> None:
    path = write(pin, pins)
    spoiled(path, "future")
    with pytest.raises(UserError) as raised:
        tuned(Kernel(), pins, on_mismatch="raise")
    assert raised.value.next_step and "\n" not in raised.value.line()
