"""The thresholds: round trip, presets, and every way a file of them can be wrong."""

from __future__ import annotations

import dataclasses
import json

import pytest

from helitune.acfs.errors import InputError
from helitune.results.thresholds import PRESETS, STRICT, Thresholds


@pytest.mark.parametrize("name", PRESETS)
def test_round_trip(name: str) -> None:
    assert Thresholds.from_json(PRESETS[name].to_json()) == PRESETS[name]


def test_what_is_left_out_is_strict() -> None:
    assert Thresholds.from_json('{"min_effect": 1}') == dataclasses.replace(STRICT, min_effect=1.0)


def test_article_numbers_are_the_articles() -> None:
    article = PRESETS["article"]
    assert (article.gate, article.welch_p, article.cohen_d, article.runs) == ("article", 0.05, 0.2, 2)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"alhpa": 0.1}, "alhpa"),
        ({"alpha": "0.1"}, "alpha"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"gate": "lenient"}, "gate"),
        ({"runs": 0}, "runs"),
        ({"runs": 2.5}, "runs"),
        ({"runs": 30}, "max_runs"),
        ({"looks": 10}, "looks"),
        ({"looks": [10, 10, 20]}, "looks"),
        ({"looks": [2, 20, 40]}, "looks"),
        ({"looks": [10]}, "looks and spend"),
        ({"spend": [0.5, 0.5, 0.5]}, "spend"),
        ({"spend": [0.5, "x", 0.1]}, "spend"),
        ({"spend": [float("nan"), 0.1, 0.1]}, "spend"),
        ({"min_effect": float("nan")}, "min_effect"),
        ({"min_effect": -0.1}, "min_effect"),
        ({"p95_worse": float("inf")}, "p95_worse"),
        ({"max_throttled": 2.0}, "max_throttled"),
        ({"shared_share": 1.5}, "shared_share"),
        ({"runs_above": 0}, "runs_above"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, object], names: str) -> None:
    with pytest.raises(InputError, match=names) as caught:
        Thresholds.from_json(json.dumps(fields), where="gate.json")
    assert caught.value.where == "gate.json" and caught.value.next_step


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"alpha": }'])
def test_no_json_object(text: str) -> None:
    with pytest.raises(InputError):
        Thresholds.from_json(text)


def test_reading_thresholds_and_verdicts_needs_no_scipy() -> None:
    import subprocess
    import sys

    code = "import helitune.results.thresholds, helitune.results.verdict_words, sys; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
