"""The part of a request that breeds ACFs, as run.json keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import make_run

from helitune.acfs.errors import InputError
from helitune.results.evolution_request import EvolutionRequest
from helitune.results.request import TuneRequest

EVOLUTION = EvolutionRequest(
    "auto", "/spaces/ptxas13.3.bin", "ab" * 32, '{"num_warps":4}', "a file", 8, 15, 50
)


@pytest.fixture
def request_of_a_run(tmp_path: Path) -> dict[str, Any]:
    stored: dict[str, Any] = make_run(tmp_path, []).run()["request"]
    return stored


@pytest.mark.parametrize("evolution", [None, EVOLUTION, replace(EVOLUTION, config="")])
def test_a_request_reads_back_with_it(
    request_of_a_run: dict[str, Any], evolution: EvolutionRequest | None
) -> None:
    request = replace(TuneRequest.from_json(request_of_a_run), evolution=evolution, warm_start=("/runs/one",))
    assert TuneRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


@pytest.mark.parametrize(
    ("change", "says"),
    [({"sha256": "short"}, "sha256"), ({"generations": "8"}, "generations"), ({"path": None}, "path")],
)
def test_what_somebody_edited_is_refused(
    request_of_a_run: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        TuneRequest.from_json({**request_of_a_run, "evolution": asdict(EVOLUTION) | change})


def test_all_configs_or_one(request_of_a_run: dict[str, Any]) -> None:
    assert not EVOLUTION.whole_space and replace(EVOLUTION, config="").whole_space
