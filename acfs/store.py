"""The content-addressed store: one path per content, for ever.

Triton's and Helion's caches key an ACF by its path alone. Under a path that is made of the content's
hash, a changed ACF can never get a stale binary.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from helitune.acfs.acf import Acf
from helitune.acfs.content import MAX_ACF_BYTES, SUFFIX, digest, read_at_most
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.paths import CACHE_VARIABLE, atomic_write

_NEXT_STEP = f"free some space there, or set {CACHE_VARIABLE} to a folder you can write to"


class AcfStore:
    """ACFs as `root`/<sha256>.acf. Raises MachineError for a root with white space: Triton splits there.

    `for_triton=False` is for a store that only keeps: its paths never become ptxas options of Triton.
    """

    def __init__(self, root: Path, *, for_triton: bool = True) -> None:
        self.root = root.absolute()
        if for_triton and any(character.isspace() for character in str(self.root)):
            what = f"the ACF store's path has white space, which ptxas options cannot hold: {self.root}"
            raise MachineError(what, next_step=f"set {CACHE_VARIABLE} to a folder without")

    def add(self, acf: Acf) -> Acf:
        """`acf` with its path in the store; "no ACF" as it is.

        Raises InputError when its file is no longer what `acf.sha256` says, MachineError when the store
        cannot be written.
        """
        if acf.path is None:
            return acf
        next_step = "do not change a pack while it is in use; start again"
        try:
            content = read_at_most(acf.path, MAX_ACF_BYTES)
        except OSError as error:
            what = f"cannot read the ACF {acf.name}: {error.strerror or error}"
            raise InputError(what, where=str(acf.path), next_step=next_step) from error
        if content is None or digest(content) != acf.sha256:
            what = f"the ACF {acf.name} has changed since its pack was read"
            raise InputError(what, where=str(acf.path), next_step=next_step)
        return self._keep(acf, content)

    def add_content(self, content: bytes, *, name: str, arch: tuple[str, ...] = (), toolkit: str = "") -> Acf:
        """The Acf of `content`, in the store; for ACFs that come from a search and not from a file."""
        return self._keep(Acf(name, digest(content), None, arch, toolkit), content)

    def _keep(self, acf: Acf, content: bytes) -> Acf:
        path = self.root / f"{acf.sha256}{SUFFIX}"
        if not _holds(path, content):
            atomic_write(path, content, next_step=_NEXT_STEP)
        return replace(acf, path=path)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return read_at_most(path, len(content)) == content
    except OSError:
        return False
