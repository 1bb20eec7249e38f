"""Helion's own autotuner as a strategy: it searches its own way, its winner is measured and judged like all others."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from helitune.acfs.acf import NO_ACF
from helitune.acfs.errors import InputError, MachineError
from helitune.objectives.compile_environment import gpu_environment
from helitune.objectives.helion_peer import EFFORTS, PeerRequest, PeerResult, autotune
from helitune.search.candidate import Candidate

from .ledger import Ledger
from .session import Session, Tools

HELION = "helion"
"""The name of the strategy, and the origin of its trial."""

MOST_S = 4 * 3600.0
"""Helion ends by itself; this is for one that does not."""


def require_possible(effort: str, tools: Tools) -> None:
    """Raise MachineError without a GPU to measure on, InputError for an effort that Helion does not have."""
    if tools.device is None:
        raise MachineError(
            "Helion's autotuner measures, and no GPU is measured on",
            where=f"--strategy {HELION}",
            next_step="choose another strategy, or run helitune doctor",
        )
    if effort not in EFFORTS:
        raise InputError(
            f"unknown effort {effort!r}", where="--effort", next_step=f"choose from {', '.join(EFFORTS)}"
        )


def search(session: Session, ledger: Ledger, log: Path) -> PeerResult:
    """What Helion's autotuner came to on the first shape; its winner then is a trial of the ledger.

    The GPU process waits meanwhile. Raises UserError where the search itself fails.
    """
    request, tools = session.request, session.tools
    assert tools.device is not None
    with tempfile.TemporaryDirectory(prefix="helitune-peer-cache-") as scratch:
        result = autotune(
            PeerRequest(
                file=request.file,
                kernel=request.kernel,
                reference=request.reference,
                args=request.args,
                shape=0,
                seed=request.seed,
                effort=request.effort,
                acfs=tools.acfs,
                budget_s=request.time_s,
            ),
            gpu_environment(tools.ptxas, os.environ, Path(scratch), tools.device.uuid),
            log,
            timeout_s=MOST_S,
        )
    acf = next((acf for acf in tools.acfs if acf.sha256 == result.acf_sha256), NO_ACF)
    ledger.outside([(HELION, Candidate.of(result.config, acf))])
    return result
