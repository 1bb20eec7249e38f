"""Ours against Helion's own autotuner, side by side in one run on one GPU: the same kernels, shapes, ACFs and seed.

    python benchmarks/peer.py [--kernels softmax,decode_gemv] [--device 0] [--effort quick] [--time 90s] --out peer.json

For each kernel two commands, each with caches of its own, the order changing from kernel to kernel:
    helitune tune FILE --args … --acf-pack h200-seed --time T --seed S
    helitune tune FILE --args … --acf-pack h200-seed --strategy helion --effort quick --seed S
Ratios are times over the kernel's own config's, measured in the same run as what they stand for: below 1 is faster.
Seconds are those of the searches: kernel.autotune alone, and the age of our run. Neither counts imports, nor making
inputs; ours counts its baselines. A ratio at a moment of a search is one reading of its best; finals are measured
anew. With --head-to-head the last column is the verdict: both winners, in turn in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from head_to_head import ratio_of_winners
from peer_cases import CASES, Case, bytes_moved

from helitune.results.request import TuneRequest

EXAMPLES = Path(__file__).parent.parent / "examples"
HELITUNE = [sys.executable, "-P", "-c", "from helitune.cli.main import run; run()"]
"""The command, also where the package is on PYTHONPATH without its script."""

MOST_CANDIDATES = "100000"
NEGATIVE = 1
"""The exit code of a run that found nothing better: a result like any other here."""

Fields = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A finished `helitune tune`: what --json said, run.json, the trials in the order they ended, and its wall time."""

    answer: Fields
    record: Fields
    trials: list[Fields]
    command_s: float

    def best_so_far(self) -> list[tuple[float, float]]:
        """(age in seconds, ratio) at each improvement."""
        points: list[tuple[float, float]] = []
        for trial in self.trials:
            score = trial.get("score")
            if score is not None and (not points or score < points[-1][1]):
                points.append((trial["at_s"], score))
        return points

    def final(self, trial: Fields) -> Fields:
        """`trial` as it was measured last: the one that the run ends with has been measured anew."""
        best: Fields = self.answer["best"]
        return best if best["id"] == trial["id"] else trial


@dataclass(frozen=True)
class Row:
    """One kernel. Ratios are to the own config; None where there is no such number."""

    kernel: str
    args: str
    helion_first: bool
    own_ms: float | None = None
    helion_ratio: float | None = None
    helion_s: float | None = None
    helion_configs: int | None = None
    helion_share: float | None = None
    ours_at_helion_s: float | None = None
    ours_ratio: float | None = None
    ours_reached_s: float | None = None
    ours_s: float | None = None
    ours_trials: int | None = None
    ours_over_helion: float | None = None
    command_s: dict[str, float] = field(default_factory=dict)
    error: str = ""


class Failed(Exception):
    """A command that ended without a run."""


def main() -> None:
    """Run the cases, print the table as it grows, write --out."""
    asked = _arguments()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="helitune-peer-bench-") as folder:
        scratch = asked.keep or Path(folder)
        print(HEADING, flush=True)
        for number, case in enumerate(asked.cases):
            rows.append(_compared(case, asked, scratch, helion_first=number % 2 == 0))
            print(line(rows[-1]), flush=True)
            if asked.out:
                record = {
                    "asked": _shown(asked),
                    "date": time.strftime("%Y-%m-%d"),
                    "rows": list(map(asdict, rows)),
                }
                asked.out.write_text(json.dumps(record, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", default="", help=f"of {', '.join(case.name for case in CASES)}")
    parser.add_argument("--device", help="as helitune tune takes it")
    parser.add_argument("--effort", default="quick", help="Helion's level")
    parser.add_argument(
        "--time", default="90s", help="of our search; longer than Helion's, to compare all of it"
    )
    parser.add_argument("--acf-pack", default="h200-seed", help="for both; '' for none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--head-to-head",
        action="store_true",
        help="time both winners beside each other too: half a minute each",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the runs there")
    asked = parser.parse_args()
    names = asked.kernels.split(",") if asked.kernels else [case.name for case in CASES]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        known = ", ".join(case.name for case in CASES)
        parser.error(f"no kernel {', '.join(sorted(unknown))}; choose from {known}")
    if asked.keep and asked.keep.exists():
        parser.error(f"{asked.keep} exists: name a new folder")
    asked.keep = asked.keep.absolute() if asked.keep else None
    asked.cases = [case for case in CASES if case.name in names]
    return asked


def _shown(asked: argparse.Namespace) -> Fields:
    return {name: str(value) for name, value in vars(asked).items() if name != "cases"}


def _compared(case: Case, asked: argparse.Namespace, scratch: Path, *, helion_first: bool) -> Row:
    options = {"ours": ("--time", asked.time, "--budget", MOST_CANDIDATES)}
    options["helion"] = ("--strategy", "helion", "--effort", asked.effort)
    runs: dict[str, Run] = {}
    try:
        for who in ("helion", "ours") if helion_first else ("ours", "helion"):
            runs[who] = _run(
                command(case, asked, options[who]), scratch / case.name / who, scratch / "limits"
            )
        ratio = head_to_head(runs["ours"], runs["helion"], asked.device) if asked.head_to_head else None
        return row(case, runs["ours"], runs["helion"], ratio, scratch / "limits", helion_first=helion_first)
    except Failed as error:
        return Row(case.name, case.args, helion_first, error=str(error))


def command(case: Case, asked: argparse.Namespace, options: Sequence[str]) -> list[str]:
    """The command line of one search."""
    chosen = [*HELITUNE, "tune", str(EXAMPLES / f"{case.example}.py"), "--args", case.args, *options]
    chosen += ["--seed", str(asked.seed), "--json"]
    chosen += ["--acf-pack", asked.acf_pack] if asked.acf_pack else []
    return chosen + (["--device", asked.device] if asked.device else [])


def _run(command_line: Sequence[str], folder: Path, limits: Path) -> Run:
    """The run of a command in a folder and with a cache of its own; the GPU's limits are measured once for all."""
    cache = folder / "cache"
    cache.mkdir(parents=True)
    if limits.is_dir():
        shutil.copytree(limits, cache / "limits")
    started = time.perf_counter()
    done = subprocess.run(
        command_line,
        cwd=folder,
        env=os.environ | {"HELITUNE_CACHE_DIR": str(cache)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    try:
        answer = json.loads(done.stdout) if done.returncode in (0, NEGATIVE) else None
    except ValueError:
        answer = None
    if answer is None:
        said = done.stderr.strip().splitlines()
        raise Failed(f"exit {done.returncode}: {said[-1] if said else 'no message'}")
    if (cache / "limits").is_dir():
        shutil.copytree(cache / "limits", limits, dirs_exist_ok=True)
    return read_run(folder, answer, seconds)


def read_run(folder: Path, answer: Fields, seconds: float) -> Run:
    """The run that `tune --json` answered for in `folder`; Failed where nothing ran through."""
    if not answer.get("best"):
        raise Failed(f"no candidate came through: {answer['error']['what']}")
    path = folder / ".helitune" / "runs" / str(answer["run"])
    trials = [json.loads(text) for text in (path / "trials.jsonl").read_text().splitlines()]
    return Run(answer, json.loads((path / "run.json").read_text()), trials, seconds)


def row(case: Case, ours: Run, theirs: Run, ratio: float | None, limits: Path, *, helion_first: bool) -> Row:
    """The comparison of two runs. Failed where Helion's winner did not come through our measurement."""
    winner = winner_of_helion(theirs)
    if winner is None or winner.get("score") is None:
        why = "is missing" if winner is None else f"failed: {winner['stage']}: {winner['message']}"
        raise Failed(f"Helion's winner {why}")
    winner = theirs.final(winner)
    peer = theirs.record.get("peer", {})
    helion_s = peer.get("seconds", winner["elapsed_s"])
    points = ours.best_so_far()
    before = [score for at_s, score in points if at_s <= helion_s]
    reached = [at_s for at_s, score in points if score <= winner["score"]]
    return Row(
        case.name,
        case.args,
        helion_first,
        own_ms=milliseconds(ours.answer["own"]),
        helion_ratio=winner["score"],
        helion_s=helion_s,
        helion_configs=peer.get("configs_tried"),
        helion_share=share_of_limit(case, milliseconds(winner), limits),
        ours_at_helion_s=before[-1] if before else None,
        ours_ratio=ours.answer["best"]["score"],
        ours_reached_s=reached[0] if reached else None,
        ours_s=max(trial["at_s"] for trial in ours.trials),
        ours_trials=len(ours.trials),
        ours_over_helion=ratio,
        command_s={"ours": ours.command_s, "helion": theirs.command_s},
    )


def winner_of_helion(run: Run) -> Fields | None:
    """The trial of Helion's winner; where that is a baseline, it has that one's name."""
    named = [trial for trial in run.trials if trial["origin"] == "helion"]
    peer = run.record.get("peer", {})
    same = [
        trial
        for trial in run.trials
        if trial["config"] == peer.get("config")
        and (trial["acf"] or {"sha256": ""})["sha256"] == peer.get("acf_sha256")
    ]
    return next(iter(named + same), None)


def milliseconds(trial: Fields | None) -> float | None:
    """The time of a measured trial on its one shape."""
    shapes = (trial or {}).get("shapes")
    return shapes[0]["ms"] if shapes else None


def share_of_limit(case: Case, ms: float | None, limits: Path) -> float | None:
    """The share of this GPU's limit that `ms` reaches: each tensor moved once, the products at their GEMM's rate."""
    from helitune.objectives.flop_count import FlopCount
    from helitune.objectives.limits_record import MachineLimits
    from helitune.results.limit_share import limit_share

    found = sorted(limits.glob("*.json"))
    if ms is None or not found:
        return None
    machine = MachineLimits.from_json(json.loads(found[0].read_text())["limits"])
    return limit_share(ms, bytes_moved(case), FlopCount(case.flops), machine).share


def head_to_head(ours: Run, theirs: Run, device: str | None) -> float | None:
    """The time of our winner over that of Helion's, both built anew and measured in turn in one process.

    None where one of them does not run there. Their ratios to the own config come from two runs, and do not stand
    side by side as these do.
    """
    request = TuneRequest.from_json(ours.record["request"])
    return ratio_of_winners(
        replace(request, device=device or "auto"), ours.answer["best"], winner_of_helion(theirs)
    )


HEADING = (
    "| kernel | own ms | Helion: ratio | s | of the limit | ours: at that time | at the end | s to Helion's |"
    " ours / Helion |\n|---|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """The row of the Markdown table."""
    name = f"{row.kernel} `{row.args}`" + (" (Helion first)" if row.helion_first else "")
    if row.error:
        return f"| {name} | {row.error} |" + " |" * 7
    reached = "never" if row.ours_reached_s is None else f"{row.ours_reached_s:.0f}"
    at_that_time = _number(row.ours_at_helion_s)
    if row.ours_s is not None and row.helion_s is not None and row.ours_s < row.helion_s:
        at_that_time += f" (ended at {row.ours_s:.0f} s)"
    share = "–" if row.helion_share is None else f"{row.helion_share:.0%}"
    cells = [_number(row.own_ms, 4), _number(row.helion_ratio), _number(row.helion_s, 0), share, at_that_time]
    cells += [_number(row.ours_ratio), reached, _number(row.ours_over_helion)]
    return f"| {name} | " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
