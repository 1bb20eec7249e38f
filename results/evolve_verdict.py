"""What ACFs did for the one config that they were evolved for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from helitune.objectives.outcomes import Failed

from .evolve_run import FIXED, ORIGIN, WARM_ORIGIN
from .finals import Final, measured_again
from .trial import OWN, Trial


@dataclass(frozen=True, slots=True)
class Evolved:
    """How many ACFs were tried and failed; the config without an ACF, and with the best one, None where it has none."""

    tried: int
    failed: int
    plain: Trial | None
    best: Trial | None

    @property
    def improved(self) -> bool:
        """Whether the best ACF ranks above the config without one, by the objective itself."""
        best = self.best.score if self.best else None
        plain = self.plain.score if self.plain else None
        return best is not None and (plain is None or best < plain)


def evolved(trials: Sequence[Trial], finals: Sequence[Final]) -> Evolved:
    """The result of an evolution; where finalists were measured again, by their last times."""
    tried = [trial for trial in trials if trial.origin in (ORIGIN, WARM_ORIGIN) and trial.acf_sha256]
    standing = measured_again(trials, finals)
    by_origin = {trial.origin: trial for trial in standing}
    through = [
        t for t in standing if t.origin in (ORIGIN, WARM_ORIGIN) and t.acf_sha256 and t.score is not None
    ]
    return Evolved(
        tried=len(tried),
        failed=sum(isinstance(trial.outcome, Failed) for trial in tried),
        plain=by_origin.get(f"baseline {FIXED}", by_origin.get(OWN)),
        best=min(through, key=lambda trial: trial.rank, default=None),
    )
