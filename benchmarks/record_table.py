"""Record a replay table: every config of a narrowed space × ACFs, checked and timed on this machine's GPU.

    python benchmarks/record_table.py examples/softmax.py --vary block_sizes=1,2,4 --vary num_warps=4,8 \
        --acf-pack h200-seed --acfs 8 --out benchmarks/tables/softmax.jsonl.gz

Axes that are not varied stay at the kernel's own config. ACFs come one after the other, so that a table cut short
by --time is a full product of fewer ACFs: the last, unfinished one is left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.pack import resolve_pack
from helitune.objectives.compiled_objectives import OBJECTIVES
from helitune.objectives.measured import MeasuredEvaluator
from helitune.objectives.outcomes import Failed, Measured, Outcome
from helitune.objectives.times import Race
from helitune.results import measured_run
from helitune.results.choose_device import settled
from helitune.results.fingerprint import fingerprint
from helitune.results.request import TuneRequest
from helitune.results.session import Session, find_tools
from helitune.results.workload_json import shape_to_json
from helitune.search.candidate import Candidate
from helitune.search.narrow import narrow
from helitune.search.space import Dimension, Genome, JointSpace

RACE = Race(first=3, near=6)


def main() -> None:
    """Record one table."""
    options = _options()
    request = _request(options)
    tools = find_tools(request)
    request = settled(request, tools.target, tools.device)
    if tools.device is None:
        sys.exit("no GPU to record on")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Session(request, tools, Path(folder, "log")) as session:
        assert session.gpu is not None
        session.measured = MeasuredEvaluator(session.compiled, session.gpu, RACE)
        begun = measured_run.begin(session)
        space = _space(session, options.vary, _spread(tools.acfs, options.acfs))
        print(f"{space.size} points, own {begun.own.ms} ms, begun after {time.monotonic() - started:.1f} s")
        recorded = time.monotonic()
        points = list(_points(session, space, recorded + options.time, request.jobs))
        _write(options.out, _header(session, space), points)
        spent = time.monotonic() - recorded
        print(f"{len(points)} points in {spent:.1f} s, GPU process {session.gpu.use_since_own()}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--args", action="append", default=[])
    parser.add_argument("--vary", action="append", default=[], help="AXIS=V,V,…, as --set of tune")
    parser.add_argument("--acf-pack", action="append", default=[])
    parser.add_argument("--acfs", type=int, default=8, help="of the pack, evenly spread")
    parser.add_argument("--time", type=float, default=600.0, help="seconds after which no ACF is begun")
    parser.add_argument("--device", default="0")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _request(options: argparse.Namespace) -> TuneRequest:
    return TuneRequest(
        file=str(Path(options.file).absolute()),
        kernel=None,
        reference=None,
        args=tuple(options.args),
        target="auto",
        packs=tuple(str(resolve_pack(pack).absolute()) for pack in options.acf_pack),
        force=False,
        settings=(),
        strategy="grid",
        objective="time",
        budget=0,
        time_s=None,
        seed=0,
        jobs=options.jobs,
        compile_timeout_s=0.0,
        memory_bytes=8 << 30,
        ptxas=None,
        device=options.device,
    )


def _spread(acfs: Sequence[Acf], count: int) -> tuple[Acf, ...]:
    if count >= len(acfs):
        return tuple(acfs)
    return tuple(acfs[place * len(acfs) // count] for place in range(count))


def _space(session: Session, vary: Sequence[str], acfs: tuple[Acf, ...]) -> JointSpace:
    """The axes that `vary` names with its values, the others at the own config's."""
    varied = {text.partition("=")[0] for text in vary}
    own = session.description.baselines[0].slots
    dimensions = []
    for dimension in narrow(session.description.dimensions, vary):
        if dimension.label not in varied and dimension.key not in varied:
            dimension = replace(dimension, values=(tuple(own[slot] for slot in dimension.slots),))
        dimensions.append(dimension)
    return JointSpace(tuple(dimensions), (NO_ACF, *acfs))


def _points(session: Session, space: JointSpace, deadline: float, jobs: int) -> Iterator[dict[str, Any]]:
    """A record for each genome, ACF by ACF, until the deadline has passed."""
    seen: dict[str, Genome] = {}
    configs = list(product(*map(range, space.lengths[:-1])))
    normal = session.evaluator.normalise([space.decode((*config, 0))[0] for config in configs])
    with ThreadPoolExecutor(3 * jobs) as threads:
        for acf in range(len(space.acfs)):
            if time.monotonic() > deadline:
                return
            genomes = [(*config, acf) for config in configs]
            candidates = [None if isinstance(n, Failed) else Candidate.of(n, space.acfs[acf]) for n in normal]
            outcomes = threads.map(lambda c: c and session.evaluator.evaluate(c), candidates)
            for genome, candidate, outcome, config in zip(genomes, candidates, outcomes, normal, strict=True):
                yield _point(session, genome, candidate, outcome, config, seen)
            print(f"  {acf + 1} of {len(space.acfs)} ACFs", flush=True)


def _point(
    session: Session,
    genome: Genome,
    candidate: Candidate | None,
    outcome: Outcome | None,
    config: dict[str, Any] | Failed,
    seen: dict[str, Genome],
) -> dict[str, Any]:
    if candidate is None or isinstance(outcome, Failed) or not isinstance(outcome, Measured):
        failed = outcome if isinstance(outcome, Failed) else config
        assert isinstance(failed, Failed)
        return {"genome": genome, "outcome": "failed", "stage": failed.stage, "message": failed.message}
    if candidate.id in seen:
        return {"genome": genome, "same_as": seen[candidate.id]}
    seen[candidate.id] = genome
    (shape,) = outcome.shapes
    return {
        "genome": genome,
        "config": candidate.config,
        "acf_sha256": candidate.acf.sha256,
        "outcome": "measured",
        "ratios": shape.ratios,
        "ms": shape.ms,
        "base_ms": shape.base_ms,
        "same_code": outcome.same_code,
        "code": list(outcome.compiled.code),
        "features": _features(session, outcome),
    }


def _features(session: Session, outcome: Measured) -> dict[str, float]:
    """What is known of the candidate without running it: every compiled objective, and the artifact's numbers."""
    (launches,) = outcome.compiled.artifacts
    moved = session.description.bytes_moved[0]
    scores = {
        name: objective.score(launches, session.tools.target, moved).score
        for name, objective in OBJECTIVES.items()
    }
    return {
        **scores,
        "tie_breaker": outcome.compiled.tie_breaker,
        "launches": len(launches),
        "registers_max": max(a.registers for a in launches),
        "spill_bytes": sum(a.spill_bytes for a in launches),
        "shared_bytes": max(a.shared_bytes for a in launches),
        "code_instructions": sum(a.instructions for a in launches),
        "executed": sum(a.executed * a.blocks * a.num_warps for a in launches),
        "executed_a_warp": sum(a.executed for a in launches),
        "imbalance": max(a.imbalance for a in launches),
        "num_warps": max(a.num_warps for a in launches),
        "blocks": sum(a.blocks for a in launches),
        "bytes_moved": moved,
        "flops": flops.total if (flops := session.description.flops[0]) else 0,
        "sms": session.tools.target.sms,
    }


def _header(session: Session, space: JointSpace) -> dict[str, Any]:
    record, tools = session.description.record, session.tools
    assert tools.device is not None
    return {
        "format": 1,
        "kernel": record.kernel,
        "file": Path(record.file).name,
        "shapes": [shape_to_json(shape) for shape in record.shapes],
        "gpu": tools.device.name,
        "versions": fingerprint(tools.ptxas, tools.target.arch, tools.device),
        "date": time.strftime("%Y-%m-%d"),
        "dimensions": [_dimension(dimension) for dimension in space.dimensions],
        "acfs": [
            {"name": a.name, "sha256": a.sha256, "arch": list(a.arch), "toolkit": a.toolkit}
            for a in space.acfs[1:]
        ],
        "baselines": [
            {"name": baseline.name, "genome": genome}
            for baseline, described in zip(session.baselines, session.description.baselines, strict=True)
            if (genome := space.encode(described.slots, baseline.candidate.acf)) is not None
        ],
    }


def _dimension(dimension: Dimension) -> dict[str, Any]:
    return {
        "key": dimension.key,
        "index": dimension.index,
        "slots": list(dimension.slots),
        "values": [list(row) for row in dimension.values],
    }


def _write(path: Path, header: dict[str, Any], points: Sequence[dict[str, Any]]) -> None:
    """The table, with the ACFs that all configs were recorded for."""
    acfs = {point["genome"][-1] for point in points}
    header["acfs"] = header["acfs"][: max(acfs)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as table:
        for line in (header, *points):
            table.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
