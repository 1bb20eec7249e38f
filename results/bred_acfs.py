"""The ACFs that a run breeds, kept in its folder and in its run.json before any of them is compiled.

run.json lists them under `acfs` after those of packs, in the order of proposal, each with the `generation` (from 0)
it was proposed in and its `size_bytes`. A resumed run goes through the same proposals, but the same controls come in
other bytes each time: a proposal is the one that has its place in that order, with the bytes that were kept then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helitune.acfs.acf import Acf
from helitune.acfs.content import SUFFIX
from helitune.acfs.errors import InputError
from helitune.acfs.paths import cache_root
from helitune.acfs.store import AcfStore

from .run_directory import RunDirectory


class BredAcfs:
    """Keeps the ACFs of one run: search.evolution.Keep. They are for `arch` ("sm_90") and `toolkit` ("13.3")."""

    def __init__(self, run: RunDirectory, *, arch: str, toolkit: str) -> None:
        self._run = run
        self._arch = arch
        self._toolkit = toolkit
        self._kept = AcfStore(run.acfs, for_triton=False)
        self._used = AcfStore(cache_root() / "acfs")
        self._proposed: list[int] = []
        """The generation of each proposal so far."""

    def __call__(self, contents: Sequence[bytes], /, *, generation: int) -> list[Acf]:
        """The Acf of each of `contents`, the next in the run's order.

        Raises InputError where the run holds other proposals in these places: CompileIQ no longer gives the same.
        """
        fields = self._run.run()
        before = bred_entries(fields)[len(self._proposed) :][: len(contents)]
        for entry, content in zip(before, contents, strict=False):
            self._require_same(entry, content, generation)
        new = [
            self._new(content, generation, self._in_generation(generation) + number)
            for number, content in enumerate(contents)
            if number >= len(before)
        ]
        if new:
            self._run.write_run({**fields, "acfs": [*fields["acfs"], *new]})
        self._proposed += [generation] * len(contents)
        return [self._acf(entry) for entry in (*before, *new)]

    def _in_generation(self, generation: int) -> int:
        return self._proposed.count(generation)

    def _new(self, content: bytes, generation: int, number: int) -> dict[str, Any]:
        acf = self._kept.add_content(content, name=f"g{generation}-{number}")
        return {
            "name": acf.name,
            "sha256": acf.sha256,
            "arch": [self._arch],
            "toolkit": self._toolkit,
            "generation": generation,
            "size_bytes": len(content),
        }

    def _acf(self, entry: dict[str, Any]) -> Acf:
        """The ACF of an entry, where ptxas and Triton can read it."""
        kept = self._run.acfs / f"{entry['sha256']}{SUFFIX}"
        return self._used.add(
            Acf(entry["name"], entry["sha256"], kept, tuple(entry["arch"]), entry["toolkit"])
        )

    def _require_same(self, entry: dict[str, Any], content: bytes, generation: int) -> None:
        # the bytes differ, their number does not
        if (entry["generation"], entry["size_bytes"]) != (generation, len(content)):
            raise InputError(
                f"CompileIQ does not propose again what this run recorded as {entry['name']}",
                where=str(self._run.path),
                next_step="start a new run; ACFs of this one are tried first with --warm-start",
            )


def bred_entries(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of ACFs that were bred, in the order of proposal, of these fields of run.json."""
    return [entry for entry in fields["acfs"] if "generation" in entry]


def listed_entries(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of ACFs that the run began with, of these fields of run.json."""
    return [entry for entry in fields["acfs"] if "generation" not in entry]
