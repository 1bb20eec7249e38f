"""The pin file: what it holds, and that a reader takes nothing else for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import ACF, BETTER, FINGERPRINT, OWN, make_run

from helitune.acfs.errors import InputError
from helitune.results.pin import PIN_FORMAT, Pin, pin_text, read_pin
from helitune.results.pin_choice import make_pin


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    run = make_run(tmp_path, [OWN, BETTER])
    return make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)


@pytest.fixture
def path(tmp_path: Path, pin: Pin) -> Path:
    assert pin.acf is not None
    folder = tmp_path / "pins"
    folder.mkdir()
    (folder / pin.acf.file).write_bytes(ACF)
    (folder / "f16.json").write_text(pin_text(pin))
    return folder / "f16.json"


def edited(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        read_pin(path)
    assert raised.value.next_step
    return raised.value.line()


def test_it_reads_back_as_the_same_pin(path: Path, pin: Pin) -> None:
    assert read_pin(path) == pin


def test_it_holds_what_a_reviewer_asks_for(path: Path) -> None:
    fields = json.loads(path.read_text())
    assert fields["format"] == PIN_FORMAT
    assert fields["kernel"]["name"] == "softmax" and fields["kernel"]["file"] == "softmax.py"
    assert fields["acf"]["file"] == f"{fields['acf']['sha256']}.acf"
    assert (fields["acf"]["toolkit"], fields["acf"]["ptxas"]) == ("13.3", "13.3.73")
    assert fields["evidence"] == "compiled" and fields["objective"]["unit"] == "cycles"
    assert (fields["objective"]["pin"]["values"], fields["objective"]["own"]["values"]) == ([100.0], [200.0])
    assert fields["artifacts"][0][0]["spill_bytes"] == 24
    assert fields["workload"]["shapes"][0][0]["strides"] == [2560, 1]
    assert fields["run"]["trial"] == BETTER.id and fields["run"]["chosen"] == "best"


def test_a_compiled_pin_claims_no_time(path: Path) -> None:
    assert "speedup" not in path.read_text().lower()


def test_its_identity_is_that_of_the_code_and_not_of_the_run(pin: Pin) -> None:
    later = replace(pin, run={**pin.run, "id": "another", "created": "later"}, notes=("said",))
    assert later.identity() == pin.identity()
    assert replace(pin, acf=None).identity() != pin.identity()
    assert replace(pin, config={**pin.config, "num_warps": 8}).identity() != pin.identity()
    assert replace(pin, gpu="sm_100").identity() != pin.identity()


def test_a_missing_acf_is_named(path: Path, pin: Pin) -> None:
    assert pin.acf is not None
    acf = path.with_name(pin.acf.file)
    acf.unlink()
    line = refusal(path)
    assert pin.acf.name in line and str(acf) in line and "cannot be read" in line


def test_an_altered_acf_is_named(path: Path, pin: Pin) -> None:
    assert pin.acf is not None
    acf = path.with_name(pin.acf.file)
    acf.write_bytes(ACF + b"\0")
    line = refusal(path)
    assert pin.acf.name in line and str(acf) in line and "altered" in line


def test_a_newer_format_is_from_the_future(path: Path) -> None:
    edited(path, format=PIN_FORMAT + 1, config="whatever a later version puts there")
    assert "from the future" in refusal(path) and "upgrade helitune" in refusal(path)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", "\x00", "[" * 100_000, '{"num_warps": 4}'])
def test_what_is_no_pin_is_refused(path: Path, content: str) -> None:
    path.write_text(content)
    assert str(path) in refusal(path)


@pytest.mark.parametrize("number", [0, -1, "1", None, True, 1.5])
def test_a_format_is_a_positive_integer(path: Path, number: object) -> None:
    edited(path, format=number)
    assert "no format number" in refusal(path)


@pytest.mark.parametrize(
    "field",
    [
        "kernel",
        "workload",
        "config",
        "acf",
        "objective",
        "artifacts",
        "fingerprint",
        "run",
        "notes",
        "identity",
    ],
)
def test_a_missing_field_is_named(path: Path, field: str) -> None:
    fields = json.loads(path.read_text())
    del fields[field]
    path.write_text(json.dumps(fields))
    assert field in refusal(path)


@pytest.mark.parametrize("field", ["kernel", "workload", "config", "acf", "artifacts", "check", "notes"])
@pytest.mark.parametrize("value", [1, "text", [[1]]])
def test_a_field_of_another_type_is_refused(path: Path, field: str, value: object) -> None:
    edited(path, **{field: value})
    assert "helitune pin" in refusal(path)


def test_an_edited_config_is_noticed(path: Path) -> None:
    edited(path, config={"block_sizes": [64], "num_warps": 8})
    assert "changed by hand" in refusal(path)


def test_an_acf_may_not_lie_elsewhere(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.acf").write_bytes(ACF)
    acf = json.loads(path.read_text())["acf"]
    edited(path, acf=acf | {"file": "../elsewhere.acf"})
    assert "broken" in refusal(path)


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    assert str(tmp_path) in refusal(tmp_path)
    assert "none.json" in refusal(tmp_path / "none.json")
