"""A pack written: ACFs named by their content, and the manifest, SHA256SUMS and NOTICE that go with them.

The manifest is one that acfs/manifest.py and NVIDIA's own readers read. `provenance` of an ACF, one record for
each workload that it was validated on, is ours: other readers pass it over. The same ACFs with the same
provenance give the same bytes, whenever and in whatever order they come.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.content import MAX_ACF_BYTES, MAX_FILES, SUFFIX, digest
from helitune.acfs.errors import InputError
from helitune.acfs.listing import MAX_LISTING_BYTES, SUMS_NAME
from helitune.acfs.manifest import MANIFEST_NAME, SCHEMA_VERSION
from helitune.acfs.pack import Pack, inspect_pack
from helitune.acfs.whole_folder import write_folder

NOTICE_NAME = "NOTICE"
CAVEATS = (
    "An ACF fits one version of ptxas and one architecture.",
    "What it gained on one workload says nothing of another, nor of another config: check the output, and measure.",
)


@dataclass(frozen=True, slots=True)
class PackedAcf:
    """One ACF of a pack: its bytes, one line for people, and a JSON record of each workload it was validated on."""

    content: bytes
    description: str
    provenance: tuple[Mapping[str, Any], ...]

    @property
    def file(self) -> str:
        """The file's name in the pack."""
        return f"{digest(self.content)[:16]}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class PackHead:
    """What a manifest says of the whole pack; `cuda_version` like "13.3", `supported_gpus` like ("sm_90",).

    `passed` is True where each ACF is there for a measured FASTER alone, `evidence` one sentence on it.
    """

    pack_id: str
    description: str
    cuda_version: str
    supported_gpus: tuple[str, ...]
    passed: bool
    evidence: str


def write_pack(target: Path, head: PackHead, acfs: Sequence[PackedAcf], *, notice: str) -> Pack:
    """The pack that is then in the new folder `target`, read back.

    Raises InputError where something is at `target` or the pack is larger than packs may be, MachineError where
    it cannot be written; nothing is left there then.
    """
    contents = pack_contents(head, acfs, notice=notice)
    if len(contents) > MAX_FILES or len(contents[MANIFEST_NAME]) > MAX_LISTING_BYTES:
        next_step = "build several packs of fewer winners"
        raise InputError("too many winners for one pack", where=str(target), next_step=next_step)
    write_folder(target, contents)
    pack = inspect_pack(target)
    assert len(pack.accepted) == len(acfs), "the reader refuses what was written"
    return pack


def pack_contents(head: PackHead, acfs: Sequence[PackedAcf], *, notice: str) -> dict[str, bytes]:
    """The files of the pack by name. The ACFs must differ and have 1 byte to 1 MiB each."""
    contents = {acf.file: acf.content for acf in acfs}
    assert len(contents) == len(acfs), "two ACFs of one name"
    assert all(0 < len(content) <= MAX_ACF_BYTES for content in contents.values())
    contents[NOTICE_NAME] = notice.encode()
    contents[MANIFEST_NAME] = json.dumps(_manifest(head, acfs), indent=1).encode() + b"\n"
    contents[SUMS_NAME] = "".join(f"{digest(contents[name])}  {name}\n" for name in sorted(contents)).encode()
    return contents


def _manifest(head: PackHead, acfs: Sequence[PackedAcf]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "release_tag": "local",
        "pack_id": head.pack_id,
        "pack_type": "performance",
        "display_name": head.pack_id,
        "description": head.description,
        "cuda_version": head.cuda_version,
        "controls_stage": "ptxas",
        "supported_gpus": list(head.supported_gpus),
        "validation_summary": {"status": "passed" if head.passed else "pending", "evidence": head.evidence},
        "caveats": list(CAVEATS),
        "acfs": [_entry(acf) for acf in sorted(acfs, key=lambda acf: acf.file)],
    }


def _entry(acf: PackedAcf) -> dict[str, Any]:
    return {
        "filename": acf.file,
        "sha256": digest(acf.content),
        "size_bytes": len(acf.content),
        "compiler_stages": ["ptxas"],
        "description": acf.description,
        "provenance": sorted(acf.provenance, key=lambda record: json.dumps(record, sort_keys=True)),
    }
