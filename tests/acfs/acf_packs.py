"""A manifest as NVIDIA's packs have it, for given files."""

from __future__ import annotations

import hashlib
from typing import Any

Contents = dict[str, bytes]


def describe(contents: Contents, **changes: Any) -> dict[str, Any]:
    acfs = [
        {"filename": name, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        for name, content in contents.items()
    ]
    return {
        "schema_version": 1,
        "pack_id": "test-pack",
        "cuda_version": "13.3",
        "supported_gpus": ["sm_90"],
        "acfs": acfs,
        **changes,
    }
