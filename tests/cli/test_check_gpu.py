"""`helitune check` on a real GPU: a good pin, a slow one, one whose ACF gives wrong results, and no ptxas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helitune_cli import EXAMPLES, helitune
from made_pins import make

from helitune.objectives.device import find_device

GPU = find_device()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(
        GPU is None or GPU.arch != "sm_90", reason=f"needs an sm_90 GPU: {GPU.name if GPU else 'none here'}"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all checks share their cache, so that the machine is calibrated once."""
    return tmp_path_factory.mktemp("check")


def check(folder: Path, name: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    make(name, folder)
    done = helitune(
        folder,
        *("check", name, "--source", EXAMPLES, "--device", "0", "--gate", "quick", "--json", *arguments),
        cache=folder / "cache",
    )
    fields = json.loads(done.stdout)
    return done.returncode, fields["pins"][0]


def test_a_good_pin_is_fine(folder: Path) -> None:
    code, pin = check(folder, "good")
    assert (code, pin["result"]) == (0, "fine"), pin["message"]
    (shape,) = pin["measured"]["shapes"]
    assert shape["over_own"]["speedup"] > 1.1 and shape["over_no_acf"]["status"] != "SLOWER"
    assert pin["moved"]["pin"]["moved"] is False and pin["moved"]["baseline"]["moved"] is False


def test_a_slow_pin_is_a_regression(folder: Path) -> None:
    code, pin = check(folder, "slow")
    assert (code, pin["result"]) == (1, "regression"), pin["message"]
    assert pin["measured"]["shapes"][0]["over_own"]["high"] < 1


def test_a_wrong_acf_is_found_before_anything_is_timed(folder: Path) -> None:
    code, pin = check(folder, "wrong")
    assert (code, pin["result"]) == (1, "wrong output"), pin["message"]
    assert pin["measured"]["shapes"][0]["pin_ms"] is None


def test_a_renamed_ptxas_is_the_environment(folder: Path) -> None:
    code, pin = check(folder, "good", "--ptxas", "/nowhere/ptxas-renamed")
    assert (code, pin["result"]) == (3, "environment")
