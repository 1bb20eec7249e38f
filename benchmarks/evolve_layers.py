"""Configs and evolved ACFs in one search, or ACFs for the best few configs? Real Triton and ptxas, no GPU.

    CIQ_SEARCH_SPACES_DIR=FOLDER python benchmarks/evolve_layers.py [KERNEL_FILE] [--objective issue_slots]
        [--budget 120] [--seeds 3] [--variants configs jointly shortlist=60 ...]

"configs" searches configs alone (--strategy), "jointly" is one CompileIQ search over all axes and the controls, and
"shortlist=N" spends N candidates on configs and the rest on ACFs for the best of them. Budgets are charged as a run
charges them. With --record FILE every score is appended there, and what is there already is not computed again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evolve import Record, Scores, best_after, report, tune_request

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.search_space import AUTO, find_search_space
from helitune.acfs.store import AcfStore
from helitune.objectives.outcomes import Failed
from helitune.results.choose_device import settled
from helitune.results.session import Session, find_tools
from helitune.search.candidate import Candidate
from helitune.search.evolution import BredSpace
from helitune.search.space import Genome
from helitune.search.strategies import evolve
from helitune.search.strategies.contract import SearchEnded
from helitune.search.strategies.registry import STRATEGIES, find_strategy

CONFIGS, JOINTLY, SHORTLIST = "configs", "jointly", "shortlist="
VARIANTS = (CONFIGS, JOINTLY, "shortlist=60")


class Search:
    """One search on a session: `scores` are those of the candidates that were charged, in their order."""

    def __init__(self, session: Session, folder: Path, jobs: int, budget: int) -> None:
        self._session, self._folder, self._jobs, self._budget = session, folder, jobs, budget
        self.space = BredSpace(session.space.dimensions, (NO_ACF,), self._keep)
        self.scores: Scores = []
        self._known: dict[str, float | None] = {}

    def run(self, variant: str, strategy: str, seed: int, controls: Path) -> Scores:
        """The scores of the first candidates, as many as the budget allows."""
        known = self._baselines()
        breeding = evolve.Breeding(controls, 10**6, 15)
        explore = find_strategy(strategy)
        try:
            if variant == CONFIGS:
                explore(self.space, self, seed=seed, known=known)
            elif variant == JOINTLY:
                evolve.jointly(self.space, self, seed=seed, known=known, breeding=breeding)
            else:
                first = int(variant.removeprefix(SHORTLIST))
                evolve.shortlisted(
                    self.space,
                    self,
                    seed=seed,
                    known=known,
                    explore=explore,
                    configs=first,
                    breeding=breeding,
                )
        except SearchEnded:
            pass
        return self.scores

    def __call__(self, batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        """As the ledger's: what is known costs nothing, nor does an invalid config."""
        if len(self.scores) >= self._budget:
            raise SearchEnded("the budget is spent")
        decoded = [self.space.decode(genome) for genome in batch]
        configs = self._session.compiled.normalise([slots for slots, _ in decoded])
        candidates = [
            None if isinstance(config, Failed) else Candidate.of(config, acf)
            for config, (_, acf) in zip(configs, decoded, strict=True)
        ]
        new = list({c.id: c for c in candidates if c is not None and c.id not in self._known}.values())
        left = self._budget - len(self.scores)
        with ThreadPoolExecutor(self._jobs) as threads:
            for candidate, score in zip(new[:left], threads.map(self._score, new[:left]), strict=True):
                self._known[candidate.id] = score
                self.scores.append(score)
        if len(new) > left:
            raise SearchEnded("the budget is spent")
        return [None if c is None else self._known[c.id] for c in candidates]

    def _baselines(self) -> dict[Genome, float]:
        found: dict[Genome, float] = {}
        for baseline in self._session.baselines:
            score = self._score(baseline.candidate)
            self._known[baseline.candidate.id] = score
            if baseline.genome is not None and score is not None:
                found[baseline.genome] = score
        return found

    def _score(self, candidate: Candidate) -> float | None:
        return getattr(self._session.compiled.evaluate(candidate), "score", None)

    def _keep(self, contents: Sequence[bytes], /, *, generation: int) -> list[Acf]:
        store = AcfStore(self._folder)
        return [store.add_content(content, name=f"g{generation}") for content in contents]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parents[1] / "examples"
    parser.add_argument("kernel", nargs="?", type=Path, default=here / "cross_entropy.py")
    parser.add_argument("--args", nargs="*", default=[], help="the calls, as for tune")
    parser.add_argument("--objective", default="issue_slots")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--search-space", default=AUTO)
    parser.add_argument("--strategy", default="compileiq", choices=list(STRATEGIES), help="of the configs")
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--record", type=Path, help="a file that scores are appended to and read from")
    return parser.parse_args()


def main() -> None:
    """Print one table."""
    asked = _arguments()
    started = time.perf_counter()
    request = tune_request(asked)
    tools = find_tools(request)
    request = settled(request, tools.target, tools.device)
    controls = find_search_space(asked.search_space, tools.ptxas).path
    record, runs = Record(asked.record), {variant: list[Scores]() for variant in asked.variants}
    with tempfile.TemporaryDirectory(prefix="helitune-layers-") as folder:
        scratch = Path(folder)
        with Session(request, tools, scratch / "workers.log", compiled=scratch / "compiled") as session:
            for seed in range(asked.seeds):
                for variant in asked.variants:
                    key = [asked.kernel.name, asked.objective, asked.strategy, variant, seed, asked.budget]
                    scores = record.get(key)
                    if scores is None:
                        search = Search(session, scratch / "acfs", asked.jobs, asked.budget)
                        scores = search.run(variant, asked.strategy, seed, controls)
                        record.put(key, scores)
                    runs[variant].append(scores)
                    print(f"seed {seed}, {variant}: {best_after(scores, len(scores)):g}", flush=True)
            own = getattr(session.compiled.evaluate(session.baselines[0].candidate), "score", None)
    title = f"{asked.kernel.stem}, {asked.objective}, {asked.budget} candidates, {asked.seeds} seeds"
    print("\n" + report(title, own, runs, CONFIGS))
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
