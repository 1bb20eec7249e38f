"""NVIDIA's release of packs: a folder with booster-pack-catalog.json, the zips that it names, and SHA256SUMS.txt.

The catalog's sizes and hashes of the zips are binding. Keys that are not read here may be there and may hold
anything.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.archive import MAX_TOTAL_BYTES
from helitune.acfs.content import shown
from helitune.acfs.errors import InputError
from helitune.acfs.listing import SHA256, SUMS_NAMES, check_count, is_plain_name, read_listing, read_sums
from helitune.acfs.pack import Refusal, resolve_pack

CATALOG_NAME = "booster-pack-catalog.json"
SCHEMA_VERSION = 1

_TYPES = {"artifact_name": str, "artifact_sha256": str, "artifact_size_bytes": int}
_NEXT_STEP = (
    f"get the release again, or give one of its zips; without {CATALOG_NAME} nothing vouches for them"
)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One zip of a release as its catalog describes it; `sha256` in lower case."""

    file: str
    sha256: str
    size_bytes: int


def is_release(source: Path) -> bool:
    """Whether `source` is the folder of a release."""
    try:
        return (source / CATALOG_NAME).is_file()
    except (OSError, ValueError):
        return False


def read_catalog(folder: Path) -> tuple[CatalogEntry, ...]:
    """The zips of the release in `folder`. Raises InputError that names the key for a malformed catalog."""
    path = folder / CATALOG_NAME
    try:
        document = json.loads(read_listing(path))
    except (ValueError, RecursionError) as error:
        raise _malformed("not readable as JSON", str(path)) from error
    packs = document.get("packs") if isinstance(document, dict) else None
    if not isinstance(packs, list):
        raise _malformed("the list packs is missing", str(path))
    if document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise _malformed(f"only schema_version {SCHEMA_VERSION} is known", str(path))
    check_count(len(packs), str(path))
    return tuple(_entry(pack, f"{path}: packs[{i}]") for i, pack in enumerate(packs))


def find_packs(text: str) -> tuple[Path, ...]:
    """The packs that TEXT means on a command line: a pack as `--acf-pack` takes it, or all of a release's.

    Raises InputError where there is none, and for a release with a fault of its own.
    """
    path = resolve_pack(text)
    return release_packs(path) if is_release(path) else (path,)


def release_packs(folder: Path) -> tuple[Path, ...]:
    """The zips of the release in `folder`. Raises InputError for the first fault of the release itself."""
    faults = release_faults(folder)
    if faults:
        what = f"the release has a fault: {faults[0].file}: {faults[0].reason}"
        raise InputError(what, where=str(folder), next_step=_NEXT_STEP)
    return tuple(folder / entry.file for entry in read_catalog(folder))


def release_faults(folder: Path) -> tuple[Refusal, ...]:
    """Each file that differs from the catalog or SHA256SUMS.txt, sorted; the zips are not opened."""
    faults: dict[str, str] = {}
    for entry in read_catalog(folder):
        reason = _fault(folder, entry.file, entry.sha256, entry.size_bytes, CATALOG_NAME)
        if reason:
            faults[entry.file] = reason
    for name in SUMS_NAMES:
        if not (folder / name).is_file():
            continue
        for listed in read_sums(folder / name):
            reason = _fault(folder, listed.file, listed.sha256, None, name)
            if reason:
                faults.setdefault(listed.file, reason)
    return tuple(Refusal(shown(file), faults[file]) for file in sorted(faults))


def _entry(document: Any, where: str) -> CatalogEntry:
    if not isinstance(document, dict):
        raise _malformed("a JSON object was expected", where)
    for key, kind in _TYPES.items():
        if type(document.get(key)) is not kind:
            raise _malformed(f"{key} is missing or of another type", where)
    if not SHA256.fullmatch(document["artifact_sha256"]):
        raise _malformed("artifact_sha256 must have 64 hexadecimal digits", where)
    file = document["artifact_name"]
    if not is_plain_name(file) or not file.endswith(".zip"):
        raise _malformed("artifact_name is not the name of a zip", where)
    return CatalogEntry(file, document["artifact_sha256"].lower(), document["artifact_size_bytes"])


def _fault(folder: Path, file: str, sha256: str, size_bytes: int | None, origin: str) -> str:
    if not is_plain_name(file):
        return f"{origin} names a path, not a file of the release"
    path = folder / file
    try:
        if not path.is_file():
            return f"listed in {origin}, but missing"
        found_bytes = path.stat().st_size
        if size_bytes not in (None, found_bytes):
            return f"has {found_bytes} bytes, listed in {origin} with {size_bytes}"
        if found_bytes > MAX_TOTAL_BYTES:
            return f"larger than {MAX_TOTAL_BYTES >> 20} MiB"
        with path.open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror or error}"
    return "" if found == sha256 else f"sha256 is {found[:16]}..., listed in {origin} with {sha256[:16]}..."


def _malformed(what: str, where: str) -> InputError:
    return InputError(f"malformed catalog: {what}", where=where, next_step=_NEXT_STEP)
