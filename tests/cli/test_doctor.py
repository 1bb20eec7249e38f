"""`helitune doctor`: what it says of this machine, of a broken one, and how it exits."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from helitune_cli import helitune

from helitune.acfs.errors import MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.device import Device
from helitune.objectives.installed_stack import InstalledStack, look_at_stack
from helitune.objectives.stub_kernel import stub_fault
from helitune.results.doctor_check import Check, worst
from helitune.results.doctor_gpu import gpu_checks, visible_device
from helitune.results.doctor_machine import cache_check, disk_check, environment_checks
from helitune.results.doctor_packages import package_checks
from helitune.results.doctor_toolchain import (
    Chosen,
    chosen_ptxas,
    ptxas_check,
    search_space_check,
    triton_check,
)

NAMES = [
    *("python", "torch", "triton", "helion", "compileiq", "gpu", "driver", "sensors", "clocks"),
    *("ptxas", "triton ptxas", "search space", "environment", "disk", "caches"),
]
VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
PACKAGES = {name: {"version": "9.9", "error": ""} for name in ("torch", "triton", "helion", "compileiq")}
H200 = Device(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-3f1c2b4a-0d5e-4f60-8a7b-9c0d1e2f3a4b",
    driver="580.159.04",
    capability=(9, 0),
    sms=132,
    memory_bytes=150_109_880_320,
    l2_bytes=62_914_560,
    max_threads_per_sm=2048,
    max_blocks_per_sm=32,
    registers_per_sm=65536,
    shared_per_sm_bytes=233_472,
    shared_per_block_reserved_bytes=1024,
    sm_clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    memory_bus_bits=6016,
)
READING = {
    "error": "",
    "readable": True,
    "sm_clock_mhz": 1980,
    "temperature_c": 41,
    "power_w": 120.5,
    "throttle_reasons": ["gpu_idle"],
}


@pytest.fixture
def old_ptxas() -> Path:
    """The older of the two that Triton brings: from before ACFs, and before the PTX of CUDA 13."""
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "ptxas"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A folder as CIQ_SEARCH_SPACES_DIR wants it."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    content = b"a search space"
    (folder / "ptxas13.3.bin").write_bytes(content)
    entry = {
        "compiler": "ptxas",
        "compiler_version": "13.3",
        "variant": "default",
        "filename": "ptxas13.3.bin",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
        "search_space_format": "1.0.0",
    }
    manifest = {
        "manifest_format": "1.0.0",
        "tag": "mirror",
        "generated_at": "2026-11-29T00:00:00Z",
        "entries": [entry],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def looked(question: str, **extra: str) -> dict[str, object]:
    """What one look of the child finds in a process of its own, with these variables."""
    code = (
        "import json\n"
        "from helitune.objectives.installed_stack_child import _found, search_space, triton_ptxas\n"
        f"print(json.dumps(_found(lambda: {question})))"
    )
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES} | extra
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def only(checks: list[Check], name: str) -> Check:
    (check,) = (check for check in checks if check.name == name)
    return check


# the whole command


@pytest.mark.slow
def test_this_machine_in_json(tmp_path: Path, mirror: Path) -> None:
    extra = {"CIQ_SEARCH_SPACES_DIR": str(mirror), "PTXAS_OPTIONS": "-O1", "CUDA_VISIBLE_DEVICES": ""}
    ended = helitune(tmp_path, "doctor", "--json", extra=extra)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answer = json.loads(ended.stdout)
    assert answer["exit_code"] == 0 and answer["evidence"] == "compiled"
    assert [check["name"] for check in answer["checks"]] == NAMES
    assert all(set(check) == {"name", "status", "what", "fix"} for check in answer["checks"])
    status = {check["name"]: check["status"] for check in answer["checks"]}
    assert {status[name] for name in (*NAMES[:5], "ptxas", "search space", "disk", "caches")} == {"ok"}
    assert {status[name] for name in ("gpu", "driver", "sensors", "clocks", "environment")} == {"warn"}
    assert ended.stderr == ""


@pytest.mark.slow
def test_a_ptxas_that_is_too_old_fails_with_the_fix(tmp_path: Path, mirror: Path, old_ptxas: Path) -> None:
    extra = {
        "CIQ_SEARCH_SPACES_DIR": str(mirror),
        "HELITUNE_PTXAS": str(old_ptxas),
        "CUDA_VISIBLE_DEVICES": "",
    }
    ended = helitune(tmp_path, "doctor", extra=extra)
    assert ended.returncode == 3
    shown = ended.stdout.splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("fail  ptxas "))
    assert "ACFs need 13.3 or newer (HELITUNE_PTXAS)" in shown[at]
    assert "fix: " in shown[at + 1] and "pip install 'nvidia-cuda-nvcc==13.3.*'" in shown[at + 1]
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"helitune: 1 of {len(NAMES)} checks failed: ptxas (doctor); ")


def test_reset_clocks_says_whose_were_reset(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    smi.chmod(0o755)
    extra = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    ended = helitune(tmp_path, "doctor", "--reset-clocks", "--json", extra=extra)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"reset_clocks": "GPU-1,GPU-2", "exit_code": 0}
    assert (tmp_path / "calls").read_text() == "-i GPU-1,GPU-2 -rgc\n"


def test_reset_clocks_without_permission_is_nvidia_smis_line(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho The current user does not have permission to change clocks.\nexit 4\n")
    smi.chmod(0o755)
    extra = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    ended = helitune(tmp_path, "doctor", "--reset-clocks", extra=extra)
    assert ended.returncode == 3
    assert "permission to change clocks. (nvidia-smi -rgc); run it as root" in ended.stderr


# ptxas


def test_a_ptxas_older_than_the_ptx_or_the_gpu_is_told_by_a_stub(old_ptxas: Path, ptxas: Ptxas) -> None:
    assert ".version" in stub_fault(old_ptxas, "sm_90", 94)
    assert stub_fault(old_ptxas, "sm_90", 80) == ""
    assert "sm_35" in stub_fault(ptxas.path, "sm_35", 90)
    assert "cannot be run" in stub_fault(Path("/no/ptxas"), "sm_90", 90)


def test_the_installed_ptxas_is_tried_with_an_acf() -> None:
    check = ptxas_check(chosen_ptxas(), "sm_90")
    assert (check.status, check.fix) == ("ok", "") and "with and without an ACF" in check.what


def test_another_release_does_not_take_the_shipped_acfs(old_ptxas: Path) -> None:
    newer = old_ptxas.with_name("ptxas-blackwell")  # knows PTX 9.0 in one Triton, and not in the other
    check = ptxas_check(Chosen(Ptxas(newer, "13.4.1", ""), None), "sm_90")
    assert check.status in ("warn", "fail") and "nvidia-cuda-nvcc==13.3.*" in check.fix


def test_tritons_own_choice_that_takes_no_acf_is_told_with_what_to_export(ptxas: Ptxas) -> None:
    found = looked("triton_ptxas('sm_90')")
    assert found["error"] == "" and "triton/backends/nvidia/bin" in str(found["path"])
    check = triton_check(chosen_ptxas(), "sm_90", InstalledStack({"triton_ptxas": found}), {})
    assert check.status == "warn" and "cannot run a pin" in check.what
    assert check.fix == f"export TRITON_PTXAS_PATH={ptxas.path} TRITON_PTXAS_BLACKWELL_PATH={ptxas.path}"


def test_after_that_export_it_is_ok(ptxas: Ptxas) -> None:
    variables = dict.fromkeys(VARIABLES, str(ptxas.path))
    found = looked("triton_ptxas('sm_90')", **variables)
    assert found["path"] == str(ptxas.path)
    check = triton_check(chosen_ptxas(), "sm_90", InstalledStack({"triton_ptxas": found}), variables)
    assert (check.status, check.fix) == ("ok", "")


def test_a_renamed_ptxas_that_triton_passes_over_in_silence_is_named(tmp_path: Path) -> None:
    variables = dict.fromkeys(VARIABLES, str(tmp_path / "renamed"))
    found = looked("triton_ptxas('sm_90')", **variables)
    check = triton_check(chosen_ptxas(), "sm_90", InstalledStack({"triton_ptxas": found}), variables)
    assert check.status == "warn" and f"not in force here: TRITON_PTXAS_PATH={tmp_path}/renamed" in check.what


def test_two_different_ones_are_told_apart(ptxas: Ptxas, old_ptxas: Path) -> None:
    found = {"error": "", "path": str(ptxas.path), "toolkit": "13.3", "ptx_version": 93}
    variables = dict(zip(VARIABLES, (str(ptxas.path), str(old_ptxas)), strict=True))
    check = triton_check(chosen_ptxas(), "sm_90", InstalledStack({"triton_ptxas": found}), variables)
    assert check.status == "warn"
    assert check.what.endswith(f"not in force here: TRITON_PTXAS_BLACKWELL_PATH={old_ptxas}")


# the search space


def test_a_mirror_is_read_and_verified(mirror: Path) -> None:
    found = looked("search_space('13.3')", CIQ_SEARCH_SPACES_DIR=str(mirror))
    check = search_space_check(InstalledStack({"search_space": found}))
    assert (check.status, check.what) == ("ok", f"mirrored: {mirror}/ptxas13.3.bin")
    (mirror / "ptxas13.3.bin").write_bytes(b"a search spice")
    found = looked("search_space('13.3')", CIQ_SEARCH_SPACES_DIR=str(mirror))
    check = search_space_check(InstalledStack({"search_space": found}))
    assert check.status == "warn" and "sha256 mismatch" in check.what and "CIQ_SEARCH_SPACES_DIR" in check.fix


# packages


def test_a_package_that_does_not_import_fails_with_what_to_install() -> None:
    found = PACKAGES | {
        "torch": {"version": "2.0.0", "error": ""},
        "triton": {"version": "", "error": "ModuleNotFoundError: No module named 'triton'"},
        "helion": {"version": "1.5.1", "error": "ImportError: cannot import name 'IntelGPUError'"},
        "compileiq": {"version": "1.1.0", "error": "ModuleNotFoundError: No module named 'ray'"},
    }
    checks = list(package_checks(InstalledStack(found)))
    assert [check.status for check in checks] == ["warn", "fail", "fail", "fail"]
    assert checks[0].what == "2.0.0: helitune is for >=2.11" and "torch>=2.11" in checks[0].fix
    assert checks[1].fix == "pip install triton"
    assert "helion==1.5.0" in checks[2].fix
    assert checks[3].fix == "pip install ray"


@pytest.mark.parametrize(
    ("ends", "how"),
    [
        ("kill -SEGV $$", "the look at torch crashed (SIGSEGV)"),
        ("exit 7", "the look at torch ended the process with status 7"),
        ("sleep 61 & wait", "the look at torch took more than 1 s"),
    ],
)
def test_a_package_that_ends_its_process_is_named(tmp_path: Path, ends: str, how: str) -> None:
    python = tmp_path / "python"
    looks = (
        '{"about": "triton_ptxas", "error": "e"}',
        '{"about": "looking", "at": "torch"}',
        '{"about": "tor',
    )
    python.write_text("\n".join(["#!/bin/sh", *(f"echo '{look}'" for look in looks), ends]))
    python.chmod(0o755)
    stack = look_at_stack("sm_90", "13.3", "", timeout_s=1, python=str(python))
    assert stack.ended == how
    assert stack.about("triton_ptxas")["error"] == "e"
    check = only(list(package_checks(stack)), "torch")
    assert check.status == "fail" and how in check.what


# the GPU


def gpu(device: Device | None = H200, error: MachineError | None = None, **found: object) -> list[Check]:
    known = {"cuda": {"error": "", "built_for": "13.0", "gpus": 1}, "sensors": READING}
    stack = InstalledStack(known | found)  # type: ignore[arg-type]
    return list(gpu_checks(device, error, stack, {"CUDA_VISIBLE_DEVICES": "-1"}))


def test_a_machine_without_a_gpu_is_warned_of_and_told_why() -> None:
    checks = gpu(None)
    assert {(check.status, check.what) for check in checks} == {
        ("warn", "no GPU: evidence will be `compiled`")
    }
    assert checks[0].fix == "unset CUDA_VISIBLE_DEVICES, which hides every GPU"


def test_a_gpu_that_is_fine() -> None:
    checks = gpu()
    assert only(checks, "gpu").status == only(checks, "driver").status == "ok"
    assert only(checks, "sensors").what == "1980 MHz SM clock, 41 °C, 120.5 W"


@pytest.mark.parametrize(
    ("found", "name", "status", "words"),
    [
        ({"cuda": {"error": "", "built_for": "", "gpus": 0}}, "gpu", "fail", "built without CUDA"),
        ({"cuda": {"error": "RuntimeError: driver too old"}}, "gpu", "fail", "driver too old"),
        ({"sensors": {"error": "", "readable": False}}, "sensors", "warn", "NVML cannot be opened"),
        ({"sensors": READING | {"throttle_reasons": ["hw_slowdown"]}}, "sensors", "warn", "by hw_slowdown"),
    ],
)
def test_a_gpu_that_is_not(found: dict[str, object], name: str, status: str, words: str) -> None:
    check = only(gpu(**found), name)
    assert check.status == status and words in check.what and check.fix


def test_a_driver_that_answers_with_an_error_fails() -> None:
    (check,) = gpu(None, MachineError("the CUDA driver answers cuInit with error 803", next_step="see"))
    assert (check.name, check.status, check.fix) == ("gpu", "fail", "see")


@pytest.mark.gpu
def test_a_real_gpu_is_described() -> None:
    device, error = visible_device()
    if device is None and error is None:
        pytest.skip("no GPU here")
    stack = look_at_stack(device.arch if device else "sm_90", "13.3", device.uuid if device else "")
    checks = list(gpu_checks(device, error, stack, {}))
    assert [check.name for check in checks] == ["gpu", "driver", "sensors", "clocks"]
    assert {check.status for check in checks[:2]} == {"ok"}, checks
    assert checks[2].status in ("ok", "warn") and "MHz SM clock" in checks[2].what


# the rest of the machine


def test_variables_that_change_results_are_named_and_places_are_not() -> None:
    (quiet,) = environment_checks({"HOME": "/root", "TRITON_CACHE_DIR": "/c", VARIABLES[0]: "/p"})
    assert quiet.status == "ok"
    loud = list(
        environment_checks({"PTXAS_OPTIONS": "-O1", "HELION_INTERPRET": "1", "TRITON_INTERPRET": "1"})
    )
    assert [check.fix for check in loud] == [
        f"unset {name}" for name in ("HELION_INTERPRET", "PTXAS_OPTIONS", "TRITON_INTERPRET")
    ]
    assert loud[1].status == "warn" and loud[1].what.startswith("PTXAS_OPTIONS=-O1: ")


def test_a_cache_that_cannot_be_written_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert disk_check().status in ("ok", "warn")
    (tmp_path / "file").touch()
    monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path / "file"))
    check = disk_check()
    assert (
        check.status == "fail"
        and check.what.startswith("cache: cannot write")
        and "HELITUNE_CACHE_DIR" in check.fix
    )


def test_a_cache_that_triton_cannot_name_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_check().status == "ok"
    monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path / "two words"))
    assert cache_check().status == "fail" and "white space" in cache_check().what


def test_the_worst_word_wins() -> None:
    ok, warn, fail = Check("a", "ok", ""), Check("b", "warn", ""), Check("c", "fail", "")
    assert [worst([ok]), worst([ok, warn]), worst([warn, fail, ok])] == ["ok", "warn", "fail"]
