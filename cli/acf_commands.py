"""`helitune acf`: packs of ACFs; here what is in them and how they are taken over."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer

from helitune.acfs.acf import Acf
from helitune.acfs.catalog import find_packs
from helitune.acfs.content import SUFFIX
from helitune.acfs.errors import InputError
from helitune.acfs.pack import Pack, inspect_pack
from helitune.acfs.pack_folders import shipped_packs, users_packs
from helitune.acfs.pack_import import ImportedPack, import_pack

from . import acf_build_command, acf_diff_command, acf_verify_command
from .options import Json, Quiet

acf = typer.Typer(
    help="Packs of ACFs: what is in them, whether they are sound, and new ones from winners.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the group of commands to `app`."""
    acf.command("list")(list_packs)
    acf_verify_command.register(acf)
    acf.command("import")(import_packs)
    acf_build_command.register(acf)
    acf_diff_command.register(acf)
    app.add_typer(acf, name="acf")


def list_packs(
    packs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PACK]...", help="Folders, zips, or names; by default the shipped and the imported ones."
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the ACFs of packs with what their manifests say, and the refused files with the reasons."""
    names = packs or [str(path) for path in (shipped_packs() | users_packs()).values()]
    found = [inspect_pack(path) for name in names for path in find_packs(name)]
    if json:
        print(json_text.dumps({"packs": [_fields(pack) for pack in found]}))
        return
    for pack in found:
        print(f"{pack.name}: {len(pack.accepted)} ACFs {made_for(pack)} ({pack.source})")
        if not quiet:
            _print_pack(pack)


def made_for(pack: Pack) -> str:
    """What a pack is for: "for CUDA 13.3, sm_90"."""
    if pack.manifest is None:
        return "for what the pack does not say"
    return f"for CUDA {pack.manifest.cuda_version}, {', '.join(pack.manifest.supported_gpus)}"


def _print_pack(pack: Pack) -> None:
    if pack.manifest and pack.manifest.says:
        print(f"  {pack.manifest.says}")
    width = max((len(acf.name) for acf in pack.accepted), default=0)
    for acf in pack.accepted:
        said = f"  {text}" if (text := _says(pack, acf)) else ""
        print(f"  {acf.name:{width}}  {acf.sha256[:12]}  {_size_bytes(acf):>7} B{said}")
    for refusal in pack.refused:
        print(f"  refused {refusal.file}: {refusal.reason}")


def _fields(pack: Pack) -> dict[str, Any]:
    return {
        "name": pack.name,
        "source": str(pack.source),
        "cuda_version": pack.manifest.cuda_version if pack.manifest else "",
        "supported_gpus": list(pack.manifest.supported_gpus) if pack.manifest else [],
        "says": pack.manifest.says if pack.manifest else "",
        "notice": pack.notice,
        "acfs": [
            {
                "name": acf.name,
                "sha256": acf.sha256,
                "size_bytes": _size_bytes(acf),
                "arch": list(acf.arch),
                "toolkit": acf.toolkit,
                "says": _says(pack, acf),
            }
            for acf in pack.accepted
        ],
        "refused": [{"file": r.file, "reason": r.reason, "fault": r.fault} for r in pack.refused],
    }


def _says(pack: Pack, acf: Acf) -> str:
    """What the pack's manifest tells people of one ACF."""
    listed = pack.manifest.acfs if pack.manifest else ()
    file = acf.path.name if acf.path else f"{acf.name}{SUFFIX}"
    return next((entry.says for entry in listed if entry.file == file), "")


def _size_bytes(acf: Acf) -> int:
    return acf.path.stat().st_size if acf.path else 0


def import_packs(
    source: Annotated[
        str, typer.Argument(metavar="ZIP|DIR", help="A pack, or the folder of a release of packs.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Its name from now on, instead of the one that it has."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of a pack of that name.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take a pack over into your own folder, so that --acf-pack NAME finds it.

    A pack is taken whole or not at all: with a wrong hash or size, a missing file or a hostile zip nothing is
    written. The folder is HELITUNE_PACK_DIR, else that of the XDG data home.
    """
    found = find_packs(source)
    if name is not None and len(found) > 1:
        what = f"a release of {len(found)} packs cannot have one name"
        raise InputError(what, where="--as", next_step="leave it out, or import its zips one by one")
    imported = [import_pack(path, name=name, replace=replace) for path in found]
    if json:
        print(json_text.dumps({"imported": [_imported_fields(one) for one in imported]}))
        return
    for one in imported:
        if quiet:
            print(one.path)
        else:
            _print_imported(one)


def _print_imported(one: ImportedPack) -> None:
    print(f"{one.name}: {len(one.pack.accepted)} ACFs {made_for(one.pack)} ({one.path})")
    for refusal in one.left_out:
        print(f"  left out {refusal.file}: {refusal.reason}")
    if one.pack.notice:
        print("\n".join(f"  notice: {line}" for line in one.pack.notice.splitlines() if line.strip()))
    print(f"next: helitune tune KERNEL_FILE --acf-pack {one.name}")


def _imported_fields(one: ImportedPack) -> dict[str, Any]:
    return {
        **_fields(one.pack),
        "name": one.name,
        "path": str(one.path),
        "left_out": [{"file": refusal.file, "reason": refusal.reason} for refusal in one.left_out],
    }
