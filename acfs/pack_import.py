"""A pack taken into the user's folder: whole, checked, and under a name that `--acf-pack` then knows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from helitune.acfs.archive import MAX_TOTAL_BYTES
from helitune.acfs.content import UnfitError, digest, read_inside, shown
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.folder import Folder
from helitune.acfs.listing import MAX_LISTING_BYTES
from helitune.acfs.pack import Pack, Refusal
from helitune.acfs.pack_faults import check_pack
from helitune.acfs.pack_folders import PACKS_VARIABLE, is_pack_name, shipped_packs, users_folder
from helitune.acfs.whole_folder import write_folder


@dataclass(frozen=True, slots=True)
class ImportedPack:
    """A pack as it now lies in the user's folder; `left_out` are files that are no part of a pack."""

    name: str
    path: Path
    pack: Pack
    left_out: tuple[Refusal, ...]


def import_pack(source: Path, *, name: str | None = None, replace: bool = False) -> ImportedPack:
    """The pack at `source`, a folder or a zip file, copied into the user's folder as `name`.

    The name is by default the manifest's pack_id, else that of the source. Raises InputError for a pack with a
    fault, an unusable name and one that is taken (unless `replace`), MachineError where the folder cannot be
    written; nothing is left behind then.
    """
    folder = users_folder()
    if folder is None:
        raise MachineError("there is no home folder to keep packs in", next_step=f"set {PACKS_VARIABLE}")
    pack, faults = check_pack(source)
    _require_usable(pack, faults)
    chosen = _name(pack, name)
    target = folder / chosen
    if not replace and os.path.lexists(target):
        next_step = "give --replace, or another name with --as"
        raise InputError(f"a pack {chosen} is there already", where=str(target), next_step=next_step)
    write_folder(target, _contents(pack), replace=replace)
    strays = {shown(file) for file in pack.folder.strays()}
    return ImportedPack(chosen, target, pack, tuple(r for r in pack.refused if r.file in strays))


def _require_usable(pack: Pack, faults: tuple[Refusal, ...]) -> None:
    if not faults and pack.accepted:
        return
    if not faults:
        what = (
            pack.misfit or f"no ACF of the pack can be used: {pack.refused[0].file}: {pack.refused[0].reason}"
        )
        raise InputError(what, where=shown(str(pack.source)), next_step="get the pack for ptxas")
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    raise InputError(
        f"the pack has a fault: {faults[0].file}: {faults[0].reason}{more}",
        where=shown(str(pack.source)),
        next_step="get the pack again; helitune acf verify lists all faults",
    )


def _name(pack: Pack, asked: str | None) -> str:
    source = pack.source.absolute()
    proposals = (
        [asked] if asked is not None else [pack.name, source.stem if source.is_file() else source.name]
    )
    name = next((text for text in proposals if is_pack_name(text)), None)
    if name is None:
        next_step = "give one with --as: letters, digits, dots, dashes and underscores, at most 64"
        raise InputError(
            f"no name for a pack: {shown(proposals[0])!r}", where=source.name, next_step=next_step
        )
    if name in shipped_packs():
        next_step = "give another one with --as"
        raise InputError(f"{name} is the name of a pack that comes with helitune", next_step=next_step)
    return name


def _contents(pack: Pack) -> dict[str, bytes]:
    """The ACFs and what usually lies beside them, by file name."""
    sha256s = {acf.path.name: acf.sha256 for acf in pack.accepted if acf.path is not None}
    contents: dict[str, bytes] = {}
    total_bytes = 0
    for name in _files(pack.folder):
        contents[name] = _read(pack.folder, name)
        if name in sha256s and digest(contents[name]) != sha256s[name]:
            raise InputError(f"{shown(name)} changes while it is read", where=shown(str(pack.source)))
        total_bytes += len(contents[name])
        if total_bytes > MAX_TOTAL_BYTES:
            what = f"the pack exceeds {MAX_TOTAL_BYTES >> 20} MiB in all"
            raise InputError(what, where=shown(str(pack.source)), next_step="leave out what is no part of it")
    return contents


def _files(folder: Folder) -> list[str]:
    """The files that belong to the pack: its ACFs (without faults, so they are files) and texts."""
    strays = folder.strays()
    return [name for name in folder.names if name not in strays and not (folder.path / name).is_dir()]


def _read(folder: Folder, name: str) -> bytes:
    try:
        return read_inside(folder.path, name, MAX_LISTING_BYTES)
    except UnfitError as unfit:
        what = f"{shown(name)} of the pack cannot be taken: {unfit.reason}"
        raise InputError(
            what, where=str(folder.path), next_step="remove it from the pack, or mend it"
        ) from unfit
