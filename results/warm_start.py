"""Winners of earlier work, tried first on another kernel, GPU or config: the ACFs of runs and packs.

An ACF fits one version of ptxas. Made for another, it has to be evolved again, and this says with which command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from helitune.acfs.acf import Acf
from helitune.acfs.content import SUFFIX
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.pack import read_pack, resolve_pack
from helitune.acfs.paths import cache_root
from helitune.acfs.ptxas import Ptxas, toolkit
from helitune.acfs.store import AcfStore

from .finals import measured_again
from .run_directory import RunDirectory, find_run
from .session import Tools
from .trial import Trial

MOST_OF_A_RUN = 8
MOST_OF_A_PACK = 64
OPTION = "--warm-start"


@dataclass(frozen=True, slots=True)
class WarmTools:
    """The tools of a request with the ACFs of its warm start among them, and the sha256 of these, best first."""

    tools: Tools
    warm: tuple[str, ...]


def resolve_source(text: str, folder: Path) -> str:
    """The absolute path of the run or pack that `--warm-start TEXT` means; InputError where it is neither."""
    try:
        return str(find_run(folder, text).path.absolute())
    except InputError as no_run:
        try:
            return str(resolve_pack(text).absolute())
        except InputError as no_pack:
            raise InputError(
                f"neither a run nor a pack: {text[:80]!r}", where=OPTION, next_step=no_pack.next_step
            ) from no_run


def with_warm_start(tools: Tools, sources: Sequence[str]) -> WarmTools:
    """The tools with the ACFs of `sources` (as resolve_source gave them), before those of packs.

    Raises MachineError for a source whose ACFs were made for another ptxas, InputError for one without any.
    """
    known = {acf.sha256: acf for acf in tools.acfs}
    warm: dict[str, Acf] = {}
    for source in sources:
        for acf in _source_acfs(source, tools):
            warm.setdefault(acf.sha256, acf)
    if not warm:
        return WarmTools(tools, ())
    store = AcfStore(cache_root() / "acfs")
    new = tuple(store.add(acf) for sha256, acf in warm.items() if sha256 not in known)
    return WarmTools(replace(tools, acfs=(*new, *tools.acfs)), tuple(warm))


def _source_acfs(source: str, tools: Tools) -> list[Acf]:
    path = Path(source)
    is_run = (path / "run.json").is_file()
    found = _of_run(RunDirectory(path), tools.ptxas) if is_run else _of_pack(path, tools)
    if not found:
        raise InputError(
            "no ACF to start from: none came through" if is_run else "no ACF of this pack can be used",
            where=f"{OPTION} {source}",
            next_step="name another run or pack, or leave it out",
        )
    return found


def _of_run(run: RunDirectory, ptxas: Ptxas) -> list[Acf]:
    """The best ACFs of a run, each of other code."""
    fields = run.run()
    made_for = toolkit(fields["fingerprint"]["ptxas"]["version"])
    if made_for != toolkit(ptxas.version):
        again = (
            f"search again: helitune evolve --again {run.path}" if fields["request"].get("evolution") else ""
        )
        raise _misfit(str(run.path), made_for, ptxas, again or f"evolve some: {_EVOLVE}")
    arch, entries = fields["fingerprint"]["arch"], {entry["sha256"]: entry for entry in fields["acfs"]}
    return [
        Acf(
            name=trial.acf_name,
            sha256=trial.acf_sha256,
            path=run.acfs / f"{trial.acf_sha256}{SUFFIX}",
            arch=tuple(entries.get(trial.acf_sha256, {}).get("arch", (arch,))),
            toolkit=made_for,
        )
        for trial in _best(run)
    ]


def _best(run: RunDirectory) -> list[Trial]:
    trials, finals = run.trials(), run.finals()
    ranked = [t for t in sorted(measured_again(trials, finals), key=lambda t: t.rank) if _won(t)]
    ranked += [t for t in sorted(trials, key=lambda t: t.rank) if finals and _won(t)]
    different: dict[tuple[str, ...], Trial] = {}
    for trial in ranked:
        assert trial.compiled is not None
        different.setdefault(trial.compiled.code, trial)
    return list({trial.acf_sha256: trial for trial in different.values()}.values())[:MOST_OF_A_RUN]


def _won(trial: Trial) -> bool:
    return bool(trial.acf_sha256) and trial.compiled is not None


def _of_pack(path: Path, tools: Tools) -> list[Acf]:
    """The ACFs of a pack, whatever architecture it was made for."""
    pack = read_pack(path, ptxas_version=tools.ptxas.version, arch=tools.target.arch, force=True)
    if pack.manifest is not None and toolkit(pack.manifest.cuda_version) != toolkit(tools.ptxas.version):
        raise _misfit(str(path), toolkit(pack.manifest.cuda_version), tools.ptxas, f"evolve some: {_EVOLVE}")
    return list(pack.accepted[:MOST_OF_A_PACK])


_EVOLVE = "helitune evolve KERNEL_FILE --config own"


def _misfit(source: str, made_for: str, ptxas: Ptxas, next_step: str) -> MachineError:
    return MachineError(
        f"these ACFs were made for CUDA {made_for}, this ptxas is {ptxas.version}: they must be evolved again",
        where=f"{OPTION} {source}",
        next_step=next_step,
    )
