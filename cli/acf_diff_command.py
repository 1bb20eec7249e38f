"""`helitune acf diff`: two packs compared by their ACFs' bytes, and by what the ACFs do to a PTX or a kernel."""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from helitune.acfs.acf import Acf
from helitune.acfs.catalog import find_packs
from helitune.acfs.errors import InputError
from helitune.acfs.pack import inspect_pack
from helitune.acfs.ptxas import find_ptxas
from helitune.objectives.acf_effects import EffectGroups, ptx_effects

from .acf_kernel_effects import kernel_effects
from .options import Json, PtxasOption, Quiet

MAX_PTX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Difference:
    """ACFs by where they are; those in both are named as in A."""

    only_a: tuple[Acf, ...]
    only_b: tuple[Acf, ...]
    both: tuple[Acf, ...]

    def where(self, acf: Acf) -> str:
        """Which pack has the ACF: "A", "B" or "both"."""
        if acf in self.both:
            return "both"
        return "A" if acf in self.only_a else "B"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("diff")(diff)


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A pack: folder, zip, or name.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one, or the same to compare its ACFs.")],
    ptx: Annotated[
        Path | None, typer.Option("--ptx", metavar="FILE", help="Compare what the ACFs do to this PTX, too.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", metavar="FILE[:KERNEL]", help="The same for a Helion kernel's own config."),
    ] = None,
    args: Annotated[
        list[str] | None,
        typer.Option("--args", metavar="ARGS", help="With --kernel: the arguments of one call; repeatable."),
    ] = None,
    target: Annotated[
        str, typer.Option("--target", metavar="ARCH", help="With --kernel: architecture to compile for.")
    ] = "sm_90",
    ptxas: PtxasOption = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show which ACFs are in one pack and not in the other, and which have the same effect on a given code.

    Equal machine code means an equal effect, whatever the ACFs' bytes: CompileIQ writes the same controls in
    different bytes. An ACF's effect on one code says nothing of another code.
    """
    if ptx is not None and kernel is not None:
        raise InputError("two codes to compare on", where="--ptx and --kernel", next_step="give one of them")
    if args and kernel is None:
        raise InputError("arguments of no kernel", where="--args", next_step="name the kernel with --kernel")
    found = _difference(_acfs(a), _acfs(b))
    everything = (*found.only_a, *found.both, *found.only_b)
    groups, on = None, ""
    if ptx is not None:
        used = find_ptxas(ptxas)
        groups, on = ptx_effects(used, _read_ptx(ptx), everything), f"{ptx}, ptxas {used.version}"
    elif kernel is not None:
        used = find_ptxas(ptxas)
        groups = kernel_effects(kernel, tuple(args or ()), target, used, everything)
        on = f"{kernel} for {target}, ptxas {used.version}"
    if json:
        print(json_text.dumps(_fields(found, groups, on)))
        return
    _print_difference(found, a, b, quiet=quiet)
    if groups is not None:
        _print_groups(groups, found, f"{len(everything)} ACFs on {on}", quiet=quiet)


def _acfs(text: str) -> dict[str, Acf]:
    """The ACFs of a pack, or of a release's packs, by sha256."""
    packs = [inspect_pack(path) for path in find_packs(text)]
    return {acf.sha256: acf for pack in packs for acf in pack.accepted}


def _difference(a: dict[str, Acf], b: dict[str, Acf]) -> _Difference:
    return _Difference(
        only_a=tuple(acf for sha256, acf in a.items() if sha256 not in b),
        only_b=tuple(acf for sha256, acf in b.items() if sha256 not in a),
        both=tuple(acf for sha256, acf in a.items() if sha256 in b),
    )


def _read_ptx(path: Path) -> str:
    next_step = "give the PTX of a kernel, as Triton caches it"
    try:
        if path.is_file() and path.stat().st_size <= MAX_PTX_BYTES:
            return path.read_text()
    except OSError as error:
        what = f"cannot read the PTX: {error.strerror or error}"
        raise InputError(what, where=str(path), next_step=next_step) from error
    except UnicodeDecodeError as error:
        raise InputError("the PTX is no text", where=str(path), next_step=next_step) from error
    raise InputError("no PTX file", where=str(path), next_step=next_step)


def _print_difference(found: _Difference, a: str, b: str, *, quiet: bool) -> None:
    parts = (
        (f"only in {a}", found.only_a),
        (f"only in {b}", found.only_b),
        ("in both, by bytes", found.both),
    )
    for title, acfs in parts:
        print(f"{title}: {len(acfs)}")
        if not quiet:
            for acf in acfs:
                print(f"  {acf.name}  {acf.sha256[:12]}")


def _print_groups(groups: EffectGroups, found: _Difference, on: str, *, quiet: bool) -> None:
    def names(acfs: tuple[Acf, ...]) -> str:
        shown = " ".join(f"{acf.name}({found.where(acf)})" for acf in acfs)
        return f": {shown}" if acfs and not quiet else ""

    print(f"effects of {on}:")
    print(f"  none, the code is that without an ACF: {len(groups.none)}{names(groups.none)}")
    same = sum(map(len, groups.identical))
    print(f"  one and the same effect: {same} in {len(groups.identical)} group(s)")
    for acfs in groups.identical:
        print(f"    {len(acfs)}{names(acfs)}")
    print(f"  an effect like no other: {len(groups.alone)}{names(groups.alone)}")
    print(f"  failed: {len(groups.failed)}")
    for effect in () if quiet else groups.failed:
        print(f"    {effect.acf.name}({found.where(effect.acf)}): {effect.failure}")


def _fields(found: _Difference, groups: EffectGroups | None, on: str) -> dict[str, Any]:
    def listed(acfs: tuple[Acf, ...]) -> list[dict[str, str]]:
        return [{"name": acf.name, "sha256": acf.sha256, "in": found.where(acf)} for acf in acfs]

    fields: dict[str, Any] = {
        "only_a": listed(found.only_a),
        "only_b": listed(found.only_b),
        "both": listed(found.both),
        "effects": None,
    }
    if groups is not None:
        fields["effects"] = {
            "on": on,
            "none": listed(groups.none),
            "identical": [listed(acfs) for acfs in groups.identical],
            "alone": listed(groups.alone),
            "failed": [{**listed((e.acf,))[0], "failure": e.failure} for e in groups.failed],
        }
    return fields
