"""`helitune pin`: the result of a run as files that plain Helion loads."""

from __future__ import annotations

import json as json_text
import math
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from helitune.acfs.ptxas import Ptxas, find_ptxas
from helitune.results.fingerprint import fingerprint
from helitune.results.pin import Pin
from helitune.results.pin_aot_form import AotForm, aot_path, write_aot
from helitune.results.pin_choice import make_pin
from helitune.results.pin_environment import PTXAS_VARIABLES
from helitune.results.pin_evidence import require_allowable, trial_to_pin
from helitune.results.pin_forms import Place, shown_shapes
from helitune.results.pin_python_form import agreed
from helitune.results.pin_verify import write_verified
from helitune.results.ranking import rank
from helitune.results.run_directory import find_run, working_folder
from helitune.results.run_record import device_of

from .options import Json, PtxasOption, Quiet, RunArgument
from .show_command import find_trial
from .tune_report import shown_config, shown_number

WIDTH = 100
"""Columns of a row that is wrapped."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("pin")(pin)


def pin(
    run: RunArgument = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where pins go, as <kernel>/<gpu>/<shapes>.json."),
    ] = Path("pins"),
    trial: Annotated[
        str | None,
        typer.Option(
            "--trial", metavar="TRIAL", help="Pin this trial, by number or id, instead of the best."
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="STATUS",
            help="Pin what is only ambiguous or compiled, too, marked as such; repeatable.",
        ),
    ] = None,
    aot: Annotated[
        bool,
        typer.Option("--aot", help="Also write DIR's pins as @helion.aot_kernel() loads them."),
    ] = False,
    ptxas: PtxasOption = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pin the best of a run: config, ACF and evidence, as our JSON, Helion's JSON and a Python file.

    The best is what validate called FASTER, with the highest lower bound; anything less is refused with its reason.
    All that is written is read back and compiled by plain Helion, with empty caches, to the same code as in
    the run; else nothing is written.
    """
    allowed = frozenset(allow or ())
    require_allowable(allowed)
    found = find_run(working_folder(), run)
    fields, trials = found.run(), found.trials()
    asked = find_trial(trials, trial, str(found.path)) if trial is not None else None
    chosen, evidence = trial_to_pin(found, trials, asked, allowed)
    used = find_ptxas(ptxas or fields["request"]["ptxas"])
    device = device_of(fields, str(found.path / "run.json"))
    now = fingerprint(used, fields["fingerprint"]["arch"], device)
    draft = make_pin(
        found,
        trials,
        chosen,
        now,
        asked=asked is not None,
        status=evidence.status,
        verdict=evidence.record,
    )
    if aot:
        aot_path(draft, output)  # before minutes of compiling
    if not (json or quiet):
        print(f"trial {chosen.number} of run {found.id}: write, read back, compile", file=sys.stderr)
    written, place = write_verified(draft, found, output, used)
    form = write_aot(written, output) if aot else None
    if json:
        print(json_text.dumps(_summary(written, place, form)))
    elif quiet:
        print(place.json)
    else:
        own = rank(trials).own
        _print_pin(written, place, own.config if own else {}, used)
        if form is not None:
            _print_aot(form, written)


def _summary(written: Pin, place: Place, aot: AotForm | None) -> dict[str, object]:
    return {
        "pin": str(place.json),
        "helion": str(place.helion),
        "python": str(place.python),
        "acf": str(place.folder / written.acf.file) if written.acf else None,
        "aot": str(aot.path) if aot else None,
        "verified": True,
        **written.to_json(),
    }


def _print_pin(written: Pin, place: Place, own_config: dict[str, object], ptxas: Ptxas) -> None:
    acf = written.acf
    print(_from_here(place.json))
    print(f"  kernel     {written.kernel} of {written.file}, reference {written.reference}")
    print(f"  gpu        {written.gpu}")
    for shape in shown_shapes(written.shapes):
        print(f"  shape      {shape}")
    _print_row("config", _config(written.config, own_config))
    print(f"  ACF        {f'{acf.name}, in {acf.file}' if acf else 'none'}")
    if acf:
        names = " and ".join(PTXAS_VARIABLES)
        print(f"  needs      {names} set to a ptxas {acf.ptxas}, here {ptxas.path}")
        print(
            f"  moving     {place.helion.name} holds the ACF's absolute path: "
            "after moving the folder use the .py form, or pin again"
        )
    if written.verdict is None:
        print(f"  evidence   {written.evidence}: {_objective(written)}; no run time was taken")
    else:
        _print_row("evidence", _verdict(written, written.verdict))
    forms = f"{place.helion.name} and {place.python.name}"
    _print_row("verified", f"plain Helion compiles {forms} to the code that was ranked; {agreed(written)}")
    for note in written.notes:
        print(f"  note       {note}")
    print(f"  identity   {written.identity()}")


def _print_aot(form: AotForm, written: Pin) -> None:
    pins = f"{form.pins} pin{'s' * (form.pins != 1)}"
    folder = _from_here(form.path.parent)
    _print_row(
        "AOT form",
        f"{_from_here(form.path)}, of {pins}: found by @helion.aot_kernel() with HELION_HEURISTIC_DIR={folder}, "
        f"or beside {written.file} together with the pins' folders",
    )
    for reason in form.left_out:
        _print_row("left out", reason)


def _config(config: dict[str, object], own: dict[str, object]) -> str:
    """Where a config differs from the kernel's own."""
    changed = {k: v for k, v in config.items() if k not in own or own[k] != v}
    dropped = [f"no {k}" for k in own if k not in config]
    shown = " ".join([shown_config(changed), *dropped]).strip()
    return f"where it differs from the kernel's own: {shown or 'nowhere'} (full config in the JSON)"


def _print_row(label: str, text: str) -> None:
    """Print a row of the report, wrapped."""
    indent = " " * len(f"  {label:10} ")
    rows = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {label:10} ",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n".join(rows))


def _verdict(written: Pin, verdict: dict[str, Any]) -> str:
    """How it is known: "FASTER: 1.0255x (1.0241 to 1.0269) by the strict gate, 2 runs of 10 rounds, …"."""
    interval = f" ({verdict['low']:.4f} to {verdict['high']:.4f})" if verdict.get("low") else ""
    floor = f", A/A floor {math.expm1(verdict['delta']):.2%}" if verdict.get("delta") else ""
    return (
        f"{written.evidence}: {verdict['speedup']:.4f}x{interval} by the {verdict['gate']} gate, {verdict['runs']} "
        f"runs of {verdict['rounds']} rounds{floor}; {_objective(written)}"
    )


def _objective(written: Pin) -> str:
    objective = written.objective
    pinned, own = objective["pin"]["values"], objective["own"]
    against = f", the kernel's own config {_values(own['values'])}" if own else ""
    return f"{objective['name']} {_values(pinned)} {objective['unit']}{against}"


def _values(values: list[float]) -> str:
    return " / ".join(map(shown_number, values))


def _from_here(path: Path) -> str:
    here = working_folder()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
