from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helitune.acfs import ptxas
from helitune.acfs.errors import MachineError
from helitune.acfs.ptxas import find_ptxas, toolkit

ANSWER = """ptxas: NVIDIA (R) Ptx optimizing assembler
Cuda compilation tools, release {toolkit}, V{version}
Build cuda_{toolkit}.r{toolkit}/compiler.0_0"""


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv("HELITUNE_PTXAS", raising=False)


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def answering(path: Path, version: str) -> Path:
    return script(path, f"cat <<'END'\n{ANSWER.format(toolkit=toolkit(version), version=version)}\nEND")


def test_without_a_choice_it_is_the_packages_and_never_the_paths(tmp_path, monkeypatch):
    answering(tmp_path / "ptxas", "99.1.1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = find_ptxas(None)
    assert found.path.parts[-4:] == ("nvidia", "cu13", "bin", "ptxas")
    assert found.path.is_relative_to(sys.prefix)
    assert toolkit(found.version) == "13.3"
    assert found.sha256 == hashlib.sha256(found.path.read_bytes()).hexdigest()
    assert find_ptxas("") == found


def test_the_argument_goes_before_the_variable_and_the_variable_before_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("HELITUNE_PTXAS", str(answering(tmp_path / "variable", "13.4.92")))
    assert find_ptxas(None).version == "13.4.92"
    assert find_ptxas(str(answering(tmp_path / "argument", "13.5.37"))).version == "13.5.37"


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    answering(tmp_path / "ptxas", "13.3.73")
    monkeypatch.chdir(tmp_path)
    assert find_ptxas("ptxas").path == tmp_path / "ptxas"


def test_13_10_is_newer_than_13_3(tmp_path):
    assert find_ptxas(str(answering(tmp_path / "ptxas", "13.10.5"))).version == "13.10.5"


@pytest.mark.parametrize("version", ["13.2.78", "13.0.88", "12.9.86", "9.3.1"])
def test_one_that_does_not_know_acfs_is_refused(tmp_path, version):
    with pytest.raises(MachineError, match=f"is version {version}: ACFs need 13.3 or newer"):
        find_ptxas(str(answering(tmp_path / "ptxas", version)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 3", "fails with status 3"),
        ("echo release of something", "is no ptxas: --version answers 'release of something'"),
        ("true", "answers 'nothing'"),
        ("printf '\\377\\376'", "is no ptxas"),
        ("kill -SEGV $$", "fails with status -11"),
    ],
)
def test_one_that_does_not_answer_as_ptxas_is_refused(tmp_path, body, message):
    with pytest.raises(MachineError, match=message) as caught:
        find_ptxas(str(script(tmp_path / "ptxas", body)))
    assert (caught.value.where, caught.value.exit_code) == ("--ptxas", 3)
    assert "HELITUNE_PTXAS" in caught.value.next_step


def test_one_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(ptxas, "VERSION_TIMEOUT_S", 0.3)
    start = time.monotonic()
    with pytest.raises(MachineError, match=r"does not answer within 0\.3 s"):
        find_ptxas(str(script(tmp_path / "ptxas", f"sleep 61 & echo $! > {tmp_path}/child; wait")))
    assert time.monotonic() - start < 10
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no ptxas at .*: No such file"),
        (lambda path: path.mkdir(), "is a folder, not a ptxas"),
        (lambda path: path.write_text("#!/bin/sh\n"), "cannot run .*: Permission denied; make it executable"),
        (lambda path: (path.write_bytes(b"\x7fELF"), path.chmod(0o755)), "cannot run .*: Exec format error"),
    ],
)
def test_what_cannot_be_run_is_refused_and_names_where_it_was_given(tmp_path, monkeypatch, make, message):
    make(tmp_path / "ptxas")
    monkeypatch.setenv("HELITUNE_PTXAS", str(tmp_path / "ptxas"))
    with pytest.raises(MachineError, match=message.replace("; ", r" \(HELITUNE_PTXAS\); ")):
        find_ptxas(None)


def test_a_path_that_cannot_be_one_is_refused():
    with pytest.raises(MachineError, match="no ptxas at"):
        find_ptxas("pt\0xas")


def test_a_replaced_binary_is_asked_again(tmp_path):
    first = find_ptxas(str(answering(tmp_path / "ptxas", "13.3.73")))
    second = find_ptxas(str(answering(tmp_path / "ptxas", "13.4.92")))
    assert (first.version, second.version) == ("13.3.73", "13.4.92")
    assert first.sha256 != second.sha256


def test_without_the_package_it_says_what_to_install(tmp_path):
    # -S leaves out site-packages; packaging and helitune come in by links
    import packaging

    import helitune.acfs

    (tmp_path / "packaging").symlink_to(Path(packaging.__file__).parent)
    (tmp_path / "helitune").mkdir()
    (tmp_path / "helitune" / "acfs").symlink_to(Path(helitune.acfs.__file__).parent)
    code = (
        "from helitune.acfs.ptxas import find_ptxas\ntry: find_ptxas(None)\nexcept Exception as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert "no ptxas found" in done.stdout, done.stderr
    assert "pip install 'nvidia-cuda-nvcc==13.3.*'" in done.stdout


@pytest.mark.parametrize(
    ("version", "expected"), [("13.3.73", "13.3"), ("13.3", "13.3"), ("13.10.1", "13.10"), ("13", "13.0")]
)
def test_toolkit(version, expected):
    assert toolkit(version) == expected


def test_finding_it_imports_nothing_heavy():
    code = (
        "import sys, helitune.acfs.pack, helitune.acfs.ptxas as ptxas; ptxas.find_ptxas(None)\n"
        "print({'torch', 'triton', 'helion', 'compileiq', 'nvidia'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
