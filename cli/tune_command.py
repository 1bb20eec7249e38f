"""`helitune tune`: search one kernel file, leave a run behind."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from helitune.acfs.pack import resolve_pack
from helitune.results.request import TuneRequest
from helitune.results.run_directory import find_run, working_folder

from . import amounts, durations, pipeline
from .evolve_options import SearchSpaceOption, WarmStartOption, joint_evolution, warm_sources
from .evolve_report import report_run
from .options import Json, PtxasOption, Quiet
from .plan_report import print_plan
from .reporters import make_reporter
from .run_arguments import cores, given, new_run, require_one_of, require_only, split_kernel


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("tune")(tune)


def tune(
    context: typer.Context,
    kernel_file: Annotated[
        str | None,
        typer.Argument(metavar="FILE[:KERNEL]", help="A Python file with a Helion kernel."),
    ] = None,
    args: Annotated[
        list[str] | None,
        typer.Option(
            "--args", metavar="ARGS", help="The arguments of one call, as 'f16[4096,2560] 1e-5'; repeatable."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="NAME", help="The PyTorch reference: NAME, module:function, or self."
        ),
    ] = None,
    acf_pack: Annotated[
        list[str] | None,
        typer.Option(
            "--acf-pack", metavar="DIR|ZIP", help="ACFs to search; a shipped pack by name; repeatable."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Try packs made for another ptxas or architecture.")
    ] = False,
    search_space: SearchSpaceOption = None,
    warm_start: WarmStartOption = None,
    device: Annotated[
        str, typer.Option("--device", metavar="GPU", help="GPU to measure on: auto, none, or a CUDA index.")
    ] = "auto",
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="ARCH", help="Architecture to compile for; auto is this GPU's, else sm_90."
        ),
    ] = "auto",
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help="staged, compileiq, random, grid, or helion.")
    ] = "staged",
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            metavar="NAME",
            help="time; without a GPU issue_slots, spills, registers, instructions or occupancy.",
        ),
    ] = "auto",
    timing: Annotated[
        str,
        typer.Option(
            "--timing", metavar="HOW", help="graph: the GPU alone; eager: with the host's overhead."
        ),
    ] = "graph",
    cache: Annotated[
        str, typer.Option("--cache", metavar="HOW", help="cold: inputs out of the L2 cache; warm: in it.")
    ] = "cold",
    bytes_moved: Annotated[
        str | None,
        typer.Option("--bytes", metavar="N[,N…]", help="Bytes that a call must move, as 84MB; one a shape."),
    ] = None,
    flops: Annotated[
        str | None,
        typer.Option(
            "--flops", metavar="N[,N…]", help="FLOPs that a call must do, as 137GFLOP; one a shape."
        ),
    ] = None,
    lock_clocks: Annotated[
        str | None,
        typer.Option(
            "--lock-clocks",
            metavar="MHZ",
            help="Hold the SM clock there ('auto' to choose), restored at the end.",
        ),
    ] = None,
    effort: Annotated[
        str,
        typer.Option("--effort", metavar="LEVEL", help="Of --strategy helion: quick or full."),
    ] = "quick",
    budget: Annotated[
        int, typer.Option("--budget", metavar="N", min=0, help="Candidates to compile, baselines aside.")
    ] = 100,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="DURATION", help="Stop after 90s, 10m, 1h; baselines aside."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Same seed, same search.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=V[,V…]", help="Narrow the space: num_warps=4,8; repeatable."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=0, help="Compile processes; 0 for all cores.")
    ] = 0,
    compile_timeout: Annotated[
        str,
        typer.Option(
            "--compile-timeout",
            metavar="DURATION",
            help="For one candidate; auto is 10s with a GPU, else 30s.",
        ),
    ] = "auto",
    compile_memory: Annotated[
        str, typer.Option("--compile-memory", metavar="SIZE", help="For one compile process.")
    ] = "8G",
    ptxas: PtxasOption = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Go on with a run ('' for the newest), maybe with a new --budget or --time.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the space, the ACFs and the planned work; compile nothing."),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search the configs of a Helion kernel, jointly with ACFs; leave a run in .helitune/runs/.

    On a GPU every candidate is checked against the reference and timed beside the kernel's own config. Without
    one the evidence is `compiled`: candidates are compiled for --target and ranked by --objective, and the
    kernel's source is checked against its reference in Helion's interpreter. That ranks; it is no time.
    """
    reporter = make_reporter(json=json, quiet=quiet)
    if resume is not None:
        _require_resumable(context)
        run = find_run(working_folder(), resume or None)
        run.lock()
        request = TuneRequest.from_json(run.run()["request"])
        request = replace(
            request,
            budget=budget if "budget" in given(context) else request.budget,
            time_s=durations.seconds(time, "--time") if time else request.time_s,
            jobs=jobs or cores(),
        )
        report_run(pipeline.tune(request, run, reporter, resumed=True), json=json)
        return
    file, kernel = split_kernel(kernel_file, "tune")
    require_one_of(timing, ("graph", "eager"), "--timing")
    require_one_of(cache, ("cold", "warm"), "--cache")
    request = TuneRequest(
        file=str(file),
        kernel=kernel,
        reference=reference,
        args=tuple(args or ()),
        target=target,
        packs=tuple(str(resolve_pack(text).absolute()) for text in acf_pack or ()),
        force=force,
        settings=tuple(settings or ()),
        strategy=strategy,
        objective=objective,
        budget=budget,
        time_s=durations.seconds(time, "--time") if time else None,
        seed=seed,
        jobs=jobs or cores(),
        compile_timeout_s=0.0
        if compile_timeout == "auto"
        else durations.seconds(compile_timeout, "--compile-timeout"),
        memory_bytes=durations.memory_bytes(compile_memory, "--compile-memory"),
        ptxas=str(Path(ptxas).absolute()) if ptxas else None,
        device=device,
        timing=timing,
        cache=cache,
        bytes_moved=amounts.bytes_moved(bytes_moved, "--bytes") if bytes_moved else (),
        flops=amounts.flops(flops, "--flops") if flops else (),
        lock_clocks=lock_clocks,
        effort=effort,
        warm_start=warm_sources(warm_start),
        evolution=joint_evolution(search_space, ptxas, budget),
    )
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="helitune-plan-") as folder:
            print_plan(pipeline.plan(request, reporter, Path(folder) / "workers.log"), json=json)
        return
    report_run(new_run(request, reporter), json=json)


_WITH_RESUME = {"resume", "budget", "time", "jobs", "json", "quiet"}


def _require_resumable(context: typer.Context) -> None:
    """Raise InputError for settings that a run has already: they cannot change in the middle."""
    require_only(
        context,
        _WITH_RESUME,
        "a resumed run keeps its settings",
        where="--resume",
        next_step="leave it out (--budget, --time and --jobs may change), or start a new run",
    )
