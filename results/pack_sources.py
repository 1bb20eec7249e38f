"""What a pack is built from: the accepted winners of runs and pins, each content once, all of one toolchain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from helitune.acfs.errors import InputError
from helitune.acfs.pack_writer import PackedAcf, PackHead
from helitune.acfs.ptxas import toolkit

from .pack_evidence import NotAccepted, Provenance, Winner
from .pack_pin_source import pin_winner
from .pack_run_source import run_winners
from .run_directory import find_run
from .verdict import Status


def gather(
    names: Sequence[str], folder: Path, allow: Set[str] = frozenset()
) -> tuple[tuple[Winner, ...], tuple[NotAccepted, ...]]:
    """The accepted winners of all runs and pins in `names`, and the refused ones.

    A name is a pin's .json file, a run's folder, a folder of pins, or a run's id below `folder`. Raises
    InputError for one that is none of these, and for a broken pin or run.
    """
    winners: list[Winner] = []
    refused: list[NotAccepted] = []
    for name in names:
        for found in _read(name, folder, allow):
            if isinstance(found, Winner):
                winners.append(found)
            else:
                refused.append(found)
    return tuple(winners), tuple(refused)


def packed(winners: Sequence[Winner]) -> tuple[PackedAcf, ...]:
    """One entry for each content, with the provenances of all winners that have it."""
    by_content: dict[bytes, list[Provenance]] = {}
    for winner in winners:
        known = by_content.setdefault(winner.content, [])
        if winner.provenance.to_json() not in [provenance.to_json() for provenance in known]:
            known.append(winner.provenance)
    return tuple(
        PackedAcf(
            content=content,
            description=" | ".join(sorted(provenance.sentence() for provenance in provenances)),
            provenance=tuple(provenance.to_json() for provenance in provenances),
        )
        for content, provenances in by_content.items()
    )


def pack_head(winners: Sequence[Winner], pack_id: str) -> PackHead:
    """What the manifest of a pack of these winners, at least one, says of it.

    Raises InputError where they were made with different toolkits or for different architectures: a pack that
    says it is for several would be believed for each.
    """
    made_for = {(toolkit(w.ptxas), w.provenance.entry.gpu): w.provenance.entry.source for w in winners}
    if len(made_for) > 1:
        (one, source), (other, other_source) = sorted(made_for.items())[:2]
        raise InputError(
            f"winners of different toolchains: CUDA {one[0]} on {one[1]} ({source}), "
            f"CUDA {other[0]} on {other[1]} ({other_source})",
            where="acf build",
            next_step="build one pack for each toolkit and architecture",
        )
    ((cuda_version, gpu),) = made_for
    faster = sum(winner.provenance.status == Status.FASTER for winner in winners)
    kernels = ", ".join(sorted({winner.provenance.entry.kernel for winner in winners}))
    return PackHead(
        pack_id=pack_id,
        description=f"ACFs that won for {kernels}, each with what it was validated on",
        cuda_version=cuda_version,
        supported_gpus=(gpu,),
        passed=faster == len(winners),
        evidence=f"{faster} of {len(winners)} winners were measured FASTER in independent runs on {gpu}",
    )


def _read(name: str, folder: Path, allow: Set[str]) -> Iterator[Winner | NotAccepted]:
    path = Path(name)
    if name.endswith(".json"):
        yield pin_winner(path, allow)
    elif _is_folder(path) and not (path / "run.json").is_file():
        yield from (pin_winner(pin, allow) for pin in _pins(path))
    else:
        yield from run_winners(find_run(folder, name), allow)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long or no path at all
        return False


def _pins(folder: Path) -> list[Path]:
    """Our records of the pins below `folder`, not Helion's forms beside them."""
    found = sorted(
        path
        for path in folder.rglob("*.json")
        if not path.name.endswith(".helion.json") and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        next_step = "name a run, a .json file of helitune pin, or a folder of them"
        raise InputError("no pin and no run in this folder", where=str(folder), next_step=next_step)
    return found
