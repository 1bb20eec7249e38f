"""The architecture that a name in a manifest's `supported_gpus` stands for.

Our manifests name architectures ("sm_90"), NVIDIA's name products ("B200") or "ALL". A pack fits an
architecture that one of its names stands for exactly; a product that is not known here fits none.
Compute capabilities: NVIDIA's page "CUDA GPU Compute Capability".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?", re.ASCII)
_PRODUCTS = {
    "sm_80": ("a100", "a30"),
    "sm_86": ("a40", "a10", "rtxa6000"),
    "sm_89": ("l4", "l40", "l40s", "rtx6000ada"),
    "sm_90": ("h100", "h200", "h20", "gh200"),
    "sm_100": ("b200", "gb200"),
    "sm_103": ("b300", "gb300"),
    "sm_120": ("rtxpro6000blackwell", "rtx5090"),
    "sm_121": ("gb10",),
}
_ARCHITECTURE_OF = {product: arch for arch, products in _PRODUCTS.items() for product in products}


def architectures(names: Sequence[str]) -> tuple[str, ...]:
    """What `names` stand for, like ("sm_90",), without repeats; unknown ones as they are, () for all GPUs."""
    if _for_all(names):
        return ()
    return tuple(dict.fromkeys(_architecture(name) for name in names))


def fits(names: Sequence[str], arch: str) -> bool:
    """Whether a pack for `names` is one for `arch` ("sm_90"), which must match exactly."""
    return _for_all(names) or arch in architectures(names)


def _for_all(names: Sequence[str]) -> bool:
    return any(name.strip().upper() == "ALL" for name in names)


def _architecture(name: str) -> str:
    plain = name.strip().lower()
    if _ARCHITECTURE.fullmatch(plain):
        return plain
    product = re.sub(r"[\s_-]", "", plain).removeprefix("nvidia")
    return _ARCHITECTURE_OF.get(product, name)
