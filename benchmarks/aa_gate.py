"""200 candidates that are the baseline in disguise, on a real GPU, through the whole strict gate: none may pass.

    python benchmarks/aa_gate.py [--candidates 200] [--family 8] [--runs 2] [--seconds 210] [--seed 0] [-o FILE]

The candidates are the calibration kernels' own builds, loaded again: each has a module, a graph and output buffers of
its own, and stands beside the baseline and its A/A control as the finalists of a validation do. A family is judged
by the gate at every preplanned look, with Holm over its candidates, on `--runs` processes that stay alive; each family
is placed anew in each of them. What would settle the matter without times is left out: the equal code (NO_OP) is not
told to the gate, and the soak counts as passed. The articles' gate judges the same rounds.

The floor is this machine's calibration (`helitune calibrate`, a short one where there is none). No new family begins
after `--seconds` of measuring. With -o all rounds are kept, in the format of validation.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from helitune.acfs.errors import UserError
from helitune.cli.calibrate_command import kernels_request, sessions, setting_of
from helitune.cli.validate_command import calibration_for
from helitune.objectives.arm_times import ArmRound
from helitune.objectives.build import Build
from helitune.objectives.calibration_kernels import KERNELS
from helitune.objectives.gpu_process import GpuProcess
from helitune.results.calibrate_run import for_kernel, own_build, stand_anew
from helitune.results.session import find_tools
from helitune.results.thresholds import ARTICLE, STRICT
from helitune.results.validation_looks import measure_looks
from helitune.results.validation_record import AGAIN, OWN, Contestant, Head, RunHead, Validation
from helitune.results.validation_verdict import Finding, judge
from helitune.results.verdict import Status

Write = Callable[[Mapping[str, Any]], None]


class Process:
    """One of the runs of a family: a process in which its arms stand."""

    def __init__(self, gpu: GpuProcess, own: Build, number: int) -> None:
        self.number = number
        self._gpu, self._own = gpu, own
        self._rng = random.Random()

    def stand(self, candidates: Sequence[str], seed: int) -> RunHead:
        """Have the baseline, its control and the candidates stand in a placement of their own."""
        names = [OWN, AGAIN, *candidates]
        self._rng = random.Random(seed)
        self._rng.shuffle(names)
        stand_anew(self._gpu, self._own, dict.fromkeys(names, self._own), seed)
        return RunHead(self.number, seed, STRICT.soak_repeats, {}, built=tuple(names))

    def rounds(self, arms: Sequence[str], count: int) -> Iterator[list[ArmRound]]:
        """`count` rounds of these arms."""
        orders = [self._rng.sample(list(arms), len(arms)) for _ in range(count)]
        yield from self._gpu.ask("arm_rounds", orders, timeout_s=300.0)


@dataclass
class Outcome:
    """What became of the candidates of one kernel."""

    kernel: str
    statuses: Counter[Status] = field(default_factory=Counter)
    by_article: int = 0
    offsets: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    looks: Counter[int] = field(default_factory=Counter)

    def add(self, findings: Sequence[Finding], by_article: Sequence[Finding]) -> None:
        """Count a family."""
        for finding in findings:
            numbers = finding.whole.numbers
            self.statuses[finding.whole.status] += 1
            self.looks[numbers.rounds] += 1
            self.offsets += [abs(math.log(one)) for one in numbers.run_speedups]
            self.control.append(numbers.largest_aa or 0.0)
        self.by_article += sum(finding.whole.accepted for finding in by_article)

    def row(self) -> str:
        """One line of the Markdown table."""
        count = sum(self.statuses.values())
        said = ", ".join(f"{n} {status}" for status, n in sorted(self.statuses.items()))
        offsets = sorted(self.offsets) or [math.nan]
        looks = ", ".join(f"{n} at {rounds}" for rounds, n in sorted(self.looks.items()))
        return (
            f"| {self.kernel} | {count} | {self.statuses[Status.FASTER]} | {self.by_article} | {said} | "
            f"{offsets[len(offsets) // 2]:.3%} | {offsets[int(0.95 * (len(offsets) - 1))]:.3%} | {offsets[-1]:.3%} "
            f"| {looks} |"
        )


def family(
    processes: Sequence[Process], size: int, seed: int, floor: Mapping[str, Any], write: Write
) -> tuple[list[Finding], list[Finding]]:
    """The strict gate's and the articles' findings on one family of candidates."""
    candidates = tuple(Contestant(f"candidate {n}", n, "", ("",)) for n in range(1, size + 1))
    thresholds = replace(STRICT, runs=len(processes))
    head = Head(1, seed, ("",), Contestant(OWN, 0, "", ("",)), None, candidates, thresholds, floor)
    validation = Validation(head)
    write(head.to_json())
    rng = random.Random(f"family {seed}")
    for process in processes:
        begun = process.stand([one.trial for one in candidates], rng.getrandbits(31))
        write(begun.to_json())
        validation = validation.with_run(begun)
    validation, findings = measure_looks(validation, processes, write, lambda text: None)
    return findings, judge(validation, replace(ARTICLE, runs=len(processes)))


def measure(asked: argparse.Namespace, write: Write) -> list[Outcome]:
    """The outcomes of all kernels, the candidates spread evenly over them."""
    request = kernels_request("auto", "graph", "cold", None, asked.seed, None)
    tools = find_tools(request)
    named = asked.kernels.split(",") if asked.kernels else [file.stem for file in KERNELS]
    kernels = [file for file in KERNELS if file.stem in named]
    families = math.ceil(asked.candidates / asked.family)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="helitune-aa-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "workers.log"
        calibration = calibration_for(request, tools, log, say)
        floor = asdict(calibration.floor())
        say(f"{setting_of(request, tools)}")
        say(f"floor {math.expm1(floor['quantile95']):.3%} of {floor['offsets']} baselines")
        started = time.monotonic()
        for place, file in enumerate(kernels):
            outcome = Outcome(file.stem.replace("_", " "))
            outcomes.append(outcome)
            share = families // len(kernels) + (place < families % len(kernels))
            with ExitStack() as stack:
                processes = []
                for number in range(1, asked.runs + 1):
                    session = stack.enter_context(sessions(tools, log)(for_kernel(request, file)))
                    processes.append(Process(*own_build(session), number))
                for index in range(share):
                    if time.monotonic() - started > asked.seconds:
                        say(f"{asked.seconds:g} s are over: {share - index} families of this kernel left out")
                        break
                    findings, by_article = family(
                        processes, asked.family, 1000 * asked.seed + 100 * place + index, floor, write
                    )
                    outcome.add(findings, by_article)
            say(f"{outcome.kernel}: {dict(outcome.statuses)} after {time.monotonic() - started:.0f} s")
    return outcomes


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Print the table; 1 where a candidate was accepted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--family", type=int, default=8, help="candidates judged together")
    parser.add_argument("--runs", type=int, default=STRICT.runs)
    parser.add_argument("--seconds", type=float, default=210.0, help="no new family begins after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", help=f"of {', '.join(file.stem for file in KERNELS)}; all by default")
    parser.add_argument("-o", "--output", type=Path, help="a file for all rounds")
    asked = parser.parse_args()
    with ExitStack() as stack:
        handle = stack.enter_context(asked.output.open("w")) if asked.output else None

        def write(line: Mapping[str, Any]) -> None:
            if handle is not None:
                handle.write(json.dumps(line, separators=(",", ":")) + "\n")

        try:
            outcomes = measure(asked, write)
        except UserError as error:
            say(f"aa_gate: {error.line()}")
            return error.exit_code
    total = sum(sum(one.statuses.values()) for one in outcomes)
    accepted = sum(one.statuses[Status.FASTER] for one in outcomes)
    by_article = sum(one.by_article for one in outcomes)
    print(f"{accepted} of {total} A/A candidates accepted by the strict gate, by the articles' {by_article}")
    print(f"({asked.runs} runs, families of {asked.family})\n")
    heads = ("kernel", "candidates", "FASTER", "by the article", "statuses", "median A/A of a run", "95 %")
    print(f"| {' | '.join([*heads, 'largest', 'candidates at rounds'])} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for outcome in outcomes:
        print(outcome.row())
    return 1 if accepted else 0


if __name__ == "__main__":
    sys.exit(main())
