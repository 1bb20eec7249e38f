"""An evolution from its baselines to its CSV: what comes first, what ends it, and that a resumed one is the same.

The engine, the session and its evaluator are stand-ins: an ACF is worth its first byte. The real ones are in
tests/cli/test_evolve.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pin_runs import artifact, make_run
from stand_in_amber import StandInAmber

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.acfs.search_space import read_search_space
from helitune.objectives.baseline_configs import Baseline
from helitune.objectives.outcomes import Compiled, Failed, Outcome
from helitune.objectives.targets import find_target
from helitune.results.compileiq_csv import FILE_NAME
from helitune.results.evolution_request import EvolutionRequest
from helitune.results.evolve_run import OTHER_PTXAS, bred_space, search
from helitune.results.evolve_verdict import evolved
from helitune.results.ledger import Ledger
from helitune.results.run_directory import RunDirectory
from helitune.results.session import BaselineCandidate
from helitune.results.trial import Trial
from helitune.search.candidate import Candidate
from helitune.search.space import Dimension, JointSpace
from helitune.search.strategies import evolve

WARM = Acf("warm", "e" * 64, Path("/pack/warm.acf"))
SPACE = JointSpace((Dimension("x", None, (0,), tuple((x,) for x in range(8))),), (NO_ACF,))
WORTH_NOTHING = 300.0


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolve, "Amber", StandInAmber)


class Evaluator:
    """A candidate's score is the first byte of its ACF, or WORTH_NOTHING without; its code is that and its config."""

    def __init__(self) -> None:
        self.fails: Callable[[Candidate, float], Failed | None] = lambda candidate, score: None
        self.stop_after = 10**9

    def normalise(self, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any] | Failed]:
        return [{"x": x} for (x,) in rows]

    def prepare(self, candidate: Candidate) -> None: ...

    def remember(self, outcome: Outcome) -> None: ...

    def evaluate(self, candidate: Candidate) -> Outcome:
        self.stop_after -= 1
        if self.stop_after < 0:
            raise KeyboardInterrupt
        path = candidate.acf.path
        score = float(path.read_bytes()[0]) if path and path.exists() else WORTH_NOTHING
        failed = self.fails(candidate, score)
        code = f"{candidate.config_json} {score}"
        return failed or Compiled(score, score, (score,), ((artifact(code),),))


OWN = {"x": 3}


class Opened:
    """A run with its ledger and a session, as one call of `evolve` has them."""

    def __init__(
        self,
        folder: Path,
        config: str = "own",
        *,
        warm: tuple[Acf, ...] = (),
        own_acf: Acf = NO_ACF,
        **evolution: Any,
    ) -> None:
        folder.mkdir(exist_ok=True)
        bin_file = folder / "ptxas.bin"
        bin_file.write_bytes(b"opaque")
        asked = EvolutionRequest(
            "auto", str(bin_file), read_search_space(bin_file).sha256, config, "a test", 3, 6
        )
        asked = replace(asked, **evolution)
        path = folder / "20261201-101500-ab12"
        self.run = RunDirectory(path) if path.exists() else make_run(folder, [])
        self.run.lock()
        self.evaluator = Evaluator()
        self.session: Any = SimpleNamespace(
            request=SimpleNamespace(seed=5, evolution=asked, strategy="random"),
            tools=SimpleNamespace(
                target=find_target("sm_90"), ptxas=Ptxas(Path("/ptxas"), "13.3.73", "ab" * 32)
            ),
            description=SimpleNamespace(baselines=[Baseline("own", OWN, (3,), "")]),
            baselines=[BaselineCandidate("own", Candidate.of(OWN, own_acf), (3, 0))],
            space=JointSpace(SPACE.dimensions, (NO_ACF, *warm)),
            evaluator=self.evaluator,
            slots_of=lambda config: (config["x"],),
        )
        self.session.space = bred_space(self.run, self.session, asked)
        self._warm = tuple(acf.sha256 for acf in warm)
        self.ledger = Ledger(
            self.run,
            self.session.space,
            self.evaluator,
            jobs=1,
            budget=200,
            time_s=None,
            on_trial=lambda trial: None,
        )

    def search(self) -> str:
        try:
            return search(self.run, self.session, self.ledger, self._warm)
        finally:
            self.ledger.close()
            self.run.close()

    @property
    def sequence(self) -> list[tuple[str, str, float | None, str]]:
        """Every trial without the bytes of its ACF: origin, config, score and the ACF's name."""
        return [(t.origin, str(t.config), t.score, t.acf_name) for t in self.ledger.trials]


def origins(opened: Opened) -> list[str]:
    return list(dict.fromkeys(trial.origin for trial in opened.ledger.trials))


def test_the_own_config_is_the_baseline_and_the_fixed_config(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    assert opened.search() == "3 generations of 6 are complete"
    assert origins(opened) == ["baseline own", "evolve"]
    assert {str(trial.config) for trial in opened.ledger.trials} == {str(OWN)}
    assert len(opened.ledger.trials) == 1 + 18 and opened.ledger.charged == 18


def test_another_config_comes_without_an_acf_after_the_own(tmp_path: Path) -> None:
    opened = Opened(tmp_path, '{"x":6}')
    opened.search()
    assert origins(opened) == ["baseline own", "baseline config", "evolve"]
    assert [trial.config["x"] for trial in opened.ledger.trials[:3]] == [3, 6, 6]


def test_an_own_config_with_an_acf_is_also_measured_without(tmp_path: Path) -> None:
    opened = Opened(tmp_path, own_acf=WARM)
    opened.search()
    assert origins(opened) == ["baseline own", "baseline config", "evolve"]
    assert [bool(trial.acf_sha256) for trial in opened.ledger.trials[:2]] == [True, False]


def test_a_warm_start_comes_first_and_beside_the_budget(tmp_path: Path) -> None:
    opened = Opened(tmp_path, warm=(WARM,))
    opened.search()
    assert origins(opened) == ["baseline own", "warm start", "evolve"]
    assert opened.ledger.charged == 18
    found = evolved(opened.ledger.trials, ())
    assert (found.tried, found.failed, found.improved) == (19, 0, True)


@pytest.mark.parametrize("killed_after", [0, 1, 8, 13])
def test_a_killed_evolution_goes_on_to_the_identical_sequence(tmp_path: Path, killed_after: int) -> None:
    def failing(candidate: Candidate, score: float) -> Failed | None:
        return Failed("compile", "no") if score % 4 == 1 else None

    whole = Opened(tmp_path / "whole")
    whole.evaluator.fails = failing
    whole.search()
    killed = Opened(tmp_path / "killed", config="own")
    killed.evaluator.fails, killed.evaluator.stop_after = failing, killed_after
    with pytest.raises(KeyboardInterrupt):
        killed.search()
    bred_before = [entry["sha256"] for entry in killed.run.run()["acfs"]]
    resumed = Opened(tmp_path / "killed")
    resumed.evaluator.fails = failing
    resumed.search()
    assert resumed.sequence == whole.sequence
    assert [entry["sha256"] for entry in resumed.run.run()["acfs"]][: len(bred_before)] == bred_before
    assert (
        len({trial.id for trial in resumed.run.trials()}) == len(resumed.run.trials()) == len(whole.sequence)
    )
    written = (resumed.run.path / FILE_NAME).read_text().splitlines()
    assert len(written) == 1 + sum(trial.origin == "evolve" for trial in resumed.ledger.trials)


def test_acfs_for_another_ptxas_end_it_after_the_first_batch(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    refusal = Failed("compile", f"ptxas exit 255: ptxas fatal : {OTHER_PTXAS} file")
    opened.evaluator.fails = lambda candidate, score: refusal if candidate.acf.sha256 else None
    with pytest.raises(MachineError, match="takes none of 6 ACFs") as raised:
        opened.search()
    assert "evolved again" in raised.value.what and "13.3" in raised.value.next_step


def test_a_warm_start_for_another_ptxas_is_named_as_that(tmp_path: Path) -> None:
    opened = Opened(tmp_path, warm=(WARM,))
    refusal = Failed("compile", f"ptxas exit 255: ptxas fatal : {OTHER_PTXAS} file")
    opened.evaluator.fails = lambda candidate, score: refusal if candidate.acf.sha256 else None
    with pytest.raises(MachineError) as raised:
        opened.search()
    assert raised.value.where == "--warm-start"


def test_acfs_that_fail_in_other_ways_are_part_of_it(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.evaluator.fails = lambda candidate, score: (
        Failed("illegal_access", "at row 1") if candidate.acf.sha256 else None
    )
    assert "completed no generation" in opened.search()
    found = evolved(opened.ledger.trials, ())
    assert found.best is None and not found.improved and found.tried == found.failed > 6


def test_a_config_that_fails_without_an_acf_is_not_evolved_for(tmp_path: Path) -> None:
    opened = Opened(tmp_path, '{"x":6}')
    opened.evaluator.fails = lambda candidate, score: (
        Failed("launch", "too much") if candidate.config["x"] == 6 else None
    )
    with pytest.raises(InputError, match="this config fails without an ACF at launch"):
        opened.search()


def test_another_search_space_in_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the search space has changed"):
        Opened(tmp_path, sha256="ab" * 32)


def test_configs_first_then_acfs_for_the_best_of_them(tmp_path: Path) -> None:
    opened = Opened(tmp_path, "", shortlist_after=4, generations=1, population=12)
    opened.search()
    evolving = [trial for trial in opened.ledger.trials if trial.origin == "evolve"]
    assert not any(trial.acf_sha256 for trial in evolving[:4])
    assert all(trial.acf_sha256 for trial in evolving[4:]) and len(evolving) > 12


def test_an_acf_is_an_improvement_over_its_own_config_only(tmp_path: Path) -> None:
    def trial(origin: str, score: float, acf: str = "") -> Trial:
        compiled = Compiled(score, score, (score,), ((artifact(f"{origin} {score}"),),))
        return Trial(1, f"{origin} {score}", origin, {}, acf, acf, compiled, 0.1, 0.1)

    own, config = trial("baseline own", 10.0), trial("baseline config", 5.0)
    assert not evolved([own, config, trial("evolve", 6.0, "a" * 64)], ()).improved
    assert evolved([own, config, trial("evolve", 4.0, "a" * 64)], ()).improved
    assert not evolved([own, trial("evolve", 10.0, "a" * 64)], ()).improved
