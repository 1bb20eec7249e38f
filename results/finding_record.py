"""What run.json keeps of a validation: a record for each finalist and shape, and one of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helitune.objectives.flop_count import FlopCount
from helitune.objectives.limits_record import MachineLimits

from .limit_share import limit_share
from .validation_evidence import median_ms
from .validation_record import OWN, Validation
from .validation_verdict import Finding


def verdict_records(validation: Validation, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """run.json's `verdicts`: for each finalist and shape Verdict.to_record(), with which trial and shape it is of.

    `ms` and `base_ms` are the medians of the finalist and of the own config; `over_plain` is the verdict against
    the best config without an ACF, null where there is none; `limit` as in limit_share.to_json.
    """
    return [
        {
            "trial": finding.finalist.trial,
            "number": finding.finalist.number,
            "acf": finding.finalist.acf,
            "shape": shape,
            **verdict.to_record(),
            "ms": median_ms(validation, finding.finalist.trial, shape),
            "base_ms": median_ms(validation, OWN, shape),
            "over_plain": finding.over_plain[shape].to_record() if finding.over_plain else None,
            "limit": _limit(validation, finding.finalist.trial, shape),
            "detail": f"{finding.failed.stage}: {finding.failed.message}" if finding.failed else "",
        }
        for finding in findings
        for shape, verdict in enumerate(finding.shapes)
    ]


def validation_record(
    validation: Validation, findings: Sequence[Finding], *, file: str, when: str
) -> dict[str, Any]:
    """run.json's `validation`: how it was made, and for each finalist the verdict on the whole of it.

    The whole is the verdict on its shape; of several shapes the one on their geometric mean, unless one of them is
    SLOWER, UNSTABLE or UNDECIDED.
    """
    head = validation.head
    return {
        "when": when,
        "number": head.number,
        "file": file,
        "seed": head.seed,
        "runs": len(validation.runs),
        "gate": head.thresholds.gate,
        "thresholds": head.to_json()["thresholds"],
        "floor": dict(head.floor),
        "calibration": head.context.get("calibration"),
        "shapes": list(head.shapes),
        "own": head.own.trial,
        "plain": head.plain.trial if head.plain else None,
        "whole": [
            {
                "trial": finding.finalist.trial,
                "number": finding.finalist.number,
                "acf": finding.finalist.acf,
                **finding.whole.to_record(),
                "over_plain": [verdict.status.value for verdict in finding.over_plain],
            }
            for finding in findings
        ],
    }


def _limit(validation: Validation, trial: str, shape: int) -> dict[str, Any] | None:
    """What share of the GPU's limit the trial reaches on a shape; None where limits or bytes are not known."""
    work, limits = validation.head.context.get("work"), validation.head.context.get("limits")
    ms = median_ms(validation, trial, shape)
    if not work or not limits or ms is None or shape >= len(work):
        return None
    try:
        flops = FlopCount.from_json(work[shape]["flops"]) if work[shape]["flops"] is not None else None
        return limit_share(ms, work[shape]["bytes"], flops, MachineLimits.from_json(limits)).to_json()
    except (KeyError, TypeError, ValueError):  # it explains and decides nothing
        return None
