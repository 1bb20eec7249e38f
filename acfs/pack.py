"""A pack: a folder or zip of ACFs, each accepted or refused, before anything is compiled.

A booster-pack-manifest.json or a SHA256SUMS in the pack is binding: a file that differs from it, is missing
or is not listed is refused alone. A pack made for another toolkit or architecture is refused whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from helitune.acfs.acf import Acf
from helitune.acfs.content import SUFFIX, UnfitError, digest, read_content, shown
from helitune.acfs.errors import InputError
from helitune.acfs.folder import Folder, open_folder
from helitune.acfs.gpu_names import architectures, fits
from helitune.acfs.listing import SUMS_NAMES, Listed, is_plain_name, read_sums
from helitune.acfs.manifest import MANIFEST_NAME, Manifest, read_manifest
from helitune.acfs.pack_folders import shipped_packs, users_packs
from helitune.acfs.ptxas import toolkit

_STAGE = "ptxas"
_STAGES = (_STAGE, "both")  # of a pack; each ACF of a pack for both says which it is for


@dataclass(frozen=True, slots=True)
class Refusal:
    """One file of a pack that is not used, and why.

    `fault` is True where the file is not what the pack says or no ACF at all; False for a sound file that is
    not wanted: one of another compiler, a repeated one, or one that is no part of a pack.
    """

    file: str
    reason: str
    fault: bool = True


@dataclass(frozen=True)
class Pack:
    """What a source holds: `accepted` and `refused` are sorted by file name, `notice` is its NOTICE.

    `misfit` says why the whole pack is refused, where it was made for something else; "" where it was not.
    `folder` is where its files are now: that of `source`, or a temporary one for a zip.
    """

    name: str
    source: Path
    accepted: tuple[Acf, ...]
    refused: tuple[Refusal, ...]
    notice: str
    misfit: str
    folder: Folder
    manifest: Manifest | None


def read_pack(source: Path, *, ptxas_version: str, arch: str, force: bool = False) -> Pack:
    """The pack at `source`, a folder or a zip file, judged for `arch` ("sm_90") and a ptxas ("13.3.73").

    `force` accepts a pack made for another toolkit or architecture; wrong hashes and sizes stay refused.
    Nothing accepted is no error here. Raises InputError when the source is neither, cannot be read, or has
    a malformed listing. The files of a zip stay where they were unpacked until the process ends.
    """
    return _read(source, lambda manifest: _misfit(manifest, ptxas_version, arch, force))


def inspect_pack(source: Path) -> Pack:
    """The pack at `source` as it is, whatever toolkit and architecture it was made for; raises as read_pack."""
    return _read(source, _other_stage)


def _read(source: Path, judge: Callable[[Manifest], str]) -> Pack:
    folder = open_folder(source)
    manifest = read_manifest(folder.path / MANIFEST_NAME) if MANIFEST_NAME in folder.names else None
    accepted, refused = _judge(folder, manifest)
    misfit = judge(manifest) if manifest else ""
    if misfit:
        refused += [Refusal(shown(file), misfit, fault=False) for file in accepted]
        accepted = {}
    name = source.stem if source.is_file() else folder.path.name
    return Pack(
        name=shown((manifest.pack_id if manifest else "") or name),
        source=source,
        accepted=tuple(accepted[file] for file in sorted(accepted)),
        refused=tuple(sorted(refused, key=lambda refusal: refusal.file)),
        notice=folder.notice(),
        misfit=misfit,
        folder=folder,
        manifest=manifest,
    )


def read_packs(
    sources: Sequence[Path], *, ptxas_version: str, arch: str, force: bool = False
) -> tuple[tuple[Acf, ...], tuple[Pack, ...]]:
    """The ACFs of all sources in their order, and the packs; a content already seen is refused as such."""
    seen: dict[str, str] = {}
    packs: list[Pack] = []
    for source in sources:
        pack = read_pack(source, ptxas_version=ptxas_version, arch=arch, force=force)
        again = [acf for acf in pack.accepted if acf.sha256 in seen]
        new = tuple(acf for acf in pack.accepted if acf.sha256 not in seen)
        repeated = [Refusal(_file(acf), f"same content as {seen[acf.sha256]}", fault=False) for acf in again]
        refused = sorted([*pack.refused, *repeated], key=lambda refusal: refusal.file)
        packs.append(replace(pack, accepted=new, refused=tuple(refused)))
        seen.update((acf.sha256, f"{_file(acf)} of {pack.name}") for acf in new)
    return tuple(acf for pack in packs for acf in pack.accepted), tuple(packs)


def resolve_pack(text: str) -> Path:
    """The path that `--acf-pack TEXT` means: an existing path, else the user's pack of that name, else the shipped.

    Raises InputError that lists both.
    """
    try:
        if text and Path(text).exists():
            return Path(text)
    except (OSError, ValueError):  # too long or no path at all: then it is no existing one
        pass
    return users_packs().get(text) or shipped_pack(text)


def shipped_pack(name: str = "h200-seed") -> Path:
    """The folder of a pack that comes with helitune. Raises InputError that lists all packs for another name."""
    shipped = shipped_packs()
    if name not in shipped:
        what = f"no pack at {shown(name)!r}, and none of that name is imported or shipped"
        names = ", ".join({**users_packs(), **shipped})
        raise InputError(what, next_step=f"give a folder, a .zip file, or one of: {names}")
    return shipped[name]


def _judge(folder: Folder, manifest: Manifest | None) -> tuple[dict[str, Acf], list[Refusal]]:
    """The accepted by file name, and the refused, with no regard to what the pack was made for."""
    arch = architectures(manifest.supported_gpus) if manifest else ()
    made_for = toolkit(manifest.cuda_version) if manifest else ""
    candidates, refused = _candidates(folder, manifest)
    accepted: dict[str, Acf] = {}
    first: dict[str, str] = {}
    for file in sorted(candidates):
        try:
            sha256 = _checked(folder.path, file, candidates[file])
        except UnfitError as unfit:
            refused.append(Refusal(shown(file), unfit.reason))
            continue
        unwanted = _unwanted(candidates[file], manifest, first.setdefault(sha256, shown(file)), file)
        if unwanted:
            refused.append(Refusal(shown(file), unwanted, fault=False))
        else:
            accepted[file] = Acf(shown(Path(file).stem), sha256, folder.path / file, arch, made_for)
    return accepted, refused


def _candidates(folder: Folder, manifest: Manifest | None) -> tuple[dict[str, Listed | None], list[Refusal]]:
    """The files to read, each with its entry in the pack's listing if any, and those refused unread."""
    refused = [Refusal(shown(file), reason, fault=False) for file, reason in folder.strays().items()]
    if manifest:
        origin, listed = MANIFEST_NAME, manifest.acfs
    elif sums := [name for name in SUMS_NAMES if name in folder.names]:
        origin = sums[0]
        listed = tuple(entry for entry in read_sums(folder.path / origin) if entry.file.endswith(SUFFIX))
    else:
        return dict.fromkeys(folder.acf_files()), refused
    candidates: dict[str, Listed | None] = {}
    present = set(folder.acf_files())
    for entry in listed:
        reason = _entry_fault(entry, present, origin, entry.file in candidates)
        if reason:
            refused.append(Refusal(shown(entry.file), reason))
        else:
            candidates[entry.file] = entry
    unlisted = present - {entry.file for entry in listed}
    return candidates, refused + [Refusal(shown(file), f"not listed in {origin}") for file in unlisted]


def _entry_fault(entry: Listed, present: Set[str], origin: str, again: bool) -> str:
    if not is_plain_name(entry.file):
        return f"{origin} names a path, not a file of the pack"
    if again:
        return f"listed twice in {origin}"
    if not entry.file.endswith(SUFFIX):
        return f"listed in {origin}, but not an {SUFFIX} file"
    return "" if entry.file in present else f"listed in {origin}, but missing"


def _unwanted(entry: Listed | None, manifest: Manifest | None, first: str, file: str) -> str:
    """Why a sound file is not used; "" where it is. `first` is the first file with its content."""
    if first != shown(file):
        return f"same content as {first}"
    if entry and entry.stages:
        stages = shown(" and ".join(entry.stages))
        return "" if entry.stages == (_STAGE,) else f"for {stages}, not for ptxas alone"
    mixed = manifest is not None and manifest.controls_stage == "both"
    return "in a pack for several compilers, and does not say for which" if mixed else ""


def _checked(folder: Path, file: str, entry: Listed | None) -> str:
    """The SHA-256 of the file. Raises UnfitError when it is no ACF or differs from its entry."""
    content = read_content(folder, file)
    sha256 = digest(content)
    if entry and entry.size_bytes not in (None, len(content)):
        raise UnfitError(f"has {len(content)} bytes, listed with {entry.size_bytes}")
    if entry and entry.sha256 != sha256:
        raise UnfitError(f"sha256 is {sha256[:16]}..., listed with {entry.sha256[:16]}...")
    return sha256


def _misfit(manifest: Manifest, ptxas_version: str, arch: str, force: bool) -> str:
    stage = _other_stage(manifest)
    if stage:
        return stage
    reasons = []
    if toolkit(manifest.cuda_version) != toolkit(ptxas_version):
        reasons.append(f"the pack is for CUDA {manifest.cuda_version}, this ptxas is {ptxas_version}")
    if not fits(manifest.supported_gpus, arch):
        reasons.append(f"the pack is for {shown(', '.join(manifest.supported_gpus))}, not for {arch}")
    return "" if force else "; ".join(reasons)


def _other_stage(manifest: Manifest) -> str:
    """Why no ptxas can use the pack; "" where one can."""
    stage = manifest.controls_stage
    return "" if stage in _STAGES else f"the pack controls {shown(stage)}, not ptxas"


def _file(acf: Acf) -> str:
    return shown(acf.path.name) if acf.path else acf.name
