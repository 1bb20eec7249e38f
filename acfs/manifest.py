"""NVIDIA's booster-pack-manifest.json: what a pack was made for and what it holds.

Keys that are not read here may be there and may hold anything; those that are read must have their type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.acfs.listing import SHA256, Listed, check_count, read_listing

MANIFEST_NAME = "booster-pack-manifest.json"
SCHEMA_VERSION = 1

_VERSION = re.compile(r"\d{1,4}(\.\d{1,6}){1,3}", re.ASCII)
_TYPES = {
    "schema_version": int,
    "pack_id": str,
    "cuda_version": str,
    "controls_stage": str,
    "supported_gpus": list,
    "acfs": list,
}
_ACF_TYPES = {"filename": str, "sha256": str, "size_bytes": int}
_STAGES = "compiler_stages"
_MAX_SAYS = 500
_TYPE_NAMES = {str: "a string", int: "an integer", list: "a list"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest's content; `cuda_version` and `supported_gpus` as written: "13.3.0", ("B200",) or ("sm_90",).

    `says` is what it tells people of the pack.
    """

    pack_id: str
    cuda_version: str
    controls_stage: str
    supported_gpus: tuple[str, ...]
    acfs: tuple[Listed, ...]
    says: str = ""


def read_manifest(path: Path) -> Manifest:
    """The manifest at `path`. Raises InputError that names the file and the key for a malformed one."""
    top = _typed(_parse(path), _TYPES, ("cuda_version", "supported_gpus", "acfs"), str(path))
    if top.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        what = f"schema_version {top['schema_version']} is not known, only {SCHEMA_VERSION} is"
        raise _malformed(what, str(path))
    if not _VERSION.fullmatch(top["cuda_version"]):
        raise _malformed("cuda_version is not a version like 13.3", str(path))
    gpus = top["supported_gpus"]
    if not gpus or not all(isinstance(gpu, str) for gpu in gpus):
        raise _malformed('supported_gpus must list architectures like "sm_90"', str(path))
    check_count(len(top["acfs"]), str(path))
    return Manifest(
        pack_id=top.get("pack_id", ""),
        cuda_version=top["cuda_version"],
        controls_stage=top.get("controls_stage", "ptxas"),
        supported_gpus=tuple(gpus),
        acfs=tuple(_listed(entry, f"{path}: acfs[{i}]") for i, entry in enumerate(top["acfs"])),
        says=_says(top, ("display_name", "description")),
    )


def _parse(path: Path) -> object:
    try:
        document: object = json.loads(read_listing(path))
    except json.JSONDecodeError as error:
        raise _malformed(f"not JSON: {error.msg}", f"{path}:{error.lineno}") from error
    except (ValueError, RecursionError) as error:  # undecodable bytes, absurd numbers, absurd nesting
        raise _malformed("not readable as JSON", str(path)) from error
    return document


def _listed(entry: object, where: str) -> Listed:
    fields = _typed(entry, {**_ACF_TYPES, _STAGES: list}, tuple(_ACF_TYPES), where)
    if not SHA256.fullmatch(fields["sha256"]):
        raise _malformed("sha256 must have 64 hexadecimal digits", where)
    stages = fields.get(_STAGES, [])
    if not all(isinstance(stage, str) for stage in stages):
        raise _malformed(f'{_STAGES} must list compilers like "ptxas"', where)
    return Listed(
        file=fields["filename"],
        sha256=fields["sha256"].lower(),
        size_bytes=fields["size_bytes"],
        stages=tuple(stages),
        says=_says(fields, ("description", "notes")),
    )


def _says(fields: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """What the texts under `keys` say, on one line; other types are passed over, since nothing depends on it."""
    texts = [" ".join(fields[key].split()) for key in keys if isinstance(fields.get(key), str)]
    text = ": ".join(text for text in texts if text)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _MAX_SAYS else f"{text[: _MAX_SAYS - 3]}..."


def _typed(
    document: object, types: Mapping[str, type], required: tuple[str, ...], where: str
) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise _malformed("a JSON object was expected", where)
    for key in required:
        if key not in document:
            raise _malformed(f"the key {key} is missing", where)
    for key, kind in types.items():
        # not isinstance: true is no integer here
        if key in document and type(document[key]) is not kind:
            raise _malformed(f"{key} must be {_TYPE_NAMES[kind]}", where)
    return document


def _malformed(what: str, where: str) -> InputError:
    next_step = f"get the pack again, or remove {MANIFEST_NAME} to use the folder as a plain one"
    return InputError(f"malformed manifest: {what}", where=where, next_step=next_step)
