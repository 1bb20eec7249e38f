"""`helitune acf verify`: every checksum, size and entry of packs, and whether ptxas takes each of their ACFs."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from helitune.acfs.acf import Acf
from helitune.acfs.catalog import is_release, read_catalog, release_faults
from helitune.acfs.errors import InputError, MachineError, UserError
from helitune.acfs.gpu_names import architectures
from helitune.acfs.pack import Pack, Refusal, resolve_pack
from helitune.acfs.pack_faults import check_pack
from helitune.acfs.ptxas import Ptxas, find_ptxas, toolkit
from helitune.objectives.acf_effects import stub_failures
from helitune.objectives.targets import find_target

from .options import Json, PtxasOption, Quiet

DEFAULT_ARCH = "sm_90"
"""Of the stub kernel, for a pack that does not say what it is for."""


@dataclass
class _Checked:
    """What was found out of one source: its faults, why this machine cannot try it, files that are not used."""

    source: str
    acfs: int = 0
    faults: list[Refusal] = field(default_factory=list)
    misfit: str = ""
    unused: list[Refusal] = field(default_factory=list)
    tried: str = ""
    pack: Pack | None = None


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("verify")(verify)


def verify(
    packs: Annotated[
        list[str], typer.Argument(metavar="PACK...", help="Folders, zips, names, or folders of releases.")
    ],
    no_ptxas: Annotated[
        bool, typer.Option("--no-ptxas", help="Check files only; do not let ptxas try the ACFs.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="ARCH", help="Architecture to try them for, if not the pack's own."),
    ] = None,
    ptxas: PtxasOption = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check packs against their manifests and SHA256SUMS, and each ACF with ptxas on a stub kernel.

    One line a fault. Exit 0: all sound; 2: a fault; 3: sound, but not for the ptxas here.
    """
    arch = find_target(target).arch if target else None
    checked = [one for text in packs for one in _check(text)]
    stopped = None if no_ptxas else _try_all(checked, ptxas, arch)
    end = _end(checked) or stopped or _misfit(checked)
    if json:
        error = {"what": end.what, "where": end.where, "next_step": end.next_step} if end else None
        fields = {"packs": [_fields(one) for one in checked], "error": error}
        print(json_text.dumps({**fields, "exit_code": end.exit_code if end else 0}))
    else:
        for one in checked:
            _print(one, quiet=quiet)
    if end is not None:
        end.reported = True
        raise end


def _check(text: str) -> list[_Checked]:
    """The files of what TEXT means: of one pack, or of a release and each of its packs."""
    path = resolve_pack(text)
    if not is_release(path):
        return [_check_pack(path)]
    try:
        release = _Checked(str(path), faults=list(release_faults(path)))
        zips = [path / entry.file for entry in read_catalog(path)]
    except InputError as error:
        return [_unreadable(path, error)]
    return [release, *(_check_pack(file) for file in zips if file.is_file())]


def _check_pack(path: Path) -> _Checked:
    try:
        pack, faults = check_pack(path)
    except InputError as error:
        return _unreadable(path, error)
    unused = [refusal for refusal in pack.refused if not refusal.fault]
    return _Checked(str(path), len(pack.accepted), list(faults), pack.misfit, unused, pack=pack)


def _unreadable(path: Path, error: InputError) -> _Checked:
    return _Checked(str(path), faults=[Refusal(error.where or ".", error.what)])


def _try_all(checked: list[_Checked], override: str | None, arch: str | None) -> UserError | None:
    """Let ptxas try the ACFs of each pack; the error where there is no ptxas to try them with."""
    try:
        ptxas = find_ptxas(override)
        for one in checked:
            if one.pack is not None and one.pack.accepted:
                _try(one, one.pack, ptxas, arch)
    except MachineError as error:
        return error
    return None


def _try(one: _Checked, pack: Pack, ptxas: Ptxas, arch: str | None) -> None:
    made_for = pack.manifest.cuda_version if pack.manifest else ""
    if made_for and toolkit(made_for) != toolkit(ptxas.version):
        one.misfit = f"the pack is for CUDA {made_for}, this ptxas is {ptxas.version}: not tried"
        return
    arch = arch or _arch(pack)
    hint = "" if made_for else "; damaged, or made for another ptxas: the pack does not say"
    for failed in stub_failures(ptxas, arch, pack.accepted):
        one.faults.append(
            Refusal(_file(failed.acf), f"ptxas {ptxas.version} does not take it: {failed.failure}{hint}")
        )
    one.tried = f"ptxas {ptxas.version} on a stub kernel for {arch}"


def _arch(pack: Pack) -> str:
    known = architectures(pack.manifest.supported_gpus) if pack.manifest else ()
    return next((arch for arch in known if arch.startswith("sm_")), DEFAULT_ARCH)


def _file(acf: Acf) -> str:
    return acf.path.name if acf.path else acf.name


def _end(checked: list[_Checked]) -> UserError | None:
    faulty = [one for one in checked if one.faults]
    if not faulty:
        return None
    count = sum(len(one.faults) for one in faulty)
    return InputError(
        f"{count} fault(s) in {len(faulty)} of {len(checked)} pack(s)",
        where=", ".join(one.source for one in faulty[:3]),
        next_step="get the pack again, or mend its listing",
    )


def _misfit(checked: list[_Checked]) -> UserError | None:
    misfits = [one for one in checked if one.misfit]
    if not misfits:
        return None
    next_step = "give the ptxas it was made for with --ptxas, or check the files alone with --no-ptxas"
    return MachineError(misfits[0].misfit, where=misfits[0].source, next_step=next_step)


def _print(one: _Checked, *, quiet: bool) -> None:
    for fault in one.faults:
        print(f"{one.source}: {fault.file}: {fault.reason}")
    if one.misfit:
        print(f"{one.source}: {one.misfit}")
    if quiet:
        return
    for refusal in one.unused if not one.misfit else ():
        print(f"{one.source}: note: {refusal.file}: {refusal.reason}")
    if not (one.faults or one.misfit):
        tried = f"; each is taken by {one.tried}" if one.tried else ""
        what = (
            f"{one.acfs} ACFs, all files as listed"
            if one.pack
            else "catalog and SHA256SUMS agree with the files"
        )
        print(f"{one.source}: sound: {what}{tried}")


def _fields(one: _Checked) -> dict[str, object]:
    return {
        "source": one.source,
        "acfs": one.acfs,
        "faults": [asdict(fault) for fault in one.faults],
        "misfit": one.misfit,
        "unused": [asdict(refusal) for refusal in one.unused],
        "tried": one.tried,
    }
