"""Does CompileIQ's evolution find better ACFs than drawing them at random, at equal budget? Real ptxas, no GPU.

    CIQ_SEARCH_SPACES_DIR=FOLDER python benchmarks/evolve.py [KERNEL_FILE] [--objective registers]
        [--budget 120] [--seeds 10] [--settings random population=15 population=30,survivor_count=6 ...]

All ACFs are for the kernel's own config, or that of --config. A setting is a population with amber's own options
(survivor_count, mutation_probability, seeded_range_probability) and `first`, the size of the first generation;
"random" is one generation of the whole budget. With --record FILE every score is appended there, and what is there
already is not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.search_space import AUTO, find_search_space
from helitune.acfs.store import AcfStore
from helitune.results.choose_device import settled
from helitune.results.evolve_config import choose_config
from helitune.results.request import TuneRequest
from helitune.results.session import Session, find_tools
from helitune.search.candidate import Candidate
from helitune.search.evolution import BredSpace, configs_dimension
from helitune.search.space import Genome
from helitune.search.strategies import evolve
from helitune.search.strategies.contract import SearchEnded

RANDOM = "random"
SETTINGS = (RANDOM, "population=15")
CHECKPOINTS = (15, 30, 60, 90, 120, 240, 480)
Scores = list[float | None]


@dataclass
class Bench:
    """One config of a session and how its ACFs score; `seconds` is what ptxas and reading took in all."""

    session: Session
    config_json: str
    folder: Path
    jobs: int
    seconds: float = 0.0
    scores: Scores = field(default_factory=list)

    def run(self, setting: str, seed: int, budget: int, controls: Path) -> Scores:
        """The scores of the first `budget` candidates, in the order of proposal."""
        self.scores = []
        space = BredSpace((configs_dimension([(0,)]),), (NO_ACF,), self._keep)

        def evaluate(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
            answers = self._scored([space.decode(genome)[1] for genome in batch])
            self.scores += answers
            if len(self.scores) >= budget:
                raise SearchEnded("the budget is spent")
            return answers

        try:
            evolve.for_configs(
                space,
                evaluate,
                seed=seed,
                known={},
                shortlist=[(0, 0)],
                breeding=_breeding(setting, controls, budget),
            )
        except SearchEnded:
            pass
        return self.scores[:budget]

    def score(self, acf: Acf) -> float | None:
        """The objective of the config with an ACF, lower is better; None where it fails."""
        outcome = self.session.compiled.evaluate(Candidate(self.config_json, acf))
        return getattr(outcome, "score", None)

    def _scored(self, acfs: Sequence[Acf]) -> list[float | None]:
        started = time.perf_counter()
        with ThreadPoolExecutor(self.jobs) as threads:
            answers = list(threads.map(self.score, acfs))
        self.seconds += time.perf_counter() - started
        return answers

    def _keep(self, contents: Sequence[bytes], /, *, generation: int) -> list[Acf]:
        store = AcfStore(self.folder)
        return [store.add_content(content, name=f"g{generation}") for content in contents]


def _breeding(setting: str, controls: Path, budget: int) -> evolve.Breeding:
    if setting == RANDOM:
        return evolve.Breeding(controls, 1, budget)
    options = {key: float(value) for key, _, value in (part.partition("=") for part in setting.split(","))}
    population, first = int(options.pop("population", 15)), int(options.pop("first", 0))
    whole = {key: int(value) if key == "survivor_count" else value for key, value in options.items()}
    return evolve.Breeding(controls, 10**6, population, first, whole)


def report(title: str, plain: float | None, runs: dict[str, list[Scores]], rival: str = RANDOM) -> str:
    """A Markdown table: the best after so many candidates, median and quartiles over seeds, and who beats `rival`."""
    budget = max(len(scores) for one in runs.values() for scores in one)
    checkpoints = [*(c for c in CHECKPOINTS if c < budget), budget]
    lines = [
        f"### {title}",
        "",
        f"without an ACF {plain:g}; best after so many candidates, median (quartiles)",
        "",
    ]
    lines.append(
        "| setting |"
        + "".join(f" {c} |" for c in checkpoints)
        + f" mean | best | better/equal/worse than {rival} |"
    )
    lines.append("|---|" + "---|" * (len(checkpoints) + 3))
    finals = {name: [best_after(scores, budget) for scores in one] for name, one in runs.items()}
    for name, one in runs.items():
        cells = "".join(f" {_cell([best_after(scores, c) for scores in one])} |" for c in checkpoints)
        lines.append(
            f"| {name} |{cells} {statistics.fmean(finals[name]):.5g} | {min(finals[name]):g} | "
            f"{_against(finals[name], finals.get(rival, []))} |"
        )
    return "\n".join([*lines, ""])


def best_after(scores: Scores, count: int) -> float:
    """The best of the first `count` scores; infinite where none came through."""
    through = (math.inf if score is None else score for score in scores[:count])
    return list(accumulate(through, min))[-1]


def _cell(values: Sequence[float]) -> str:
    low, middle, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    )
    return f"{middle:g} ({low:g}-{high:g})"


def _against(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Over all pairs of a seed of ours with one of theirs: the shares that are better, equal and worse."""
    pairs = [(a, b) for a in ours for b in theirs]
    if not pairs or ours is theirs:
        return "-"
    better, equal = sum(a < b for a, b in pairs), sum(a == b for a, b in pairs)
    return f"{better / len(pairs):.0%} / {equal / len(pairs):.0%} / {(len(pairs) - better - equal) / len(pairs):.0%}"


def tune_request(asked: argparse.Namespace) -> TuneRequest:
    """The request for a session on the kernel file of the command line."""
    return TuneRequest(
        file=str(asked.kernel.absolute()),
        kernel=None,
        reference=None,
        args=tuple(asked.args),
        target=asked.target,
        packs=(),
        force=False,
        settings=(),
        strategy=RANDOM,
        objective=asked.objective,
        budget=asked.budget,
        time_s=None,
        seed=0,
        jobs=asked.jobs,
        compile_timeout_s=0.0,
        memory_bytes=8 << 30,
        ptxas=None,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parents[1] / "examples"
    parser.add_argument("kernel", nargs="?", type=Path, default=here / "softmax.py")
    parser.add_argument("--args", nargs="*", default=[], help="the calls, as for tune")
    parser.add_argument(
        "--config", default="own", help="own, or a JSON file: the keys that differ from the own config"
    )
    parser.add_argument("--objective", default="registers")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--search-space", default=AUTO)
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--record", type=Path, help="a file that scores are appended to and read from")
    return parser.parse_args()


class Record:
    """Scores of earlier calls by what decides them, in a file of one JSON line a run; in memory without a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known = {json.dumps(entry["key"]): entry["scores"] for entry in map(json.loads, lines)}

    def get(self, key: list[object]) -> Scores | None:
        """The scores under `key`, None where there are none."""
        return self._known.get(json.dumps(key))

    def put(self, key: list[object], scores: Scores) -> None:
        """Keep the scores under `key`."""
        self._known[json.dumps(key)] = scores
        if self._path is not None:
            with self._path.open("a") as handle:
                handle.write(json.dumps({"key": key, "scores": scores}) + "\n")


def _config(session: Session, asked: argparse.Namespace) -> str:
    own = session.baselines[0].candidate
    if asked.config == "own":
        return own.config_json
    changes = json.loads(choose_config(asked.config, Path.cwd(), asked.kernel, None).config)
    (config,) = session.compiled.normalise([session.slots_of({**own.config, **changes})])
    assert isinstance(config, dict), config
    return Candidate.of(config).config_json


def _runs(bench: Bench, asked: argparse.Namespace, controls: Path) -> Iterator[tuple[str, int, Scores]]:
    record = Record(asked.record)
    for seed in range(asked.seeds):
        for setting in asked.settings:
            key = [asked.kernel.name, bench.config_json, asked.objective, setting, seed, asked.budget]
            scores = record.get(key)
            if scores is None:
                scores = bench.run(setting, seed, asked.budget, controls)
                record.put(key, scores)
            yield setting, seed, scores


def main() -> None:
    """Print one table."""
    asked = _arguments()
    started = time.perf_counter()
    request = tune_request(asked)
    tools = find_tools(request)
    request = settled(request, tools.target, tools.device)
    controls = find_search_space(asked.search_space, tools.ptxas).path
    with tempfile.TemporaryDirectory(prefix="helitune-evolve-") as folder:
        scratch = Path(folder)
        with Session(request, tools, scratch / "workers.log", compiled=scratch / "compiled") as session:
            bench = Bench(session, _config(session, asked), scratch / "acfs", asked.jobs)
            plain = bench.score(NO_ACF)
            runs: dict[str, list[Scores]] = {setting: [] for setting in asked.settings}
            for setting, seed, scores in _runs(bench, asked, controls):
                runs[setting].append(scores)
                print(f"seed {seed}, {setting}: {best_after(scores, len(scores)):g}", flush=True)
    title = f"{asked.kernel.stem}, {asked.objective}, {asked.budget} candidates, {asked.seeds} seeds"
    print("\n" + report(title, plain, runs))
    print(f"{time.perf_counter() - started:.0f} s, of which candidates {bench.seconds:.0f} s")


if __name__ == "__main__":
    main()
