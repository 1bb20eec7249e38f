"""What ACFs do to one PTX: the hash of the code that ptxas makes of it with each, and which of them are equal.

An ACF's own hash does not tell: the same controls come in different bytes, and some controls change nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import Ptxas

from .assemble import AssembleFailed, AssembleTimeout, assemble, kill_running
from .elf import CubinError, code_hash
from .stub_kernel import stub_fault

TIMEOUT_S = 60.0
MEMORY_BYTES = 8 << 30
STUB_PTX_VERSION = 88
"""Of the stub kernel: older than every ptxas that knows ACFs, new enough for every architecture that has them."""

_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one ACF gives: the `code` it leads to, equal for equal machine code, or "" and why there is none."""

    acf: Acf
    code: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class EffectGroups:
    """ACFs by their effect, in the order they were given.

    `none` change no instruction; each of `identical` holds two or more with one and the same effect; `alone` are
    like no other; `failed` give no code.
    """

    none: tuple[Acf, ...]
    identical: tuple[tuple[Acf, ...], ...]
    alone: tuple[Acf, ...]
    failed: tuple[Effect, ...]


def ptx_effects(ptxas: Ptxas, ptx: str, acfs: Sequence[Acf]) -> EffectGroups:
    """The effects of `acfs` on a PTX text, for the target that it names itself.

    Raises InputError where ptxas does not take the PTX without any ACF, MachineError where it is too old for it.
    """
    flags = [f"--gpu-name={ptx_target(ptx)}"]

    def effect(acf: Acf) -> Effect:
        try:
            made = assemble(ptxas.path, ptx, flags, acf.path, timeout_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES)
            return Effect(acf, code_hash(made.cubin))
        except (AssembleFailed, AssembleTimeout, CubinError) as error:
            return Effect(acf, "", str(error))

    plain = effect(NO_ACF)
    if not plain.code:
        # ptxas names the newest PTX version that it knows
        kind = MachineError if "Unsupported .version" in plain.failure else InputError
        raise kind(
            f"ptxas {ptxas.version} does not take the PTX: {plain.failure}",
            where="--ptx",
            next_step="give a PTX file that compiles without an ACF, or another --ptxas",
        )
    return group(plain.code, evaluated(effect, acfs))


def stub_failures(ptxas: Ptxas, arch: str, acfs: Sequence[Acf]) -> list[Effect]:
    """The ACFs that `ptxas` does not take on a stub kernel for `arch` ("sm_90"), each with what it says.

    Raises MachineError where it does not compile the stub without any.
    """
    plain = arch.rstrip("af")

    def effect(acf: Acf) -> Effect:
        fault = stub_fault(ptxas.path, plain, STUB_PTX_VERSION, acf.path)
        return Effect(acf, "" if fault else "compiled", fault)

    without = effect(NO_ACF).failure
    if without:
        raise MachineError(
            f"ptxas {ptxas.version} compiles nothing for {arch}: {without}",
            where=str(ptxas.path),
            next_step="name another --target or --ptxas",
        )
    return [effect for effect in evaluated(effect, acfs) if effect.failure]


def ptx_target(ptx: str) -> str:
    """The target that a PTX text names, "sm_90a"; InputError where it names none."""
    found = _TARGET.search(ptx)
    if found is None:
        what = "no PTX: there is no .target in it"
        raise InputError(what, where="--ptx", next_step="give the PTX of a kernel, as Triton caches it")
    return found[1]


def evaluated(effect: Callable[[Acf], Effect], acfs: Sequence[Acf]) -> list[Effect]:
    """The effect of each ACF, on all cores that this process may use."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        try:
            return list(threads.map(effect, acfs))
        except BaseException:  # an interrupt: whatever is not started yet stays undone
            threads.shutdown(wait=False, cancel_futures=True)
            kill_running()
            raise


def group(plain_code: str, effects: Iterable[Effect]) -> EffectGroups:
    """The groups of `effects`; `plain_code` is what there is without an ACF."""
    by_code: dict[str, list[Acf]] = {}
    failed = []
    for effect in effects:
        if effect.code:
            by_code.setdefault(effect.code, []).append(effect.acf)
        else:
            failed.append(effect)
    none = by_code.pop(plain_code, [])
    return EffectGroups(
        none=tuple(none),
        identical=tuple(tuple(acfs) for acfs in by_code.values() if len(acfs) > 1),
        alone=tuple(acfs[0] for acfs in by_code.values() if len(acfs) == 1),
        failed=tuple(failed),
    )
