"""The request of a run: what `--resume` reads back, and that it takes nothing else for one."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from helitune.acfs.errors import InputError
from helitune.results.request import TuneRequest

REQUEST = TuneRequest(
    file="/kernels/softmax.py",
    kernel="softmax",
    reference=None,
    args=("f16[8,8]", "f16[16,8]"),
    target="sm_90",
    packs=("/packs/first",),
    force=False,
    settings=("num_warps=4,8",),
    strategy="random",
    objective="issue_slots",
    budget=10,
    time_s=90.0,
    seed=-3,
    jobs=2,
    compile_timeout_s=30.0,
    memory_bytes=8 << 30,
    ptxas=None,
)
NAMES = [f.name for f in fields(TuneRequest)]
LATER = [f.name for f in fields(TuneRequest) if f.default is not MISSING]
"""Settings that the first version had not."""


def stored() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(REQUEST.to_json()))
    return record


def refusal(record: Any) -> str:
    with pytest.raises(InputError) as raised:
        TuneRequest.from_json(record, where="runs/one/run.json")
    assert raised.value.where == "runs/one/run.json" and raised.value.next_step
    return raised.value.what


@pytest.mark.parametrize("change", [{}, {"kernel": None, "time_s": None, "ptxas": "/bin/ptxas", "packs": ()}])
def test_it_reads_back_as_it_was(change: dict[str, Any]) -> None:
    request = replace(REQUEST, **change)
    assert TuneRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


@pytest.mark.parametrize("name", LATER)
def test_a_request_of_the_first_version_has_the_defaults(name: str) -> None:
    record = stored()
    del record[name]
    assert TuneRequest.from_json(record) == REQUEST


def test_settings_of_a_later_version_are_passed_over() -> None:
    assert TuneRequest.from_json(stored() | {"retries": 3}) == REQUEST


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LATER])
def test_a_missing_setting_is_named(name: str) -> None:
    record = stored()
    del record[name]
    assert f"{name} is missing" in refusal(record)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [{}, ["1", 2.5], float("nan")])
def test_a_setting_of_another_type_is_named(name: str, value: Any) -> None:
    assert f"{name}: " in refusal(stored() | {name: value})


@pytest.mark.parametrize("name", ["budget", "seed", "jobs", "memory_bytes", "time_s", "compile_timeout_s"])
def test_true_is_no_number(name: str) -> None:
    assert name in refusal(stored() | {name: True})


@pytest.mark.parametrize("record", [None, [], "request", 3])
def test_what_is_no_object_is_refused(record: Any) -> None:
    assert "an object" in refusal(record)
