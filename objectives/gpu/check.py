"""The correctness gate on the GPU: no time is taken of a candidate whose outputs are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from helitune.objectives.agreement import Agreement
from helitune.objectives.agreement_words import circumstances
from helitune.objectives.nonfinite import fails
from helitune.objectives.outputs import Outputs, call_on_copies, compare_outputs

from .cases import SEEDS, Case, Cases
from .poison import PATTERNS, Poisoned

Kernel = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check came to: `wrong` is "" or the first disagreement, one line."""

    wrong: str
    max_rel_error: float


class Gate:
    """Judges kernels on the cases of one shape; `names` are the kernel's parameters.

    `tf32` says that the kernel's float32 products run in TF32.
    """

    def __init__(self, cases: Cases, names: Sequence[str], *, tf32: bool) -> None:
        self._cases = cases
        self._names = names
        self._tf32 = tf32
        self._filled: frozenset[int] = frozenset()

    @property
    def mutated(self) -> frozenset[int]:
        """The arguments that the own config has changed so far, by position."""
        return self._filled

    def check(self, kernel: Kernel) -> Checked:
        """The first disagreement over all cases, or none."""
        worst = 0.0
        for number, case in enumerate(self._cases):
            agreement, outputs = self._run(kernel, case, number)
            if not agreement.agrees and fails(case.plan, outputs, case.expected):
                return Checked(self._line(case, agreement), agreement.max_rel_error)
            if case.plan.ordinary:
                worst = max(worst, agreement.max_rel_error)
        return Checked("", worst)

    def check_own(self, kernel: Kernel) -> Checked:
        """As `check`, for the kernel's own config: special values that it fails on are asked of nobody."""
        ordinary = Checked("", 0.0)
        for number, case in enumerate(self._cases):
            agreement, outputs = self._run(kernel, case, number, own=True)
            wrong = not agreement.agrees and fails(case.plan, outputs, case.expected)
            if wrong and not case.plan.ordinary:
                self._cases.drop(case.plan)
            elif wrong and not ordinary.wrong:
                ordinary = Checked(self._line(case, agreement), agreement.max_rel_error)
            elif case.plan.ordinary and not ordinary.wrong:
                ordinary = Checked("", max(ordinary.max_rel_error, agreement.max_rel_error))
        return ordinary

    def soak(self, kernels: Sequence[Kernel], repeats: int) -> list[str]:
        """For each kernel "" or its first disagreement over `repeats` runs, each on values of their own."""
        wrong = [""] * len(kernels)
        for repeat in range(repeats):
            case = self._cases.fresh(SEEDS + repeat)
            for place, kernel in enumerate(kernels):
                if wrong[place]:
                    continue
                agreement, _ = self._run(kernel, case, repeat)
                if not agreement.agrees:
                    wrong[place] = f"repeat {repeat + 1} of {repeats}: {self._line(case, agreement)}"
        return wrong

    def _run(
        self, kernel: Kernel, case: Case, number: int, *, own: bool = False
    ) -> tuple[Agreement, Outputs]:
        def poisoned(*arguments: Any) -> Any:
            with Poisoned(PATTERNS[number % len(PATTERNS)]):
                returned = kernel(*arguments)
            torch.cuda.synchronize()  # on every stream: what is still running has written nothing yet
            return returned

        outputs = call_on_copies(poisoned, case.arguments)
        # zeros doubled in place look untouched: what the own config wrote once every candidate writes always
        written = self._filled | outputs.mutated
        if own:
            self._filled = written
        outputs = replace(outputs, mutated=written)
        return compare_outputs(outputs, case.expected, self._names, tf32=self._tf32), outputs

    def _line(self, case: Case, agreement: Agreement) -> str:
        assert agreement.worst is not None
        return f"{circumstances(case.plan.name)}: {agreement.worst.line()}"
