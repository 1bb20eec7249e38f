"""Evaluate candidates from a recorded table: recorded failures come back, recorded times with their noise drawn anew.

A score is the median of as many ratios as were recorded, drawn from them with replacement, times one offset: what
the same code gained or lost where a build of it landed in memory, which all rounds of a run share. A seed is one
run: in it a candidate scores the same whenever it is asked for, and so do all candidates of the same code.
"""

from __future__ import annotations

import hashlib
import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

from helitune.search.candidate import Candidate, canonical
from helitune.search.space import Genome, Value
from helitune.search.strategies.contract import Evaluate

from .artifact import Artifact
from .outcomes import Compiled, Failed, Measured, Outcome
from .replay_records import FailedPoint, MeasuredPoint
from .replay_table import ReplayTable
from .times import ShapeTimes

OFFSET_SD = 0.002
"""Standard deviation of the log offset: the same kernel, built twice, differed by 0.14 and 0.18 % on an H200."""


def drawn_ratios(point: MeasuredPoint, seed: int) -> tuple[float, ...]:
    """The rounds that the run of `seed` would see of the point's code."""
    code = " ".join(point.code) or str(point.genome)
    source = random.Random(f"{seed}/{code}")
    offset = math.exp(source.gauss(0, OFFSET_SD))
    return tuple(ratio * offset for ratio in source.choices(point.ratios, k=len(point.ratios)))


def replay_evaluate(table: ReplayTable, seed: int) -> Evaluate:
    """An `evaluate` for strategies: the scores of the run of `seed`, None for failed and invalid candidates."""

    def score(genome: Genome) -> float | None:
        point = table.point(genome)
        return None if isinstance(point, FailedPoint) else _measured(point, seed).score

    def evaluate(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        return [score(genome) for genome in batch]

    return evaluate


class ReplayEvaluator:
    """The evaluator of a ledger whose GPU is a recorded table; safe to use from several threads.

    Its outcomes have what the table knows: artifacts carry the recorded registers, spills, shared memory and
    instructions, and no other property of the code.
    """

    def __init__(self, table: ReplayTable, seed: int) -> None:
        self._table = table
        self._seed = seed
        self._by_candidate: dict[tuple[str, str], MeasuredPoint | FailedPoint] = {}
        for genome in table.genomes:
            config = table.config(genome)
            if not isinstance(config, Failed):
                sha256 = table.space.acfs[genome[-1]].sha256
                self._by_candidate.setdefault((canonical(config), sha256), table.point(genome))

    def normalise(self, rows: Sequence[Sequence[Value]]) -> list[dict[str, Any] | Failed]:
        """The recorded config of each row of slot values, or an invalid_config failure."""
        return [self._normalised(row) for row in rows]

    def evaluate(self, candidate: Candidate) -> Outcome:
        """What was recorded of a candidate, its noise drawn anew; raises KeyError for one that was not recorded."""
        point = self._by_candidate[candidate.config_json, candidate.acf.sha256]
        return point.failed if isinstance(point, FailedPoint) else _measured(point, self._seed)

    def prepare(self, candidate: Candidate) -> None:
        """Nothing: there is nothing to compile."""

    def remember(self, outcome: Outcome) -> None:
        """Nothing: the same code scores the same anyway."""

    def _normalised(self, row: Sequence[Value]) -> dict[str, Any] | Failed:
        genome = self._table.space.encode(row)
        if genome is None:
            return Failed("invalid_config", "the recorded table does not hold this config")
        config = self._table.config(genome)
        return config if isinstance(config, Failed) else dict(config)


def _measured(point: MeasuredPoint, seed: int) -> Measured:
    ratios = drawn_ratios(point, seed)
    ms = statistics.median(ratios) * point.base_ms
    shape = ShapeTimes(ms=ms, base_ms=point.base_ms, ratios=ratios)
    model = point.features.get("issue_slots", 0.0)
    compiled = Compiled(
        score=model,
        tie_breaker=point.features.get("tie_breaker", 0.0),
        values=(model,),
        artifacts=((_artifact(point),),),
    )
    return Measured.of(compiled, (shape,), max_rel_error=0.0)


def _artifact(point: MeasuredPoint) -> Artifact:
    def known(feature: str) -> int:
        return int(point.features.get(feature, 0))

    named = " ".join(point.code) or f"{canonical(point.config)}\0{point.acf_sha256}"
    return Artifact(
        ptx_sha256="",
        code_sha256=hashlib.sha256(named.encode()).hexdigest(),
        registers=known("registers"),
        stack_bytes=0,
        spill_store_bytes=known("spill_bytes"),
        spill_load_bytes=0,
        shared_bytes=known("shared_bytes"),
        instructions=known("code_instructions"),
        num_warps=known("num_warps"),
        grid=(),
        histogram=(),
        weights=(),
        imbalance=1.0,
        underived=(),
        compile_s=0.0,
    )
