"""Two validations as an H200 measured them: what was decided there is decided again from the raw rounds alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helitune.results.effect import estimate
from helitune.results.thresholds import ARTICLE, Thresholds
from helitune.results.validation_file import read_validations
from helitune.results.validation_verdict import Finding, judge
from helitune.results.verdict import Status

RECORDED = Path(__file__).parents[1] / "fixtures" / "validation"


def findings(name: str, thresholds: Thresholds | None = None) -> list[Finding]:
    validation = read_validations(RECORDED / f"{name}_h200.jsonl")[-1]
    if thresholds is not None:
        validation = replace(validation, head=replace(validation.head, thresholds=thresholds))
    return judge(validation)


def test_an_acf_that_gains_one_percent_is_faster() -> None:
    found = findings("rms_norm")
    best = max(found, key=lambda one: one.whole.numbers.low or 0.0)
    assert best.whole.status is Status.FASTER
    assert (best.whole.numbers.speedup or 0.0) == pytest.approx(1.009, abs=0.0015)
    assert min(best.whole.numbers.run_speedups) > 1.005
    assert {one.whole.status for one in found} == {Status.FASTER, Status.AMBIGUOUS}


def test_a_winner_of_the_search_that_is_only_noise_is_not() -> None:
    # the search's one process had it 2.1 % faster; new processes, with buffers elsewhere, 1.8 % slower
    found = findings("launch_bound")
    assert Status.FASTER not in {one.whole.status for one in found}


def test_the_articles_gate_reads_the_same_rounds() -> None:
    assert {one.whole.gate for one in findings("rms_norm", ARTICLE)} == {"article"}


def test_a_calibration_noisier_than_the_case_leaves_an_interval() -> None:
    y = 0.01 + 1e-5 * np.random.default_rng(0).standard_normal((2, 10))
    effect = estimate(y, offset_variance=0.0, offset_noise=1e-6, offsets=21, shared=0.15, nuisance_level=0.01)
    low, high = effect.interval(0.001)
    assert 0.005 < low < 0.01 < high < 0.015
    assert effect.df > 5
