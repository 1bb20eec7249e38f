"""What a finished `evolve` prints on stdout: the ranking, what the ACFs gained on their config, and the next step."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Any

from helitune.acfs.errors import NegativeVerdict, UserError
from helitune.results.bred_acfs import bred_entries
from helitune.results.compileiq_csv import FILE_NAME
from helitune.results.evolve_verdict import Evolved, evolved
from helitune.results.ranking import failures

from .tune_report import interruption, print_ranking, report_tuned, shown_value, summary

if TYPE_CHECKING:
    from .pipeline import Tuned

NEXT = {
    "measured": "helitune validate {run}, then helitune acf build {run} -o PACK",
    "compiled": "helitune acf build {run} -o PACK --allow compiled",
}
"""What comes after a run, by its evidence."""


def report_run(tuned: Tuned, *, json: bool) -> None:
    """Print how a run of either kind ended; raises Interrupted or NegativeVerdict where that is how."""
    request = tuned.run.run()["request"].get("evolution")
    if request is not None and request["config"]:
        report_evolved(tuned, json=json)
    else:
        report_tuned(tuned, json=json)


def report_evolved(tuned: Tuned, *, json: bool) -> None:
    """Print how an evolution for one config ended; raises as report_run."""
    fields = tuned.run.run()
    found = evolved(tuned.trials, tuned.run.finals())
    end: UserError | None = interruption(tuned) if tuned.interrupted else verdict(tuned, found)
    if json:
        answer = summary(tuned.run.id, fields, tuned.trials, tuned.ranking)
        error = {"what": end.what, "where": end.where, "next_step": end.next_step} if end else None
        print(
            json_text.dumps(
                {
                    **answer,
                    "evolved": _fields(tuned, found),
                    "error": error,
                    "exit_code": end.exit_code if end else 0,
                }
            )
        )
    else:
        print_ranking(tuned.run.id, fields, tuned.trials, tuned.ranking)
        _print_evolved(tuned, fields, found)
    if end is not None:
        end.reported = True
        raise end
    if not json:
        print(f"next: {NEXT[fields['evidence']].format(run=tuned.run.id)}")


def verdict(tuned: Tuned, found: Evolved) -> NegativeVerdict | None:
    """None where an ACF ranks above the config without one, else the verdict that says why not."""
    if found.best is None:
        kinds = failures(tuned.trials)
        why = f"most often {kinds[0].stage}: {kinds[0].message}" if kinds else "nothing was tried"
        return NegativeVerdict(
            f"none of {found.tried} ACFs came through; {why}",
            where="evolve",
            next_step="see the failures above; another config may stand more of them",
        )
    if found.improved:
        return None
    return NegativeVerdict(
        f"none of {found.tried} ACFs ranks above the config without one",
        where="evolve",
        next_step="keep the config without an ACF, try another --config, or more --generations",
    )


def _print_evolved(tuned: Tuned, fields: dict[str, Any], found: Evolved) -> None:
    objective, evolution = fields["request"]["objective"], fields["request"]["evolution"]
    bred = bred_entries(fields)
    generations = bred[-1]["generation"] + 1 if bred else 0
    print(
        f"evolved for {evolution['origin']}: {len(bred)} ACFs in {generations} generation(s), "
        f"{found.failed} failed"
    )
    if found.plain is not None:
        print(f"  the config without an ACF: {shown_value(found.plain, objective)}")
    if found.best is not None:
        print(f"  with the best ACF, {found.best.acf_name}: {shown_value(found.best, objective)}")
    print(f"  as CompileIQ's CSV: {tuned.run.path / FILE_NAME}")


def _fields(tuned: Tuned, found: Evolved) -> dict[str, Any]:
    return {
        "tried": found.tried,
        "failed": found.failed,
        "plain": found.plain.to_json() if found.plain else None,
        "best": found.best.to_json() if found.best else None,
        "improved": found.improved,
        "csv": str(tuned.run.path / FILE_NAME),
    }
