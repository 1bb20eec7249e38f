"""What recompiling changed, field by field; and a real pin recompiled with the real toolchain."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import artifact

from helitune.acfs.ptxas import Ptxas
from helitune.objectives.outcomes import Compiled
from helitune.results.check_pin import check_pin
from helitune.results.check_request import CheckSetting
from helitune.results.check_source import KernelFiles
from helitune.results.checked import Checked, Result
from helitune.results.drift import FIELDS, changes, launches_of, recorded_own, told
from helitune.results.pin import Pin, pin_text, read_pin
from helitune.results.pin_files import pin_files

ROOT = Path(__file__).parents[2]
OWN_PINS = ROOT / "examples" / "pins"


def launches(*codes: str, **fields: Any) -> list[list[dict[str, Any]]]:
    return launches_of(Compiled(1.0, 1.0, (1.0,), tuple((artifact(code, **fields),) for code in codes)))


def test_a_launch_is_recorded_as_a_pin_keeps_it() -> None:
    ((launch,),) = launches("a")
    assert tuple(launch) == FIELDS
    assert launch["grid"] == [4096, 1] and launch["spill_bytes"] == 24
    assert json.loads(json.dumps(launch)) == launch


def test_equal_launches_have_no_changes() -> None:
    assert changes(launches("a", "b"), launches("a", "b")) == ()


def test_each_changed_field_is_named_with_both_values() -> None:
    found = changes(
        launches("a", registers=40), launches("a", registers=48, spill_store_bytes=0, grid=(8, 2))
    )
    assert told(found) == "grid 4096x1 → 8x2, registers 40 → 48, spilled bytes 24 → 16"


def test_the_same_change_on_several_shapes_is_told_once() -> None:
    found = changes(launches("a", "a"), launches("b", "b"))
    assert [(change.shape, change.name) for change in found] == [
        (shape, name) for shape in (0, 1) for name in ("code_sha256", "ptx_sha256")
    ]
    assert told(found) == "code, PTX"


def test_another_number_of_launches_is_a_change() -> None:
    then, now = launches("a"), launches("a")
    now[0].append(now[0][0])
    assert told(changes(then, now)) == "launches 1 → 2"


def test_a_field_that_an_older_pin_lacks_is_no_change() -> None:
    then = launches("a")
    del then[0][0]["shared_bytes"]
    assert changes(then, launches("a", shared_bytes=512)) == ()


# the real toolchain


def recompiled(path: Path, ptxas: Ptxas, **how: Any) -> Checked:
    return check_pin(path, CheckSetting(ptxas, **how), KernelFiles(ROOT / "examples"), None, print)  # type: ignore[arg-type]


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Path]:
    """One of the project's pins, with an ACF, to be spoiled."""
    shutil.copytree(OWN_PINS, tmp_path / "pins")
    (path,) = pin_files(tmp_path / "pins", kernel="softmax")
    yield path


@pytest.mark.slow
def test_another_ptxas_does_not_get_the_acf_and_the_ptx_is_compared_all_the_same(
    copied: Path, ptxas: Ptxas
) -> None:
    checked = recompiled(copied, replace(ptxas, version="13.4.10"))
    assert (checked.result, checked.exit_code) == (Result.ENVIRONMENT, 3)
    assert "ptxas 13.3.73 → 13.4.10; its PTX is as it was" in checked.message


@pytest.mark.slow
def test_update_rewrites_what_moved(copied: Path, ptxas: Ptxas) -> None:
    before = read_pin(copied)
    assert before.acf is not None
    stale = [
        [{**launch, "registers": 1, "code_sha256": "0" * 64} for launch in shape]
        for shape in before.artifacts
    ]
    copied.write_text(pin_text(replace(before, artifacts=stale)))
    checked = recompiled(copied, ptxas, update=True)
    assert checked.result is Result.FINE and checked.updated, checked.message
    after = read_pin(copied)
    assert _decisive(after) == _decisive(before)
    assert recorded_own(after) == recorded_own(before) and after.notes[-1].startswith("updated by")
    assert {path.name for path in copied.parent.iterdir()} >= {copied.name, before.acf.file, "NOTICE"}


def _decisive(pin: Pin) -> dict[str, Any]:
    return {
        name: value for name, value in pin.to_json().items() if name not in ("notes", "fingerprint", "run")
    }
