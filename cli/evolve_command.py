"""`helitune evolve`: CompileIQ over ptxas's controls for one config of a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from helitune.acfs.errors import InputError
from helitune.acfs.search_space import AUTO
from helitune.results.evolve_config import choose_config
from helitune.results.request import TuneRequest
from helitune.results.run_directory import find_run, working_folder
from helitune.search.strategies.amber import LEAST_POPULATION, MOST_POPULATION

from . import amounts, durations, pipeline
from .evolve_options import WarmStartOption, evolution, warm_sources
from .evolve_report import report_run
from .options import Json, PtxasOption, Quiet
from .reporters import make_reporter
from .run_arguments import cores, given, new_run, require_one_of, require_only, split_kernel

STRATEGY = "compileiq"
SPARE = 3
"""Candidates at most, as a multiple of the valid ones that are wanted: some configs fail with many ACFs."""

_WITH_RESUME = {"resume", "budget", "time", "jobs", "json", "quiet"}
_WITH_AGAIN = {"again", "search_space", "ptxas", "device", "target", "jobs", "json", "quiet"}


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("evolve")(evolve)


def evolve(
    context: typer.Context,
    kernel_file: Annotated[
        str | None,
        typer.Argument(metavar="FILE[:KERNEL]", help="A Python file with a Helion kernel."),
    ] = None,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar="CONFIG",
            help="own, best (of this kernel's newest run), a JSON file, a pin, or a run.",
        ),
    ] = "own",
    args: Annotated[
        list[str] | None,
        typer.Option("--args", metavar="ARGS", help="The arguments of one call, as for tune; repeatable."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="NAME", help="The PyTorch reference: NAME, module:function, or self."
        ),
    ] = None,
    search_space: Annotated[
        str,
        typer.Option(
            "--search-space",
            metavar="FILE.bin|auto",
            help="Where ACFs are evolved; auto is CompileIQ's space for this ptxas.",
        ),
    ] = AUTO,
    generations: Annotated[
        int, typer.Option("--generations", metavar="N", min=1, help="Generations that are bred.")
    ] = 8,
    population: Annotated[
        int,
        typer.Option(
            "--population",
            metavar="N",
            min=LEAST_POPULATION,
            max=MOST_POPULATION,
            help="Valid candidates of a generation.",
        ),
    ] = 15,
    warm_start: WarmStartOption = None,
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            metavar="NAME",
            help="time; without a GPU issue_slots, spills, registers, instructions or occupancy.",
        ),
    ] = "auto",
    device: Annotated[
        str, typer.Option("--device", metavar="GPU", help="GPU to measure on: auto, none, or a CUDA index.")
    ] = "auto",
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="ARCH", help="Architecture to compile for; auto is this GPU's, else sm_90."
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
    lock_clocks: Annotated[
        str | None,
        typer.Option(
            "--lock-clocks",
            metavar="MHZ",
            help="Hold the SM clock there ('auto' to choose), restored at the end.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            metavar="N",
            min=0,
            help=f"Candidates at most, failed ones too; by default {SPARE} × generations × population.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="DURATION", help="Stop after 90s, 10m, 1h; baselines aside."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Same seed, same search.")
    ] = 0,
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
    again: Annotated[
        str | None,
        typer.Option(
            "--again",
            metavar="RUN",
            help="The same search as a run made, on this machine: for another ptxas or GPU.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Go on with a run ('' for the newest), maybe with a new --budget or --time.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evolve ACFs with CompileIQ for one config of a kernel; leave a run in .helitune/runs/.

    The kernel is compiled to PTX once; every candidate then costs one ptxas run, and on a GPU a check against the
    reference and a measurement. ACFs that crash or give wrong results are part of it. The run holds every ACF, the
    trials, and CompileIQ's own CSV; `acf build` makes a pack of what won.
    """
    reporter = make_reporter(json=json, quiet=quiet)
    if resume is not None:
        _require_only(context, _WITH_RESUME, "--resume")
        run = find_run(working_folder(), resume or None)
        run.lock()
        request = TuneRequest.from_json(run.run()["request"])
        request = replace(
            request,
            budget=request.budget if budget is None else budget,
            time_s=durations.seconds(time, "--time") if time else request.time_s,
            jobs=jobs or cores(),
        )
        report_run(pipeline.tune(request, run, reporter, resumed=True), json=json)
        return
    if again is not None:
        _require_only(context, _WITH_AGAIN, "--again")
        changes = {"ptxas": _absolute(ptxas), "target": target, "device": device, "jobs": jobs or cores()}
        named = search_space if "search_space" in given(context) else None
        report_run(new_run(same_search(again, named, changes), reporter), json=json)
        return
    file, kernel = split_kernel(kernel_file, "evolve")
    require_one_of(timing, ("graph", "eager"), "--timing")
    require_one_of(cache, ("cold", "warm"), "--cache")
    chosen = choose_config(config, working_folder(), file, kernel)
    request = TuneRequest(
        file=str(file),
        kernel=kernel,
        reference=reference,
        args=tuple(args or ()),
        target=target,
        packs=(),
        force=False,
        settings=(),
        strategy=STRATEGY,
        objective=objective,
        budget=SPARE * generations * population if budget is None else budget,
        time_s=durations.seconds(time, "--time") if time else None,
        seed=seed,
        jobs=jobs or cores(),
        compile_timeout_s=0.0
        if compile_timeout == "auto"
        else durations.seconds(compile_timeout, "--compile-timeout"),
        memory_bytes=durations.memory_bytes(compile_memory, "--compile-memory"),
        ptxas=_absolute(ptxas),
        device=device,
        timing=timing,
        cache=cache,
        bytes_moved=amounts.bytes_moved(bytes_moved, "--bytes") if bytes_moved else (),
        lock_clocks=lock_clocks,
        warm_start=warm_sources(warm_start),
        evolution=evolution(
            search_space,
            ptxas,
            config=chosen.config,
            origin=chosen.origin,
            generations=generations,
            population=population,
        ),
    )
    report_run(new_run(request, reporter), json=json)


def _require_only(context: typer.Context, allowed: set[str], option: str) -> None:
    require_only(
        context,
        allowed,
        f"{option} keeps the settings of its run",
        where=option,
        next_step="leave it out, or start a new run",
    )


def same_search(name: str, search_space: str | None, changes: dict[str, Any]) -> TuneRequest:
    """The request of a run again, with `changes`, in the search space of the ptxas that is in use now.

    Its warm start is left out: those ACFs were for the other ptxas.
    """
    run = find_run(working_folder(), name or None)
    request = TuneRequest.from_json(run.run()["request"])
    before = request.evolution
    if before is None:
        raise InputError(
            "this run did not evolve ACFs", where=f"--again {name}", next_step="name a run of helitune evolve"
        )
    objective = "auto" if request.objective == "time" else request.objective
    return replace(
        request,
        objective=objective,
        compile_timeout_s=0.0,
        warm_start=(),
        evolution=evolution(
            search_space or before.given,
            changes["ptxas"],
            config=before.config,
            origin=before.origin,
            generations=before.generations,
            population=before.population,
            after=before.shortlist_after,
        ),
        **changes,
    )


def _absolute(path: str | None) -> str | None:
    return str(Path(path).absolute()) if path else None
