"""`helitune pin`: the result of a run as files that plain Helion loads."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Annotated

import typer

from helitune.acfs.ptxas import find_ptxas
from helitune.results.fingerprint import fingerprint
from helitune.results.pin import Pin
from helitune.results.pin_choice import choose_trial, make_pin
from helitune.results.pin_forms import Place, shown_shapes
from helitune.results.pin_verify import write_verified
from helitune.results.run_directory import find_run

from .options import Json, PtxasOption, Quiet, RunArgument
from .show_command import find_trial
from .tune_report import shown_config, shown_number


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
        typer.Option(metavar="TRIAL", help="Pin this trial, by number or id, instead of the best."),
    ] = None,
    ptxas: PtxasOption = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pin the best of a run: config, ACF and evidence, as our JSON, Helion's JSON and a Python file.

    All that is written is read back and compiled by plain Helion, with empty caches, to the same code as in
    the run; else nothing is written.
    """
    found = find_run(Path.cwd(), run)
    fields, trials = found.run(), found.trials()
    asked = find_trial(trials, trial, str(found.path)) if trial is not None else None
    chosen = choose_trial(found, trials, asked)
    used = find_ptxas(ptxas or fields["request"]["ptxas"])
    now = fingerprint(used, fields["fingerprint"]["arch"])
    draft = make_pin(found, trials, chosen, now, asked=asked is not None)
    if not (json or quiet):
        print(f"trial {chosen.number} of run {found.id}: write, read back, compile", file=sys.stderr)
    written, place = write_verified(draft, found, output, used)
    if json:
        print(json_text.dumps(_summary(written, place)))
    elif quiet:
        print(place.json)
    else:
        _print_pin(written, place)


def _summary(written: Pin, place: Place) -> dict[str, object]:
    return {
        "pin": str(place.json),
        "helion": str(place.helion),
        "python": str(place.python),
        "acf": str(place.folder / written.acf.file) if written.acf else None,
        "verified": True,
        **written.to_json(),
    }


def _print_pin(written: Pin, place: Place) -> None:
    acf = written.acf
    print(_from_here(place.json))
    print(f"  kernel     {written.kernel} of {written.file}, reference {written.reference}")
    print(f"  gpu        {written.gpu}")
    for shape in shown_shapes(written.shapes):
        print(f"  shape      {shape}")
    print(f"  config     {shown_config(written.config)}")
    print(f"  ACF        {f'{acf.name}, in {acf.file}' if acf else 'none'}")
    if acf:
        print(f"  needs      ptxas {acf.ptxas} in TRITON_PTXAS_PATH and TRITON_PTXAS_BLACKWELL_PATH")
    print(f"  evidence   {written.evidence}: {_objective(written)}; no run time was taken")
    print(f"  verified   plain Helion compiles {place.helion.name} and {place.python.name} to the run's code")
    for note in written.notes:
        print(f"  note       {note}")
    print(f"  identity   {written.identity()}")


def _objective(written: Pin) -> str:
    objective = written.objective
    pinned, own = objective["pin"]["values"], objective["own"]
    against = f", the kernel's own config {_values(own['values'])}" if own else ""
    return f"{objective['name']} {_values(pinned)} {objective['unit']}{against}"


def _values(values: list[float]) -> str:
    return " / ".join(map(shown_number, values))


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
