"""Limits are kept once per machine; what somebody edited or a crash cut short is measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helitune.acfs.errors import MachineError
from helitune.objectives.limits_record import (
    Machine,
    MachineLimits,
    limits_path,
    load_limits,
    save_limits,
)

MACHINE = Machine(gpu="NVIDIA H200", gpu_uuid="GPU-1d0c", driver="580.159.04", torch="2.11.0")
LIMITS = MachineLimits(
    4.3e12, 4.4e12, 4.1e12, {"bf16": 790e12, "tf32": 400e12, "f32": 50e12, "f8e4m3": 1.4e15}
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path))


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    assert load_limits(MACHINE) is None
    save_limits(MACHINE, LIMITS)
    assert load_limits(MACHINE) == LIMITS
    assert limits_path(MACHINE).parent == tmp_path / "limits"
    assert limits_path(MACHINE).name.startswith("nvidia-h200-")


@pytest.mark.parametrize("field", ["gpu", "gpu_uuid", "driver", "torch"])
def test_another_machine_has_limits_of_its_own(field: str) -> None:
    save_limits(MACHINE, LIMITS)
    other = replace(MACHINE, **{field: "another"})
    assert load_limits(other) is None
    # and a file under its name does not pass for its own
    limits_path(other).write_bytes(limits_path(MACHINE).read_bytes())
    assert load_limits(other) is None


def test_no_gpu_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    for name in ("../../x", "", "/", "é" * 300):
        assert limits_path(replace(MACHINE, gpu=name)).resolve().parent == (tmp_path / "limits").resolve()


def changed(**fields: Any) -> bytes:
    record = json.loads(limits_path(MACHINE).read_bytes())
    record["limits"] |= fields
    return json.dumps(record).encode()


def test_a_file_that_cannot_be_believed_is_no_file() -> None:
    save_limits(MACHINE, LIMITS)
    path = limits_path(MACHINE)
    whole = path.read_bytes()
    bad = [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 100_000,
        whole[: len(whole) // 2],
        whole.replace(b'"format": 1', b'"format": 2'),
        whole.replace(b'"limits"', b'"limit"'),
        changed(copy_bytes_per_s=0),
        changed(copy_bytes_per_s=-4e12),
        changed(read_bytes_per_s="4e12"),
        changed(write_bytes_per_s=float("nan")),
        changed(write_bytes_per_s=True),
        changed(flops_per_s=[1.0]),
        changed(flops_per_s={"bf16": 0}),
    ]
    for content in bad:
        path.write_bytes(content)
        assert load_limits(MACHINE) is None, content[:80]
    save_limits(MACHINE, LIMITS)
    assert load_limits(MACHINE) == LIMITS


def test_a_cache_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "limits").write_text("a file where the folder goes")
    assert load_limits(MACHINE) is None
    with pytest.raises(MachineError):
        save_limits(MACHINE, LIMITS)


def test_the_rate_of_a_dtype() -> None:
    assert LIMITS.rate("bf16") == 790e12
    assert LIMITS.rate("f32") == 400e12, "a kernel may multiply f32 on tensor cores"
    assert LIMITS.rate("f8e5m2") == LIMITS.rate("f8e4m3") == 1.4e15
    assert LIMITS.rate("f64") is None and LIMITS.rate("c64") is None
    assert MachineLimits(1, 1, 1, {"f32": 2.0}).rate("f32") == 2.0


def test_the_fastest_transfer() -> None:
    assert LIMITS.fastest_bytes_per_s == 4.4e12


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_is_finite_and_above_zero(rate: float) -> None:
    for name in ("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s"):
        with pytest.raises(ValueError):
            replace(LIMITS, **{name: rate})  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        replace(LIMITS, flops_per_s={"f16": rate})


def test_the_machine_of_a_device() -> None:
    device: Any = SimpleNamespace(name="NVIDIA H200", uuid="GPU-1d0c", driver="580.159.04")
    assert Machine.of(device) == replace(MACHINE, torch=version("torch"))
