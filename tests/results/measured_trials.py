"""Trials as a search on a GPU leaves them, made by hand."""

from __future__ import annotations

from dataclasses import replace

from pin_runs import artifact, trial

from helitune.objectives.outcomes import Compiled, Measured
from helitune.objectives.times import ShapeTimes
from helitune.results.trial import OWN, Trial


def times(ratio: float) -> ShapeTimes:
    """A time on one shape that is `ratio` of the own config's."""
    return ShapeTimes(ms=ratio * 0.1, base_ms=0.1, ratios=(ratio,))


def measured(number: int, ratio: float, *, code: str | None = None, acf: bool = False) -> Trial:
    """A trial measured on one shape; its code is its own, or that of all trials with this `code`."""
    one = trial(number, ratio, acf=acf)
    assert isinstance(one.outcome, Compiled)
    launches = ((artifact(code or f"code {number}"),),)
    return replace(one, outcome=Measured.of(replace(one.outcome, artifacts=launches), (times(ratio),), 1e-4))


def own() -> Trial:
    """The own config, number 1, at 1.0."""
    return replace(measured(1, 1.0, code="own"), origin=OWN)
