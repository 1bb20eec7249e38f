"""Two candidates of one kernel in one process, round by round beside one another: which is faster, and by how much."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helitune.acfs.acf import NO_ACF
from helitune.objectives.arm_times import ArmRound
from helitune.objectives.outcomes import Failed
from helitune.results.choose_device import settled
from helitune.results.request import TuneRequest
from helitune.results.session import Session, find_tools
from helitune.search.candidate import Candidate

ROUNDS = 20

Winner = Mapping[str, Any]
"""A trial in JSON's types: its "config", and "acf" with a "sha256", or null."""


def ratio_of_winners(request: TuneRequest, ours: Winner, theirs: Winner) -> float | None:
    """The time of `ours` over that of `theirs`, the median of rounds; None where one of them does not run.

    `request` names kernel, arguments, packs and device; both are built anew in one GPU process.
    """
    tools = find_tools(request)
    request = settled(request, tools.target, tools.device)
    with tempfile.TemporaryDirectory() as folder, Session(request, tools, Path(folder, "log")) as session:
        assert session.gpu is not None and session.measured is not None
        if isinstance(session.measured.use_own(session.baselines[0].candidate), Failed):
            return None
        builds = {}
        for name, winner in (("ours", ours), ("theirs", theirs)):
            candidate = _candidate(session, winner)
            if isinstance(session.measured.evaluate(candidate), Failed):
                return None
            builds[name] = session.compiled.build(candidate)
        session.gpu.ask("stand_arms", builds)
        orders = [("ours", "theirs") if number % 2 else ("theirs", "ours") for number in range(ROUNDS)]
        rounds: Sequence[Sequence[ArmRound]] = session.gpu.ask("arm_rounds", orders)
        return statistics.median(_ratio(one[0]) for one in rounds)


def _ratio(one: ArmRound) -> float:
    return statistics.median(one.samples_ms["ours"]) / statistics.median(one.samples_ms["theirs"])


def _candidate(session: Session, winner: Winner) -> Candidate:
    known = {acf.sha256: acf for acf in session.space.acfs}
    acf = known[winner["acf"]["sha256"]] if winner["acf"] else NO_ACF
    return Candidate.of(winner["config"], acf)
