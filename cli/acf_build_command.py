"""`helitune acf build`: a pack from the accepted winners of runs and pins."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from helitune.acfs.content import digest
from helitune.acfs.errors import InputError, NegativeVerdict
from helitune.acfs.pack import Pack
from helitune.acfs.pack_folders import is_pack_name
from helitune.acfs.pack_writer import PackedAcf, write_pack
from helitune.results.pack_evidence import ALLOWABLE, NotAccepted
from helitune.results.pack_sources import gather, pack_head, packed
from helitune.results.pin_forms import NOTICE
from helitune.results.run_directory import working_folder

from .options import Json, Quiet


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("build")(build)


def build(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|PIN...", help="Runs by folder or id, pins by .json file, or folders of pins."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The pack's folder, which is not there yet.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The pack's id; by default the folder's name."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="STATUS",
            help="Take winners that are only ambiguous or compiled, too, marked as such; repeatable.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build a pack from winners that validate confirmed as FASTER, each ACF with what it was validated on.

    Equal ACFs of several winners become one file with several provenances. Exit 1 where nothing is accepted.
    """
    allowed = frozenset(allow or ())
    if not allowed <= ALLOWABLE.keys():
        what = f"unknown status {min(allowed - ALLOWABLE.keys())!r}"
        raise InputError(what, where="--allow", next_step=f"choose from {', '.join(ALLOWABLE)}")
    pack_id = name if name is not None else output.absolute().name
    if not is_pack_name(pack_id):
        next_step = "give one with --name: letters, digits, dots, dashes and underscores, at most 64"
        raise InputError(f"no name for a pack: {pack_id!r}", where="acf build", next_step=next_step)
    winners, refused = gather(sources, working_folder(), allowed)
    if not winners:
        _end_without(refused, json=json)
    acfs = packed(winners)
    pack = write_pack(output.absolute(), pack_head(winners, pack_id), acfs, notice=NOTICE)
    if json:
        print(json_text.dumps(_fields(pack, acfs, refused)))
    elif quiet:
        print(pack.source)
    else:
        _print(pack, acfs, refused)


def _end_without(refused: tuple[NotAccepted, ...], *, json: bool) -> None:
    """Raise the verdict that there is nothing to pack."""
    reasons = "; ".join(f"{one.source}: {one.reason}" for one in refused[:3])
    end = NegativeVerdict(
        f"no winner is accepted: {reasons}",
        where="acf build",
        next_step="validate the run and pin it, or name others",
    )
    if json:
        error = {"what": end.what, "where": end.where, "next_step": end.next_step}
        print(json_text.dumps({"refused": _refused(refused), "error": error, "exit_code": end.exit_code}))
        end.reported = True
    raise end


def _print(pack: Pack, acfs: tuple[PackedAcf, ...], refused: tuple[NotAccepted, ...]) -> None:
    assert pack.manifest is not None
    gpus = ", ".join(pack.manifest.supported_gpus)
    print(
        f"{pack.name}: {len(pack.accepted)} ACFs for CUDA {pack.manifest.cuda_version}, {gpus} ({pack.source})"
    )
    for acf in sorted(acfs, key=lambda acf: acf.file):
        print(f"  {acf.file}  {len(acf.content):>7} B  {acf.description}")
    for one in refused:
        print(f"  refused {one.source}: {one.reason}")
    print(f"next: helitune acf verify {pack.source}")


def _fields(pack: Pack, acfs: tuple[PackedAcf, ...], refused: tuple[NotAccepted, ...]) -> dict[str, Any]:
    return {
        "pack": str(pack.source),
        "name": pack.name,
        "acfs": [
            {
                "file": acf.file,
                "sha256": digest(acf.content),
                "size_bytes": len(acf.content),
                "provenance": list(acf.provenance),
            }
            for acf in acfs
        ],
        "refused": _refused(refused),
    }


def _refused(refused: tuple[NotAccepted, ...]) -> list[dict[str, str]]:
    return [{"source": one.source, "reason": one.reason} for one in refused]
