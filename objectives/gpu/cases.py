"""The inputs that every candidate is checked on, with what the reference makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from helitune.objectives.agreement import flat_outputs
from helitune.objectives.check_rounds import Round as CheckRound
from helitune.objectives.check_rounds import altered, is_alterable, rounds
from helitune.objectives.discovery import LoadedWorkload
from helitune.objectives.outputs import Expected

SEEDS = 3
SEED_STEP = 7919
"""Between the seeds of two draws, so that neighbouring --seed values share none."""

KEPT_SHARE = 0.25
"""Of the free memory: cases that need more together are made anew for every check."""


@dataclass(frozen=True)
class Case:
    """One call: its arguments, what is expected, and whether a disagreement is always a failure."""

    plan: CheckRound
    arguments: list[Any]
    expected: Expected


Expectation = Callable[[Sequence[Any]], Expected]


class Cases:
    """The cases of one shape: ordinary values of several seeds, and special values.

    `expect` says what a call should give: what the workload's reference gives, as a rule.
    """

    def __init__(self, workload: LoadedWorkload, shape: int, seed: int, expect: Expectation) -> None:
        self._workload = workload
        self._shape = shape
        self._seed = seed
        self._expect = expect
        first = self.arguments(0)
        record = workload.shapes[shape]
        alterable = workload.reference is not None and is_alterable(record, first)
        # Helion's interpreter alone can run tiles in halves
        self._plans = [plan for plan in rounds(SEEDS, alterable=alterable) if not plan.split]
        self._kept: list[Case] | None = None

    def __iter__(self) -> Iterator[Case]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Case] | None = []
        for plan in list(self._plans):
            case = self._case(plan)
            if case is None:
                continue
            if kept is not None:
                kept.append(case)
                if not self._fits(kept):
                    kept = None
            yield case
        # some may have been dropped since they were made
        names = {plan.name for plan in self._plans}
        self._kept = None if kept is None else [case for case in kept if case.plan.name in names]

    def arguments(self, draw: int) -> list[Any]:
        """The arguments of draw number `draw`, on the GPU."""
        return self._workload.make_inputs(self._shape, device="cuda", seed=self._seed + SEED_STEP * draw)

    def fresh(self, draw: int) -> Case:
        """A case with values that no other case has, for draws from SEEDS on."""
        arguments = self.arguments(draw)
        return Case(CheckRound(f"values {draw}", draw), arguments, self._expect(arguments))

    def drop(self, plan: CheckRound) -> None:
        """Leave out the case of `plan`: the kernel's own config does not agree there either."""
        self._plans = [other for other in self._plans if other.name != plan.name]
        if self._kept is not None:
            self._kept = [case for case in self._kept if case.plan.name != plan.name]

    def _case(self, plan: CheckRound) -> Case | None:
        arguments = self.arguments(plan.draw)
        if plan.change is not None:
            arguments = altered(self._workload.shapes[self._shape], arguments, plan.change)
            # what the reference itself cannot compute is no case
            with contextlib.suppress(Exception):
                return Case(plan, arguments, self._expect(arguments))
            self.drop(plan)
            return None
        return Case(plan, arguments, self._expect(arguments))

    def _fits(self, cases: list[Case]) -> bool:
        free, _ = torch.cuda.mem_get_info()
        allowed: float = KEPT_SHARE * (free + torch.cuda.memory_reserved())
        return sum(map(_case_bytes, cases)) <= allowed


def _case_bytes(case: Case) -> int:
    outputs = [case.expected.reference] + ([case.expected.exact] if case.expected.exact else [])
    held = [case.arguments, *((one.returned, one.arguments) for one in outputs)]
    leaves = (value for _, value in flat_outputs(held))
    return sum(value.numel() * value.element_size() for value in leaves if isinstance(value, torch.Tensor))
