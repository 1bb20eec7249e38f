"""A search that breeds ACFs: for one config that stays as it is, or with the configs of the kernel.

The config (or the kernel's own) without an ACF comes first, then the ACFs of the warm start, then what CompileIQ
proposes. All of them are trials of one run, and a resumed run replays them as any other does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from helitune.acfs.acf import NO_ACF
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import toolkit
from helitune.objectives.outcomes import Failed
from helitune.search.candidate import Candidate
from helitune.search.evolution import BredSpace, configs_dimension
from helitune.search.space import Genome
from helitune.search.strategies import evolve
from helitune.search.strategies.contract import Evaluate, SearchEnded
from helitune.search.strategies.registry import find_strategy

from .bred_acfs import BredAcfs
from .compileiq_csv import write_csv
from .evolution_request import OWN_CONFIG, EvolutionRequest
from .ledger import Ledger
from .run_directory import RunDirectory
from .session import BaselineCandidate, Session
from .trial import OWN, Trial

ORIGIN = "evolve"
WARM_ORIGIN = "warm start"
FIXED = "config"
"""The name of the baseline that is the fixed config without an ACF, where it is not the kernel's own as it is."""

OTHER_PTXAS = "Invalid compiler controls"
"""What ptxas says to an ACF that was made for another version."""


def bred_space(run: RunDirectory, session: Session, evolution: EvolutionRequest) -> BredSpace:
    """The session's space with room for what is bred: of one config, or of all that the kernel has.

    Raises InputError where the search space file is not the one of the request, or Helion has no such config.
    """
    evolution.search_space()
    keep = BredAcfs(run, arch=session.tools.target.arch, toolkit=toolkit(session.tools.ptxas.version))
    if evolution.whole_space:
        return BredSpace(session.space.dimensions, session.space.acfs, keep)
    own = session.description.baselines[0]
    slots = own.slots if evolution.config == OWN_CONFIG else session.slots_of(json.loads(evolution.config))
    return BredSpace((configs_dimension([slots]),), session.space.acfs, keep)


def search(run: RunDirectory, session: Session, ledger: Ledger, warm: Sequence[str]) -> str:
    """Why the search ended; `warm` names the ACFs that are tried first. The run's CSV is written on every way out."""
    evolution = session.request.evolution
    assert evolution is not None
    known = _begin(session, ledger, evolution, warm)
    evaluate = _watched(ledger, session)
    try:
        _strategy(evolution, session)(session.space, evaluate, seed=session.request.seed, known=known)
    except SearchEnded as ended:
        return str(ended)
    finally:
        write_csv(run, ledger.trials, with_config=evolution.whole_space)
    return _complete(ledger.trials, evolution)


def _complete(trials: Sequence[Trial], evolution: EvolutionRequest) -> str:
    bred = [trial for trial in trials if trial.origin == ORIGIN]
    valid = sum(trial.score is not None for trial in bred)
    if valid >= evolution.generations * evolution.population:
        return f"{evolution.generations} generations of {evolution.population} are complete"
    return f"the last {evolve.MOST_REFILLS} batches of replacements completed no generation"


def _begin(
    session: Session, ledger: Ledger, evolution: EvolutionRequest, warm: Sequence[str]
) -> dict[Genome, float]:
    """The baselines and the warm start, measured; the scores of those that came through, by genome."""
    baselines = session.baselines if evolution.whole_space else _baselines(session, evolution)
    trials = ledger.baselines([(baseline.name, baseline.candidate) for baseline in baselines])
    start = baselines[0 if evolution.whole_space else -1]
    if not evolution.whole_space:
        _require_sound(trials[-1], session)
    known = {
        baseline.genome: trial.score
        for baseline, trial in zip(baselines, trials, strict=True)
        if baseline.genome is not None and trial.score is not None
    }
    return known | try_first(session, ledger, start, warm)


def try_first(
    session: Session, ledger: Ledger, start: BaselineCandidate, warm: Sequence[str]
) -> dict[Genome, float]:
    """The scores, by genome, of the ACFs with these sha256 on the config of `start`, as trials outside the budget.

    Raises MachineError where ptxas takes none of them.
    """
    acfs = {acf.sha256: (index, acf) for index, acf in enumerate(session.space.acfs)}
    config = start.candidate.config
    tried = ledger.outside([(WARM_ORIGIN, Candidate.of(config, acfs[sha256][1])) for sha256 in warm])
    _require_fitting(tried, session, "--warm-start")
    if start.genome is None:
        return {}
    return {
        session.space.with_acf(start.genome, acfs[trial.acf_sha256][0]): trial.score
        for trial in tried
        if trial.score is not None
    }


def _baselines(session: Session, evolution: EvolutionRequest) -> list[BaselineCandidate]:
    """The kernel's own config, and last the fixed one without an ACF, which is where it may be the own."""
    own = session.baselines[0]
    (config,) = session.evaluator.normalise([session.space.decode(_FIXED_GENOME)[0]])
    if isinstance(config, Failed):
        raise InputError(f"this config is invalid: {config.message}", where="--config")
    fixed = Candidate.of(config, NO_ACF)
    if fixed.id == own.candidate.id:
        return [BaselineCandidate(own.name, fixed, _FIXED_GENOME)]
    return [BaselineCandidate(own.name, own.candidate, None), BaselineCandidate(FIXED, fixed, _FIXED_GENOME)]


_FIXED_GENOME: Genome = (0, 0)


def _strategy(evolution: EvolutionRequest, session: Session) -> partial[None]:
    breeding = evolve.Breeding(Path(evolution.path), evolution.generations, evolution.population)
    if not evolution.whole_space:
        return partial(evolve.for_configs, shortlist=[_FIXED_GENOME], breeding=breeding)
    if evolution.shortlist_after:
        return partial(
            evolve.shortlisted,
            explore=find_strategy(session.request.strategy),
            configs=evolution.shortlist_after,
            breeding=breeding,
        )
    return partial(evolve.jointly, breeding=breeding)


def _watched(ledger: Ledger, session: Session) -> Evaluate:
    """`ledger`'s evaluate, which gives up after a first batch that ptxas refuses as made for another version."""
    evaluate = ledger.proposals(ORIGIN)
    first = True

    def watched(batch: Sequence[Genome], /, upcoming: Sequence[Genome] = ()) -> list[float | None]:
        nonlocal first
        scores = evaluate(batch, upcoming)
        if first:
            bred = [t for t in ledger.trials if t.origin == ORIGIN and t.acf_sha256]
            _require_fitting(bred, session, "--search-space")
            first = not bred
        return scores

    return watched


def _require_fitting(trials: Sequence[Trial], session: Session, option: str) -> None:
    """Raise MachineError where ptxas takes none of the ACFs of `trials`, since they are for another version."""
    refused = [t for t in trials if isinstance(t.outcome, Failed) and OTHER_PTXAS in t.outcome.message]
    if trials and len(refused) == len(trials):
        what = "this search space makes" if option == "--search-space" else "these are"
        raise MachineError(
            f"ptxas {session.tools.ptxas.version} takes none of {len(trials)} ACFs: {what} ACFs for another version, "
            "and ACFs must be evolved again for each",
            where=option,
            next_step=f"name the search space of ptxas {toolkit(session.tools.ptxas.version)}, or with --ptxas "
            "the ptxas that this one is for",
        )


def _require_sound(fixed: Trial, session: Session) -> None:
    if isinstance(fixed.outcome, Failed):
        which = "the kernel's own config" if fixed.origin == OWN else "this config"
        raise InputError(
            f"{which} fails without an ACF at {fixed.outcome.stage}: {fixed.outcome.message}",
            where="--config",
            next_step="give a config that compiles and agrees with the reference",
        )
