"""What stands around a search on a GPU: the own config first, the finalists last.

The session, its evaluator and its GPU process are stand-ins with answers that are known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from measured_trials import measured, own, times

from helitune.acfs.acf import NO_ACF
from helitune.acfs.errors import MachineError, NegativeVerdict, UserError
from helitune.objectives.build import Build, ShapeBuild
from helitune.objectives.limits_record import MachineLimits
from helitune.objectives.outcomes import Failed
from helitune.objectives.times import OwnTimes, Race, Tried
from helitune.results.finals import Final
from helitune.results.measured_run import FINAL_RACE, SOAK_REPEATS, begin, measure_finalists
from helitune.results.trial import Trial
from helitune.search.candidate import Candidate
from helitune.search.workload import ScalarArg

LIMITS = MachineLimits(4e12, 4.4e12, 4e12, {"f16": 790e12})
SOUND = Tried((times(0.9),), 1e-5)


class Gpu:
    """Soaks and times builds, each named by its trial's number; those not named in `soaked` are sound."""

    def __init__(self, soaked: Mapping[int, str], tried: Mapping[int, Tried]) -> None:
        self._soaked = soaked
        self._tried = tried
        self.soaks: list[list[int]] = []
        self.races: list[tuple[int, Race]] = []
        self.asked: list[str] = []

    def soak(self, builds: Sequence[Build], repeats: int) -> list[Tried]:
        assert repeats == SOAK_REPEATS
        soaked = [int(build[0].host_name) for build in builds]
        self.soaks.append(soaked)
        stages = (self._soaked.get(number, "") for number in soaked)
        return [Tried(stage=stage, message="repeat 21" if stage else "") for stage in stages]

    def try_build(self, build: Build, race: Race) -> Tried:
        number = int(build[0].host_name)
        self.races.append((number, race))
        return self._tried.get(number, SOUND)

    def ask(self, method: str) -> MachineLimits:
        self.asked.append(method)
        return LIMITS


class Evaluator:
    """Knows builds, and what the own config came to."""

    def __init__(self, own: OwnTimes | Failed) -> None:
        self._own = own
        self.floors: list[float | None] | None = None

    def build(self, candidate: Candidate) -> Build:
        return (ShapeBuild("", str(candidate.config["block_sizes"][0]), ()),)

    def use_own(self, candidate: Candidate) -> OwnTimes | Failed:
        return self._own

    def refuse_below(self, floors: list[float | None]) -> None:
        self.floors = floors


class Bench:
    """A session as far as measured_run looks at it, with `plain` saying what plain Helion compiles of a trial."""

    def __init__(
        self,
        *,
        soaked: Mapping[int, str] | None = None,
        tried: Mapping[int, Tried] | None = None,
        plain: Mapping[int, str | Exception] | None = None,
        own: OwnTimes | Failed | None = None,
        bytes_moved: int = 1_000_000,
    ) -> None:
        self.gpu = Gpu(soaked or {}, tried or {})
        self.measured = Evaluator(own or OwnTimes("", (0.1,), (True,), (0,), 1e-5))
        self.started = False
        self.request = SimpleNamespace(file="kernel.py")
        self.tools = SimpleNamespace(device=SimpleNamespace(name="NVIDIA H200", uuid="GPU-1", driver="580"))
        record = SimpleNamespace(
            kernel="kernel", reference="file:kernel_reference", shapes=((ScalarArg(1),),)
        )
        self.description = SimpleNamespace(record=record)
        self.baselines = [SimpleNamespace(candidate=Candidate.of({"block_sizes": [1]}, NO_ACF))]
        self._plain = plain or {}
        self._bytes_moved = bytes_moved
        self._codes: dict[int, tuple[str, ...]] = {}
        self.told: list[str] = []

    def finals(self, *trials: Trial) -> dict[int, Final]:
        self._codes = {trial.number: trial.compiled.code for trial in trials if trial.compiled}
        found = measure_finalists(self, [own(), *trials], self.told.append)  # type: ignore[arg-type]
        return {int(final.trial_id, 16): final for final in found}

    def candidate(self, trial: Trial) -> Candidate:
        return Candidate.of(trial.config, NO_ACF)

    def compile_plainly(self, candidate: Candidate, shape: int) -> tuple[str, ...]:
        number = candidate.config["block_sizes"][0]
        plain = self._plain.get(number)
        if isinstance(plain, Exception):
            raise plain
        return (plain,) if plain else self._codes[number]

    def start_workers(self) -> None:
        self.started = True

    def bytes_moved(self, mutated_bytes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._bytes_moved + mutated for mutated in mutated_bytes)


class TestFinalists:
    def test_each_is_soaked_and_measured_anew_in_the_search_s_order(self) -> None:
        bench = Bench(tried={3: Tried((times(0.85),), 2e-5)})
        finals = bench.finals(measured(2, 0.80), measured(3, 0.79))
        assert list(finals) == [3, 2]
        assert bench.gpu.soaks == [[3, 2]] and bench.gpu.races == [(3, FINAL_RACE), (2, FINAL_RACE)]
        assert finals[3] == Final(f"{3:016x}", SOAK_REPEATS, (times(0.85),), 2e-5)
        (told,) = bench.told
        assert told.startswith("2 finalist(s)") and "100 times" in told

    @pytest.mark.parametrize("stage", ["flaky_output", "illegal_access", "worker_died", "hang"])
    def test_what_fails_its_soak_is_not_timed(self, stage: str) -> None:
        bench = Bench(soaked={2: stage})
        finals = bench.finals(measured(2, 0.80), measured(3, 0.81))
        assert finals[2] == Final(f"{2:016x}", SOAK_REPEATS, stage=stage, message="repeat 21")
        assert bench.gpu.races == [(3, FINAL_RACE)] and finals[3].shapes == SOUND.shapes

    def test_what_fails_at_last_keeps_its_stage(self) -> None:
        bench = Bench(tried={2: Tried(stage="wrong_output", message="values 1")})
        final = bench.finals(measured(2, 0.8))[2]
        assert (final.stage, final.message, final.shapes) == ("wrong_output", "values 1", ())

    def test_other_code_than_was_measured_is_drift_and_is_not_run(self) -> None:
        crash = RuntimeError("no such config")
        bench = Bench(plain={2: "other:1x1", 3: crash})
        finals = bench.finals(measured(2, 0.80), measured(3, 0.81), measured(4, 0.82))
        assert [finals[number].stage for number in (2, 3, 4)] == ["drift", "drift", ""]
        assert "other code than was measured" in finals[2].message
        assert "does not compile it: no such config" in finals[3].message
        assert (finals[2].soak_repeats, bench.gpu.soaks) == (0, [[4]])

    def test_where_all_drift_the_gpu_is_left_alone(self) -> None:
        bench = Bench(plain={2: "other:1x1"})
        assert bench.finals(measured(2, 0.8))[2].stage == "drift"
        assert bench.gpu.soaks == [] and bench.gpu.races == []

    def test_without_finalists_nothing_is_said_or_done(self) -> None:
        bench = Bench()
        assert bench.finals(measured(2, 1.0, code="own")) == {}
        assert bench.told == [] and bench.gpu.soaks == []


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache without limits of any machine."""
    monkeypatch.setenv("HELITUNE_CACHE_DIR", str(tmp_path))


def floors_of(bench: Bench) -> list[float | None] | None:
    begin(bench)  # type: ignore[arg-type]
    return bench.measured.floors


class TestBegin:
    def test_the_own_config_is_measured_with_the_compilers_on_their_way(self) -> None:
        bench = Bench()
        begun = begin(bench)  # type: ignore[arg-type]
        assert bench.started and begun.limits == LIMITS and begun.own.ms == (0.1,)
        assert begun.check.agrees and begun.check.evidence == "gpu"
        assert begun.check.message.startswith("kernel agrees with kernel_reference on the GPU")

    def test_limits_are_measured_once_on_a_machine(self) -> None:
        for asked in (["limits"], []):
            bench = Bench()
            begin(bench)  # type: ignore[arg-type]
            assert bench.gpu.asked == asked

    @pytest.mark.parametrize(
        ("stage", "kind", "words"),
        [
            (
                "wrong_output",
                NegativeVerdict,
                "own config disagrees with file:kernel_reference on this GPU: it",
            ),
            ("illegal_access", MachineError, "own config fails on this GPU at illegal_access: it"),
            ("hang", MachineError, "at hang: it"),
            ("compile", MachineError, "at compile: it"),
        ],
    )
    def test_an_own_config_that_fails_ends_the_run(
        self, stage: str, kind: type[UserError], words: str
    ) -> None:
        with pytest.raises(kind) as caught:
            begin(Bench(own=Failed(stage, "it said")))  # type: ignore[arg-type]
        assert words in caught.value.what and caught.value.where == "kernel.py" and caught.value.next_step

    def test_nobody_is_faster_than_the_memory(self) -> None:
        # 44 MB at 4.4 TB/s, and 15 % beyond it
        (floor,) = floors_of(Bench(bytes_moved=44_000_000)) or ()
        assert floor == pytest.approx(0.01 / 1.15)

    @pytest.mark.parametrize(
        ("own", "bytes_moved"),
        [
            (OwnTimes("", (0.1,), (False,), (0,), 0.0), 44_000_000),  # the cache may have held them
            (
                OwnTimes("", (0.001,), (True,), (0,), 0.0),
                44_000_000,
            ),  # own is faster: not all bytes are moved
            (OwnTimes("", (0.1,), (True,), (0,), 0.0), 0),
        ],
    )
    def test_there_is_no_floor_where_bytes_are_none(self, own: OwnTimes, bytes_moved: int) -> None:
        assert floors_of(Bench(own=own, bytes_moved=bytes_moved)) == [None]

    def test_what_is_written_in_place_counts(self) -> None:
        own = OwnTimes("", (0.1,), (True,), (22_000_000,), 0.0)
        (floor,) = floors_of(Bench(own=own, bytes_moved=22_000_000)) or ()
        assert floor == pytest.approx(0.01 / 1.15)
