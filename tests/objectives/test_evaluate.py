"""Candidates evaluated for real, without a GPU: outcomes, their stages, and the work that is not done twice."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.content import digest
from helitune.acfs.errors import MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.artifacts import Assembler
from helitune.objectives.compile_cache import CompileCache
from helitune.objectives.compile_environment import compile_environment
from helitune.objectives.compiled_objectives import OBJECTIVES
from helitune.objectives.evaluate import CompiledEvaluator, _combined
from helitune.objectives.kernel_host import Description
from helitune.objectives.outcomes import Compiled, Failed, Outcome
from helitune.objectives.targets import find_target
from helitune.objectives.worker_pool import WorkerPool
from helitune.search.candidate import Candidate

ROOT = Path(__file__).parents[2]
PLAIN_COMPILE = ROOT / "tests" / "fixtures" / "plain_compile_runner.py"
TIMEOUT_S = 60.0
MEMORY_BYTES = 8 << 30
ACFS = [
    Acf(path.name, digest(path.read_bytes()), path, ("sm_90",), "13.3")
    for path in sorted((ROOT / "acfs" / "data" / "h200-seed").glob("*.acf"))[:4]
]


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=6))
def test_several_shapes_count_alike(values: list[float]) -> None:
    assert math.isclose(_combined(values), math.prod(v ** (1 / len(values)) for v in values), rel_tol=1e-6)
    assert math.isclose(_combined([2 * v for v in values]), 2 * _combined(values), rel_tol=1e-9)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=6))
def test_scores_that_may_be_zero_or_negative_have_a_mean_too(values: list[float]) -> None:
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= _combined(values) <= max(values) + slack


class CountingPool:
    """A pool that counts the calls of each method."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.calls: dict[str, int] = {}

    def call(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        self.calls[method] = self.calls.get(method, 0) + 1
        return self.pool.call(method, *arguments, timeout_s=timeout_s)


class Bench:
    """An evaluator of one pool, with what a test may want to turn."""

    def __init__(self, pool: WorkerPool, ptxas: Ptxas, cache_root: Path) -> None:
        self.pool = CountingPool(pool)
        self.ptxas = ptxas
        self.cache_root = cache_root
        self.description: Description = pool.call("describe", timeout_s=TIMEOUT_S)

    def evaluator(
        self,
        *,
        objective: str = "issue_slots",
        compile_timeout_s: float = TIMEOUT_S,
        ptxas_timeout_s: float = TIMEOUT_S,
    ) -> CompiledEvaluator:
        return CompiledEvaluator(
            self.pool,  # type: ignore[arg-type]
            Assembler(self.ptxas, CompileCache(self.cache_root), ptxas_timeout_s, MEMORY_BYTES),
            self.description,
            target=find_target("sm_90"),
            objective=OBJECTIVES[objective],
            compile_timeout_s=compile_timeout_s,
        )

    def candidate(self, acf: Acf = NO_ACF, **changes: Any) -> Candidate:
        """The kernel's own config, changed, with an ACF."""
        return Candidate.of(self.description.baselines[0].config | changes, acf)


@pytest.fixture(scope="module")
def softmax(softmax_pool: WorkerPool, ptxas: Ptxas, cache_folder: Path) -> Bench:
    return Bench(softmax_pool, ptxas, cache_folder / "compiled")


@pytest.fixture(scope="module")
def matmul(matmul_pool: WorkerPool, ptxas: Ptxas, cache_folder: Path) -> Bench:
    return Bench(matmul_pool, ptxas, cache_folder / "compiled")


def compiled(outcome: Outcome) -> Compiled:
    assert isinstance(outcome, Compiled), outcome
    return outcome


@pytest.mark.slow
class TestOutcomes:
    def test_a_config_with_and_without_acfs(self, softmax: Bench) -> None:
        evaluator = softmax.evaluator()
        plain, *with_acfs = (compiled(evaluator.evaluate(softmax.candidate(acf))) for acf in (NO_ACF, *ACFS))
        assert {made.code for made in with_acfs} - {plain.code}
        for made in (plain, *with_acfs):
            ((artifact,),) = made.artifacts
            assert artifact.ptx_sha256 == plain.artifacts[0][0].ptx_sha256
            assert artifact.grid[0] == 1024 and artifact.num_warps == 8
            assert 16 <= artifact.registers <= 255 and artifact.instructions > 100
            assert made.score > 0 and made.values == (made.score,)
            assert Compiled.from_json(json.loads(json.dumps(made.to_json()))) == made

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_every_objective_scores_it(self, objective: str, softmax: Bench) -> None:
        made = compiled(softmax.evaluator(objective=objective).evaluate(softmax.candidate()))
        (value,) = made.values
        assert made.score == pytest.approx(value if OBJECTIVES[objective].lower_is_better else -value)

    def test_a_broken_acf_fails_alone_and_in_ptxas_own_words(self, softmax: Bench, tmp_path: Path) -> None:
        path = tmp_path / "broken.acf"
        path.write_bytes(bytes(range(256)) * 9)
        evaluator = softmax.evaluator()
        broken = evaluator.evaluate(softmax.candidate(Acf("broken.acf", digest(path.read_bytes()), path)))
        assert isinstance(broken, Failed) and broken.stage == "compile"
        assert broken.message.startswith("ptxas exit ") and "controls" in broken.message
        compiled(evaluator.evaluate(softmax.candidate()))

    def test_a_tile_too_large_is_an_invalid_config(self, softmax: Bench) -> None:
        outcome = softmax.evaluator().evaluate(softmax.candidate(block_sizes=[64], num_warps=1))
        assert isinstance(outcome, Failed) and outcome.stage == "invalid_config"

    def test_what_helion_refuses_is_an_invalid_config(self, softmax: Bench) -> None:
        outcome = softmax.evaluator().evaluate(softmax.candidate(pid_type="no such order"))
        assert isinstance(outcome, Failed) and outcome.stage == "invalid_config"

    def test_too_much_shared_memory_cannot_be_launched(self, matmul: Bench) -> None:
        candidate = matmul.candidate(block_sizes=[128, 256, 128], num_stages=4)
        outcome = matmul.evaluator().evaluate(candidate)
        assert isinstance(outcome, Failed) and outcome.stage == "launch"
        assert "232448" in outcome.message

    def test_triton_out_of_time(self, softmax: Bench) -> None:
        evaluator = softmax.evaluator(compile_timeout_s=0.01)
        outcome = evaluator.evaluate(softmax.candidate(block_sizes=[2], num_warps=16, num_stages=3))
        assert outcome == Failed("compile_timeout", "Triton took more than 0.01 s")
        compiled(softmax.evaluator().evaluate(softmax.candidate()))

    def test_ptxas_out_of_time(self, softmax: Bench) -> None:
        candidate = softmax.candidate(block_sizes=[1], num_warps=16)
        outcome = softmax.evaluator(ptxas_timeout_s=0.005).evaluate(candidate)
        assert outcome == Failed("compile_timeout", "ptxas took more than 0.005 s")
        compiled(softmax.evaluator().evaluate(candidate))

    def test_several_shapes_are_compiled_and_scored_together(
        self, start_pool: Callable[..., WorkerPool], ptxas: Ptxas, cache_folder: Path
    ) -> None:
        pool = start_pool(ROOT / "examples" / "softmax.py", "f16[4096,2560]", "f16[1024,512]")
        bench = Bench(pool, ptxas, cache_folder / "compiled")
        made = compiled(bench.evaluator().evaluate(bench.candidate()))
        assert [shape[0].grid[0] for shape in made.artifacts] == [1024, 256]
        assert made.score == pytest.approx(math.sqrt(made.values[0] * made.values[1]))
        assert len(bench.description.bytes_moved) == 2


@pytest.mark.slow
class TestNormalise:
    def test_rows_become_configs_or_reasons(self, softmax: Bench) -> None:
        own = softmax.description.baselines[0]
        wrong = tuple(-1 if slot == 0 else value for slot, value in enumerate(own.slots))
        good, bad = softmax.evaluator().normalise([own.slots, wrong])
        assert good == own.config
        assert isinstance(bad, Failed) and bad.stage == "invalid_config"

    def test_every_baseline_is_what_its_slots_normalise_to(self, matmul: Bench) -> None:
        baselines = matmul.description.baselines
        assert len(baselines) > 2
        configs = matmul.evaluator().normalise([baseline.slots for baseline in baselines])
        assert configs == [baseline.config for baseline in baselines]


@pytest.mark.slow
class TestWorkThatIsNotDoneTwice:
    def test_a_config_is_lowered_once_for_all_its_acfs_and_threads(self, softmax: Bench) -> None:
        evaluator = softmax.evaluator()
        before = softmax.pool.calls.get("build", 0)
        candidates = [softmax.candidate(acf, block_sizes=[2]) for acf in (NO_ACF, *ACFS, NO_ACF)]
        with ThreadPoolExecutor(4) as threads:
            made = [compiled(outcome) for outcome in threads.map(evaluator.evaluate, candidates)]
        assert softmax.pool.calls["build"] == before + 1
        assert made[0].code == made[-1].code

    def test_what_is_cached_is_not_compiled_again(self, softmax: Bench) -> None:
        first, again = (softmax.evaluator().evaluate(softmax.candidate(ACFS[0])) for _ in range(2))
        # compile_s is the time ptxas took when it ran: equal to the last bit only when it was read
        assert first == again

    def test_ptx_that_was_trimmed_is_lowered_again(self, softmax: Bench) -> None:
        evaluator = softmax.evaluator()
        before = compiled(evaluator.evaluate(softmax.candidate(num_stages=2)))
        shutil.rmtree(softmax.cache_root / "ptx")
        after = compiled(evaluator.evaluate(softmax.candidate(ACFS[0], num_stages=2)))
        assert after.artifacts[0][0].ptx_sha256 == before.artifacts[0][0].ptx_sha256

    def test_a_cache_that_keeps_nothing_ends_the_search_with_the_next_step(
        self, start_pool: Callable[..., WorkerPool], ptxas: Ptxas, tmp_path: Path
    ) -> None:
        root = tmp_path / "a file"
        root.write_text("")
        pool = start_pool(ROOT / "examples" / "softmax.py", cache_root=root)
        bench = Bench(pool, ptxas, root)
        with pytest.raises(MachineError, match="does not keep what is written") as caught:
            bench.evaluator().evaluate(bench.candidate())
        assert "HELITUNE_CACHE_DIR" in caught.value.next_step


def plain_code(file: Path, configs: list[dict[str, Any]], ptxas: Ptxas, cache: Path) -> list[list[str]]:
    """The code hashes of what Helion and Triton compile by themselves."""
    environment = compile_environment(ptxas, os.environ) | {"TRITON_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-P", str(PLAIN_COMPILE), str(file), *map(json.dumps, configs)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    hashes: list[list[str]] = json.loads(done.stdout)
    return hashes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_the_code_is_what_helion_and_triton_make_of_the_candidate(
    name: str, request: pytest.FixtureRequest, ptxas: Ptxas, tmp_path: Path
) -> None:
    bench: Bench = request.getfixturevalue(name)
    evaluator = bench.evaluator()
    candidates = [bench.candidate(acf) for acf in (NO_ACF, *ACFS[:2])]
    candidates.append(bench.candidate(ACFS[0], num_warps=4, pid_type="persistent_blocked"))
    ours = [
        [artifact.code_sha256 for artifact in compiled(evaluator.evaluate(candidate)).artifacts[0]]
        for candidate in candidates
    ]
    configs = [
        c.config | ({"advanced_controls_file": str(c.acf.path)} if c.acf.path else {}) for c in candidates
    ]
    file = Path(bench.description.record.file)
    assert ours == plain_code(file, configs, ptxas, tmp_path / "triton")
    assert len({code for launch in ours for code in launch}) >= 3
