"""Whether the evidence for an ACF is enough for a pack, and what the pack's manifest says of it.

Evidence is what a pin keeps under `evidence`, and what `validate` leaves of a trial in run.json:

    "compiled" or {"kind": "compiled"}      no run time was taken
    {"kind": "measured", "status": …}       a gate's verdict: Verdict.to_record() and, for several shapes,
                                            "verdicts": one such record for each, with "shape", its index

A status other than FASTER on any shape is the status of the whole; a shape without a verdict makes it UNDECIDED.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from helitune.acfs.errors import InputError
from helitune.objectives.json_fields import items, number, text

from .verdict import Status

COMPILED = "compiled"
ALLOWABLE = {"ambiguous": Status.AMBIGUOUS.value, COMPILED: COMPILED}
"""What may be packed when it is asked for, by its name on the command line: the status it has in the manifest."""

_SEVEREST_FIRST = (
    Status.SLOWER,
    Status.UNSTABLE,
    Status.UNDECIDED,
    Status.NO_OP,
    Status.SAME,
    Status.AMBIGUOUS,
    Status.FASTER,
)
_NUMBERS = ("shape", "speedup", "low", "high", "runs", "rounds")


@dataclass(frozen=True, slots=True)
class Entry:
    """One winner as a run or a pin records it: what it is, where it ran, and the evidence for it.

    `gpu` is the architecture, `shapes` are in the notation of --args, `fingerprint` is the environment and `run`
    names the run and its trial. `source` is the pin's or run's path, for messages. `evidence` is the record that
    was found, whatever it is.
    """

    source: str
    kernel: str
    source_sha256: str
    reference: str
    gpu: str
    shapes: tuple[str, ...]
    config: Mapping[str, Any]
    fingerprint: Mapping[str, Any]
    run: Mapping[str, Any]
    evidence: object


@dataclass(frozen=True, slots=True)
class Provenance:
    """What one ACF was validated on, and with which result; `verdicts` has one record a shape, or one for all."""

    entry: Entry
    status: str
    verdicts: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """This record as a pack's manifest keeps it."""
        entry = self.entry
        return {
            "kernel": entry.kernel,
            "source_sha256": entry.source_sha256,
            "reference": entry.reference,
            "gpu": entry.gpu,
            "shapes": list(entry.shapes),
            "config": dict(entry.config),
            "status": self.status,
            "verdicts": [dict(verdict) for verdict in self.verdicts],
            "fingerprint": dict(entry.fingerprint),
            "run": dict(entry.run),
        }

    def sentence(self) -> str:
        """One line for people: "softmax f16[4096,2560] on sm_90: FASTER, 1.0255x (1.0241 to 1.0269)"."""
        gains = [shown for verdict in self.verdicts if (shown := _shown_gain(verdict))]
        where = f"{self.entry.kernel} {'; '.join(self.entry.shapes)} on {self.entry.gpu}"
        if self.status == COMPILED:
            return f"{where}: compiled only, no run time was taken"
        return f"{where}: {', '.join([self.status, *gains])}"


@dataclass(frozen=True, slots=True)
class Winner:
    """An accepted ACF: its bytes, the ptxas that it was used with ("13.3.73"), and what it was validated on."""

    content: bytes
    ptxas: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """A winner that does not go into the pack, and why."""

    source: str
    reason: str


def judged(entry: Entry, allow: Set[str], *, content: bytes, ptxas: str) -> Winner | NotAccepted:
    """The entry as a winner, or why it is none; InputError for an evidence record that cannot be read."""
    try:
        provenance = accepted(entry, allow)
        return Winner(content, ptxas, provenance) if provenance else NotAccepted(entry.source, refusal(entry))
    except ValueError as error:
        what = f"the evidence cannot be read: {error}"
        raise InputError(what, where=entry.source, next_step="validate and pin again") from error


def accepted(entry: Entry, allow: Set[str] = frozenset()) -> Provenance | None:
    """The provenance of an entry whose evidence is a FASTER verdict, or of a kind in `allow`; else None.

    `allow` holds names of ALLOWABLE. `refusal` says why it is None. Raises ValueError for a broken record.
    """
    status, verdicts = _read(entry)
    wanted = {Status.FASTER.value} | {ALLOWABLE[name] for name in allow}
    return Provenance(entry, status, verdicts) if status in wanted else None


def refusal(entry: Entry) -> str:
    """Why `accepted` gives None for an entry when nothing is allowed."""
    status, _ = _read(entry)
    allow = next((name for name, value in ALLOWABLE.items() if value == status), "")
    hint = f" (--allow {allow} takes it with that mark)" if allow else ""
    if status == COMPILED:
        return f"its evidence is compiled: no run time was taken{hint}"
    return f"its verdict is {status}, not {Status.FASTER.value}{hint}"


def _read(entry: Entry) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The status of an entry by its evidence, and what is kept of the verdicts; ValueError for a broken record."""
    evidence = entry.evidence
    kind = evidence if isinstance(evidence, str) else text(evidence, "kind")
    if kind == COMPILED:
        return COMPILED, ()
    if kind != "measured" or not isinstance(evidence, dict):
        raise ValueError(f"evidence: {str(kind)[:60]!r} is neither 'compiled' nor a verdict of a measurement")
    records = items(evidence, "verdicts") if "verdicts" in evidence else [evidence]
    found = [Status(text(record, "status")) for record in [evidence, *records]]
    if "verdicts" in evidence and not _cover(records, len(entry.shapes)):
        found.append(Status.UNDECIDED)
    return min(found, key=_SEVEREST_FIRST.index).value, tuple(_kept(record) for record in records)


def _cover(records: list[dict[str, Any]], shapes: int) -> bool:
    """Whether there is a verdict for each shape."""
    if shapes == 1:
        return bool(records)
    return {record.get("shape") for record in records} == set(range(shapes))


def _kept(record: dict[str, Any]) -> dict[str, Any]:
    """What a manifest keeps of a verdict: its words, and those of its numbers that are there."""
    kept: dict[str, Any] = {key: text(record, key) for key in ("status", "reason", "gate") if key in record}
    numbers = {key: number(record, key) for key in _NUMBERS if record.get(key) is not None}
    return {**kept, **numbers}


def _shown_gain(verdict: Mapping[str, Any]) -> str:
    if "speedup" not in verdict:
        return ""
    interval = (
        f" ({verdict['low']:.4f} to {verdict['high']:.4f})" if {"low", "high"} <= verdict.keys() else ""
    )
    return f"{verdict['speedup']:.4f}x{interval}"
