"""Check a loaded workload's kernel against its reference, in Helion's interpreter, on scaled-down shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from helitune.acfs.errors import InputError
from helitune.search.args import format_shape

from .agreement import Agreement, OutputAgreement
from .agreement_words import circumstances, shortened
from .check_result import CheckResult, marked_shape
from .check_rounds import Round, altered, is_alterable, rounds
from .cpu_redirect import cuda_means_cpu
from .discovery import LoadedWorkload
from .discovery_kernel import file_of
from .interpreter_shims import split_tiles
from .nonfinite import fails
from .outputs import Expected, Outputs, call_on_copies, compare_outputs, expected_outputs
from .scaled_inputs import ScaledInputs
from .scaling import factors
from .user_code import call_user_code

T = TypeVar("T")

# a reference further than this from its exact values says little about the kernel
_DOUBTFUL_REFERENCE = 0.1


def check_source(workload: LoadedWorkload, *, seeds: int, base_seed: int) -> CheckResult:
    """The result over all shapes of the workload, up to the first that fails.

    InputError, with file and line, where the reference raises.
    """
    check = _Check(workload)
    for index in range(len(workload.shapes)):
        try:
            check.shape(ScaledInputs(workload, index, base_seed), seeds)
        except _Failed as failure:
            return check.result(failure)
    return check.result(None)


class _Failed(Exception):
    """The check's end: one line what is wrong, and the output that is, if it is one."""

    def __init__(self, message: str, worst: OutputAgreement | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.worst = worst


@dataclass
class _Check:
    workload: LoadedWorkload
    shapes: list[str] = field(default_factory=list)
    factors: list[int] = field(default_factory=list)
    rounds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    worst: OutputAgreement | None = None
    _filled: frozenset[int] = frozenset()

    def shape(self, inputs: ScaledInputs, seeds: int) -> None:
        """Run every round of one shape; _Failed at the first that fails."""
        factor, first = self._runnable(inputs)
        shape = inputs.scaled_shape(factor)
        self.shapes.append(format_shape(shape).replace("~given", ""))
        self.factors.append(factor)
        alterable = self.workload.reference is not None and is_alterable(shape, first)
        for plan in rounds(seeds, alterable=alterable):
            if plan.name not in self.rounds:
                self.rounds.append(plan.name)
            arguments = inputs.arguments(factor, plan.draw) if plan.draw else first
            if plan.change is not None:
                arguments = altered(shape, arguments, plan.change)
            self._round(plan, arguments)

    def result(self, failure: _Failed | None) -> CheckResult:
        """What the check came to, with `failure` its end or None."""
        name, judge = self.workload.kernel_name, self._judge()
        agreed = f"{name} agrees with {judge} in Helion's interpreter"
        if self.worst is not None:
            agreed += f", max rel error {self.worst.max_rel_error:.2g}"
        return CheckResult(
            agrees=failure is None,
            reference=self.workload.reference_name,
            shapes=tuple(self.shapes),
            rounds=tuple(self.rounds),
            message=failure.message if failure else agreed,
            worst=failure.worst if failure else self.worst,
            notes=tuple(dict.fromkeys(self.notes)),
            factors=tuple(self.factors),
        )

    def _runnable(self, inputs: ScaledInputs) -> tuple[int, list[Any]]:
        """The largest factor at which kernel and reference both run, and its first arguments."""
        tried = factors(inputs.shape)
        skipped = ""
        for factor in tried:
            arguments = inputs.arguments(factor, 0)
            try:
                self._run_kernel(arguments)
                if self.workload.reference is not None:
                    self._run_reference(arguments)
            except InputError as error:
                skipped = skipped or f"scaled down {factor}x it does not run ({error.what})"
                last = error
                continue
            if skipped:
                self.notes.append(f"{skipped}: checked scaled down {factor}x")
            return factor, arguments
        # the reference's own failure comes first: without it nothing can be said about the kernel
        if self.workload.reference is not None:
            self._run_reference(arguments)
        where = f" ({last.where})" if last.where else ""
        raise _Failed(f"the kernel's source fails in Helion's interpreter: {last.what}{where}")

    def _round(self, plan: Round, arguments: list[Any]) -> None:
        try:
            expected = self._expected(arguments)
        except InputError as error:
            if plan.change is None:
                raise
            self.notes.append(f"{circumstances(plan.name)}: not run, {error.what}")
            return
        try:
            outputs = self._run_kernel(arguments, split=plan.split)
        except InputError as error:
            if plan.ordinary:
                raise _Failed(f"the kernel's source fails in Helion's interpreter: {error.line()}") from error
            self.notes.append(f"{circumstances(plan.name)}: the interpreter fails, {error.what}")
            return
        self._judge_round(plan, outputs, expected)

    def _judge_round(self, plan: Round, outputs: Outputs, expected: Expected) -> None:
        names = list(self.workload.kernel.signature.parameters)
        # zeros doubled in place look untouched: what the kernel wrote once it writes always
        self._filled |= outputs.mutated
        outputs = replace(outputs, mutated=self._filled)
        agreement = compare_outputs(outputs, expected, names)
        if plan.ordinary and expected.exact is not None:
            self._note_doubtful(expected, names)
        if agreement.agrees:
            self._keep_worst(agreement)
            return
        assert agreement.worst is not None
        line = f"{circumstances(plan.name)}: {agreement.worst.line()}"
        if fails(plan, outputs, expected):
            raise self._disagreement(line, agreement.worst)
        self.notes.append(f"{line} (where the reference is not finite, a note)")

    def _disagreement(self, line: str, worst: OutputAgreement) -> _Failed:
        name = self.workload.kernel_name
        shape = marked_shape(shortened(self.shapes[-1]), self.factors[-1])
        return _Failed(f"{name} disagrees with {self._judge()} on {shape} {line}", worst)

    def _judge(self) -> str:
        judge = self.workload.reference_name
        return "itself" if judge == "self" else judge.removeprefix("file:")

    def _note_doubtful(self, expected: Expected, names: Sequence[str]) -> None:
        own = compare_outputs(expected.reference, expected, names).max_rel_error
        if own > _DOUBTFUL_REFERENCE:
            self.notes.append(
                f"the reference itself is {own:.0%} off its float64 values: agreement says little"
            )

    def _keep_worst(self, agreement: Agreement) -> None:
        found = agreement.worst
        if found and (self.worst is None or found.max_rel_error > self.worst.max_rel_error):
            self.worst = found

    def _expected(self, arguments: list[Any]) -> Expected:
        if self.workload.reference is None:
            return Expected(self._run_kernel(arguments), None)
        reference = self.workload.reference
        return self._user_code(lambda: expected_outputs(reference, arguments), self._judge())

    def _run_reference(self, arguments: list[Any]) -> Outputs:
        reference = self.workload.reference
        assert reference is not None
        return self._user_code(lambda: call_on_copies(reference, arguments), self._judge())

    def _run_kernel(self, arguments: list[Any], *, split: bool = False) -> Outputs:
        def call() -> Outputs:
            with split_tiles() if split else contextlib.nullcontext():
                return call_on_copies(self.workload.kernel, arguments)

        return self._user_code(call, self.workload.kernel_name)

    def _user_code(self, call: Callable[[], T], doing: str) -> T:
        with cuda_means_cpu():
            return call_user_code(call, Path(file_of(self.workload.module)), doing)
