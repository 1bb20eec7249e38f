"""What is wrong with a pack: its manifest or plain folder as packs are always read, and all of its SHA256SUMS."""

from __future__ import annotations

from pathlib import Path

from helitune.acfs.content import UnfitError, digest, read_inside, shown
from helitune.acfs.folder import Folder
from helitune.acfs.listing import MAX_LISTING_BYTES, SUMS_NAMES, is_plain_name, read_sums
from helitune.acfs.pack import Pack, Refusal, inspect_pack


def check_pack(source: Path) -> tuple[Pack, tuple[Refusal, ...]]:
    """The pack at `source`, and each file of it that is not what the pack says; sorted by name.

    A pack without any ACF has a fault of its own. Raises InputError as read_pack does, for what cannot be read.
    """
    pack = inspect_pack(source)
    faults = {refusal.file: refusal for refusal in pack.refused if refusal.fault}
    for name in SUMS_NAMES:
        if name in pack.folder.names:
            for refusal in _sums_faults(pack.folder, name):
                faults.setdefault(refusal.file, refusal)
    if not pack.folder.acf_files() and not faults:
        faults["."] = Refusal(".", "holds no ACF")
    return pack, tuple(faults[file] for file in sorted(faults))


def _sums_faults(folder: Folder, name: str) -> list[Refusal]:
    """The files that differ from the listing `name`, and the ACFs that are not in it."""
    listed = read_sums(folder.path / name)
    faults = [Refusal(shown(e.file), why) for e in listed if (why := _fault(folder, e.file, e.sha256, name))]
    unlisted = set(folder.acf_files()) - {entry.file for entry in listed}
    return faults + [Refusal(shown(file), f"not listed in {name}") for file in unlisted]


def _fault(folder: Folder, file: str, sha256: str, origin: str) -> str:
    if not is_plain_name(file):
        return f"{origin} names a path, not a file of the pack"
    if file not in folder.names:
        return f"listed in {origin}, but missing"
    try:
        found = digest(read_inside(folder.path, file, MAX_LISTING_BYTES))
    except UnfitError as unfit:
        return unfit.reason
    same = found == sha256
    return "" if same else f"sha256 is {found[:16]}..., listed in {origin} with {sha256[:16]}..."
