"""`helitune show`: the ranking of a run, again."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer

from helitune.acfs.errors import InputError
from helitune.results.ranking import rank
from helitune.results.run_directory import find_run, working_folder
from helitune.results.run_verdicts import read_validation, read_verdicts
from helitune.results.trial import Trial

from .options import Json, RunArgument
from .trial_report import print_trial
from .tune_report import print_ranking, summary
from .validate_report import print_explained, print_verdicts


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("show")(show)


def show(
    run: RunArgument = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain", metavar="TRIAL", help="One trial, by number or id, with all that is known of it."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the ranking of a run and the verdicts on its finalists, or one of its trials."""
    found = find_run(working_folder(), run)
    fields, trials = found.run(), found.trials()
    where = str(found.path / "run.json")
    if explain is not None:
        trial = find_trial(trials, explain, str(found.path))
        if json:
            print(json_text.dumps(trial.to_json()))
        else:
            print_trial(trial, fields)
            _print_verdicts_of(trial, fields, where)
        return
    ranking = rank(trials, found.finals())
    if json:
        verdicts = {"verdicts": read_verdicts(fields, where), "validation": fields.get("validation")}
        print(json_text.dumps({**summary(found.id, fields, trials, ranking), **verdicts}))
        return
    print_ranking(found.id, fields, trials, ranking)
    print_verdicts(fields, where)


def _print_verdicts_of(trial: Trial, fields: dict[str, Any], where: str) -> None:
    shapes = read_validation(fields, where).get("shapes", [])
    for record in read_verdicts(fields, where):
        if record["trial"] == trial.id:
            print_explained(record, shapes)


ID_DIGITS = 16
"""Length of a trial's id: digits alone that are fewer are a number."""

LEAST_PREFIX = 4
"""So many of an id's first characters name a trial."""


def find_trial(trials: list[Trial], name: str, where: str) -> Trial:
    """The trial called `name`: its number, its id, or LEAST_PREFIX or more of the id's first characters.

    Raises InputError where none or several are.
    """
    if name.isascii() and name.isdigit() and len(name) < ID_DIGITS:
        found = [t for t in trials if t.number == int(name)]
    else:
        found = [t for t in trials if len(name) >= LEAST_PREFIX and t.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"{len(found) or 'no'} trials are called {name!r}",
        where=where,
        next_step=f"give a number or an id of trials.jsonl, or at least {LEAST_PREFIX} characters of the id",
    )
