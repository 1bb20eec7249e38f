"""What a candidate costs without a GPU, side by side in one run, and the memory of the main process.

    python benchmarks/compile_rate.py [--acfs 12] [--trials 1000] [KERNEL_FILE ...]

For each kernel, at its own config, and for each ACF of the shipped pack in turn:
  ptxas     ptxas alone on the PTX that is there already
  new ACF   a candidate whose config is known: what the search pays for one more ACF
  full      the same candidate from nothing: Helion, Triton and ptxas, as plain Helion compiles it
All three run in this order for each ACF, one process at a time, with nothing of theirs in any cache.
Then a search of --trials candidates of softmax (narrowed to configs that compile fast), and the peak
memory of the process that leads it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
FAST = (
    "block_sizes=1,2,4,8",
    "reduction_loops=4096",  # the whole row at once
    "range_unroll_factors=0",
    "range_num_stages=0",
    "pid_type=flat",
)


def main() -> None:
    """Print the table and the ratios."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="helitune-bench-") as folder:
        # compile processes keep generated code and Triton's cache under TMPDIR: all of it must be cold
        os.environ["HELITUNE_CACHE_DIR"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        print(
            f"{'kernel':20} {'ptxas s':>8} {'new ACF s':>10} {'full s':>8} {'new/ptxas':>10} {'new/full':>9}"
        )
        for kernel in arguments.kernels:
            print(_row(kernel, arguments.acfs, Path(folder)), flush=True)
        if arguments.trials:
            print(_search(EXAMPLES / "softmax.py", arguments.trials, Path(folder)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", type=Path)
    parser.add_argument("--acfs", type=int, default=12)
    parser.add_argument("--trials", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.kernels = arguments.kernels or [EXAMPLES / "softmax.py", EXAMPLES / "matmul_bias_gelu.py"]
    return arguments


def _row(kernel: Path, acfs: int, folder: Path) -> str:
    from helitune.objectives.assemble import assemble
    from helitune.objectives.lowering import Lowered
    from helitune.results.session import Session, find_tools
    from helitune.search.candidate import Candidate

    request = _request(kernel, budget=acfs, jobs=1)
    tools = find_tools(request)
    with Session(request, tools, folder / "workers.log") as session:
        config = session.description.baselines[0].config
        launch = session.evaluator.launches(Candidate.of(config))[0][0]
        ptx = Lowered.from_bytes(session.cache.get("ptx", launch.ptx_key) or b"").ptx
        alone: list[float] = []
        new: list[float] = []
        full: list[float] = []
        for acf in tools.acfs[:acfs]:
            alone.append(
                _timed(
                    lambda acf=acf: assemble(
                        tools.ptxas.path,
                        ptx,
                        launch.ptxas_flags,
                        acf.path,
                        timeout_s=120,
                        memory_bytes=16 << 30,
                    )
                )
            )
            new.append(_timed(lambda acf=acf: session.evaluator.evaluate(Candidate.of(config, acf))))
            full.append(_timed(lambda acf=acf: session.compile_plainly(Candidate.of(config, acf), 0)))
    medians = [statistics.median(values) for values in (alone, new, full)]
    return (
        f"{kernel.stem:20} {medians[0]:>8.3f} {medians[1]:>10.3f} {medians[2]:>8.3f} "
        f"{_ratio(new, alone):>10} {_ratio(new, full):>9}"
    )


def _ratio(numerators: list[float], denominators: list[float]) -> str:
    """Median of the pairwise ratios with their quartiles."""
    ratios = [n / d for n, d in zip(numerators, denominators, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _search(kernel: Path, trials: int, folder: Path) -> str:
    from helitune.cli.pipeline import tune
    from helitune.cli.reporters import Silent
    from helitune.results.run_directory import create_run

    request = _request(kernel, budget=trials, jobs=len(os.sched_getaffinity(0)), settings=FAST)
    started = time.perf_counter()
    tuned = tune(request, create_run(folder), Silent(), resumed=False)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"search of {kernel.stem}: {len(tuned.trials)} trials in {seconds:.0f} s on {request.jobs} processes "
        f"({len(tuned.trials) / seconds:.1f} a second), main process peak {peak:.0f} MiB"
    )


def _request(kernel: Path, *, budget: int, jobs: int, settings: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
    from helitune.acfs.pack import shipped_pack
    from helitune.results.request import TuneRequest

    return TuneRequest(
        file=str(kernel.absolute()),
        kernel=None,
        reference=None,
        args=(),
        target="sm_90",
        packs=(str(shipped_pack()),),
        force=False,
        settings=settings,
        strategy="grid",
        objective="issue_slots",
        budget=budget,
        time_s=None,
        seed=1,
        jobs=jobs,
        compile_timeout_s=120.0,
        memory_bytes=16 << 30,
        ptxas=None,
    )


if __name__ == "__main__":
    main()
