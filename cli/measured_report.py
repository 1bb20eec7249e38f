"""What a measured run shows of its trials: times beside the own config's, and how far the GPU's limits are."""

from __future__ import annotations

import statistics
from typing import Any

from helitune.objectives.flop_count import FlopCount
from helitune.objectives.limits_record import MachineLimits
from helitune.objectives.outcomes import Measured
from helitune.results.finals import MOST_FINALISTS
from helitune.results.limit_share import limit_share
from helitune.results.ranking import Ranking
from helitune.results.trial import Trial

EVIDENCE = (
    "evidence: measured, one process on this GPU. It ranks candidates; whether the best is really faster is for "
    "independent runs to say."
)
EAGER = "timing eager: each time has the host's launch overhead in it"


def evidence_lines(fields: dict[str, Any]) -> list[str]:
    """What stands above the ranking of a measured run: the evidence, and how it was timed."""
    request, device = fields["request"], fields.get("device") or {}
    lines = [f"{EVIDENCE}", f"GPU {device.get('name', '?')}, driver {device.get('driver', '?')}"]
    if request.get("timing") == "eager":
        lines.append(EAGER)
    if request.get("cache") == "cold" and not all(fields.get("own", {}).get("cold", [True])):
        lines.append(
            "note: inputs are too small or too large to be rotated out of the L2 cache: they are warm"
        )
    return lines


def heading() -> str:
    """The heading over `row`."""
    return f"  {'':13} {'trial':>5} {'us':>18} {'speedup':>8} {'± %':>5} {'rounds':>6} {'registers':>9}  ACF"


def row(label: str, trial: Trial, measured: Measured) -> str:
    """One trial: its times (one a shape), its speedup over own, the spread of its rounds, and what it is."""
    rounds = min(len(shape.ratios) for shape in measured.shapes)
    registers = max(a.registers for a in measured.compiled.artifacts[0])
    return (
        f"  {label:13} {trial.number:>5} {shown_us(measured):>18} {1 / measured.score:>8.4f} "
        f"{spread_percent(measured):>5.2f} {rounds:>6} {registers:>9}  {trial.acf_name or 'none'}"
    )


def shown_us(measured: Measured) -> str:
    """The times in microseconds, one a shape: "12.31 / 40.02"."""
    return " / ".join(f"{1e3 * shape.ms:.4g}" for shape in measured.shapes)


def shown_time(measured: Measured) -> str:
    """One measured candidate in words: "12.31 us, 1.084x own"."""
    return f"{shown_us(measured)} us, {1 / measured.score:.3f}x own"


def spread_percent(measured: Measured) -> float:
    """The standard deviation of the rounds' ratios in percent, the largest over shapes; 0 for a single round."""
    spreads = [
        100 * statistics.stdev(shape.ratios) / shape.ratio if len(shape.ratios) > 1 else 0.0
        for shape in measured.shapes
    ]
    return max(spreads)


def print_limits(fields: dict[str, Any], ranking: Ranking) -> None:
    """Print for each shape what share of the GPU's limit the best reaches, where that is known."""
    best = ranking.best.measured if ranking.best else None
    if best is None or "limits" not in fields or "work" not in fields:
        return
    limits = MachineLimits.from_json(fields["limits"])
    for number, (shape, work) in enumerate(zip(best.shapes, fields["work"], strict=False), start=1):
        flops = FlopCount.from_json(work["flops"]) if work["flops"] is not None else None
        share = limit_share(shape.ms, work["bytes"], flops, limits)
        place = f"shape {number}: " if len(best.shapes) > 1 else ""
        print(f"{place}the best reaches {share.words()}")


def print_gpu_use(fields: dict[str, Any], trials: list[Trial]) -> None:
    """Print how busy the GPU process was, how often it was replaced, and how many candidates were recognised."""
    use = fields.get("gpu_process")
    if not use:
        return
    share = 100 * use["busy_s"] / max(use["search_s"], 1e-9)
    known = sum(t.measured.same_code for t in trials if t.measured)
    rate = len(trials) / max(use["search_s"], 1e-9)
    print(
        f"GPU busy {share:.0f} % of {use['search_s']:.1f} s of search ({rate:.1f} candidates/s), replaced "
        f"{use['replaced']} time(s); {known} candidate(s) recognised by their code, not measured again"
    )


def print_finals(fields: dict[str, Any], trials: list[Trial]) -> None:
    """Print the finalists that failed after all, and what the ranking rests on."""
    finals = fields.get("finals") or []
    numbers = {trial.id: trial.number for trial in trials}
    if finals:
        print(
            f"{len(finals)} finalist(s) of at most {MOST_FINALISTS}, measured again: the times above are these"
        )
    for final in finals:
        if final["stage"]:
            print(
                f"  trial {numbers.get(final['trial'], '?')} failed at {final['stage']}: {final['message']}"
            )
