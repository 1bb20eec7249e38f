"""What a candidate can be ranked by without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from helitune.objectives.artifact import Artifact
from helitune.objectives.issue_slots import issue_slots, residency
from helitune.objectives.targets import Target

DEFAULT_OBJECTIVE = "issue_slots"


@dataclass(frozen=True, slots=True)
class Score:
    """One candidate's standing: `score` is minimised, `value` is shown, in the objective's unit.

    `tie_breaker` orders equal scores, lower first: the issue cycles of the model, without its memory bound.
    `bound` is "memory" where the model charges what the workload's bytes cost and nothing else, so that no
    candidate can score lower, "issue" where there is room, and "" for objectives that are not the model.
    """

    score: float
    value: float
    tie_breaker: float
    bound: str = ""


@dataclass(frozen=True, slots=True)
class Objective:
    """One way to rank compiled candidates; `measure` gives the value for the launches of one call."""

    name: str
    unit: str
    lower_is_better: bool
    description: str
    measure: Callable[[Sequence[Artifact], Target, int], float]

    def score(self, artifacts: Sequence[Artifact], target: Target, bytes_moved: int) -> Score:
        """The score of the launches of one call that must move so many bytes.

        Raises DoesNotFit for a launch that the target cannot run, whatever the objective.
        """
        model = issue_slots(artifacts, target, bytes_moved)
        value = self.measure(artifacts, target, bytes_moved)
        bound = ""
        if self.name == DEFAULT_OBJECTIVE:
            least = bytes_moved / target.memory_bandwidth_bytes_per_s * target.sm_clock_hz
            bound = "memory" if value <= least * (1 + 1e-9) else "issue"
        return Score(value if self.lower_is_better else -value, value, model.issue_cycles, bound)


def _model(artifacts: Sequence[Artifact], target: Target, bytes_moved: int) -> float:
    return issue_slots(artifacts, target, bytes_moved).cycles


def _spills(artifacts: Sequence[Artifact], target: Target, bytes_moved: int) -> float:
    return float(sum(artifact.spill_bytes for artifact in artifacts))


def _registers(artifacts: Sequence[Artifact], target: Target, bytes_moved: int) -> float:
    return float(max(artifact.registers for artifact in artifacts))


def _instructions(artifacts: Sequence[Artifact], target: Target, bytes_moved: int) -> float:
    return float(sum(artifact.instructions for artifact in artifacts))


def _occupancy(artifacts: Sequence[Artifact], target: Target, bytes_moved: int) -> float:
    warps = min(residency(artifact, target).warps for artifact in artifacts)
    return 100.0 * warps / target.max_warps_per_sm


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            "issue_slots", "cycles", True,
            "model: SM cycles to issue the instructions or move the bytes; ranks, is not a time", _model,
        ),
        Objective("spills", "bytes/thread", True, "bytes that a thread spills: stores and loads", _spills),
        Objective("registers", "registers/thread", True, "registers of the hungriest launch", _registers),
        Objective("instructions", "instructions", True, "size of the code, with padding", _instructions),
        Objective("occupancy", "%", False, "resident warps of the most possible, worst launch", _occupancy),
    )
}  # fmt: skip
