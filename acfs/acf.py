"""What an ACF is to this project: opaque bytes with a name, a hash and the compiler they were made for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Acf:
    """One ptxas Advanced Controls File, or its absence.

    `sha256` names the content and is "" for "no ACF", which is always a choice of its own.
    `arch` lists the architectures the pack was made for ("sm_90"), `toolkit` the CUDA version ("13.3");
    both are empty where the source does not say.
    """

    name: str
    sha256: str
    path: Path | None
    arch: tuple[str, ...] = ()
    toolkit: str = ""


NO_ACF = Acf(name="", sha256="", path=None)
