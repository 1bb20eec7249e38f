"""What `tune --dry-run` prints: the joint space axis by axis, the ACFs, and the work planned."""

from __future__ import annotations

import json as json_text
from typing import Any

from helitune.search.space import Dimension

from .pipeline import Plan


def print_plan(plan: Plan, *, json: bool) -> None:
    """Print the plan as text or as one JSON object."""
    if json:
        print(json_text.dumps(_fields(plan)))
        return
    print(
        f"joint space: {plan.space.configs:.6g} configs × {len(plan.space.acfs)} = {plan.space.size:.6g} candidates"
    )
    for dimension in plan.space.dimensions:
        print(f"  {dimension.label:28} {len(dimension.values):>4}  {_values(dimension)}")
    print(
        f"  {'ACF':28} {len(plan.space.acfs):>4}  none, {len(plan.space.acfs) - 1} of {len(plan.tools.packs)} pack(s)"
    )
    for pack in plan.tools.packs:
        print(f"pack {pack.name} ({pack.source}): {len(pack.accepted)} accepted, {len(pack.refused)} refused")
        for refusal in pack.refused:
            print(f"  refused {refusal.file}: {refusal.reason}")
    print(f"planned: {_work(plan)}")


def _work(plan: Plan) -> str:
    request = plan.request
    bound = f", for at most {request.time_s:g} s" if request.time_s is not None else ""
    return (
        f"{len(plan.baselines)} baseline(s) ({', '.join(plan.baselines)}), then up to {request.budget} candidates "
        f"by {request.strategy}{bound}, on {request.jobs} process(es), ranked by {request.objective} "
        f"for {plan.tools.target.arch}; PTX once a config, ptxas {plan.tools.ptxas.version} once a candidate"
    )


def _values(dimension: Dimension) -> str:
    shown = [
        json_text.dumps(row[0] if len(row) == 1 else row, separators=(",", ":")) for row in dimension.values
    ]
    return " ".join(shown) if len(shown) <= 12 else f"{' '.join(shown[:10])} … {shown[-1]}"


def _fields(plan: Plan) -> dict[str, Any]:
    return {
        "space": {
            "size": plan.space.size,
            "configs": plan.space.configs,
            "axes": [
                {"axis": d.label, "values": [list(row) for row in d.values]} for d in plan.space.dimensions
            ],
        },
        "acfs": {
            "accepted": [acf.name for acf in plan.space.acfs[1:]],
            "refused": [
                {"pack": pack.name, "file": refusal.file, "reason": refusal.reason}
                for pack in plan.tools.packs
                for refusal in pack.refused
            ],
        },
        "planned": {
            "baselines": list(plan.baselines),
            "budget": plan.request.budget,
            "time_s": plan.request.time_s,
            "strategy": plan.request.strategy,
            "objective": plan.request.objective,
            "jobs": plan.request.jobs,
        },
    }
