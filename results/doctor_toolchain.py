"""ptxas, twice: the one helitune runs, and the one that Triton really runs outside of it; and the ACFs' space."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from helitune.acfs.errors import MachineError, UserError
from helitune.acfs.pack import read_pack, shipped_pack
from helitune.acfs.ptxas import Ptxas, find_ptxas
from helitune.objectives.installed_stack import InstalledStack
from helitune.objectives.stub_kernel import stub_fault

from .doctor_check import Check
from .pin_environment import PTXAS_VARIABLES

PACK, PACK_ARCH = "h200-seed", "sm_90"
_PLAIN_PTX = 90  # PTX 9.0, of CUDA 13.0: every ptxas that find_ptxas accepts knows it


@dataclass(frozen=True, slots=True)
class Chosen:
    """helitune's ptxas, or why there is none."""

    ptxas: Ptxas | None
    error: MachineError | None


def chosen_ptxas() -> Chosen:
    """The ptxas that a tune would use."""
    try:
        return Chosen(find_ptxas(None), None)
    except MachineError as error:
        return Chosen(None, error)


def ptxas_check(chosen: Chosen, arch: str) -> Check:
    """Whether helitune's ptxas compiles for `arch`, and takes an ACF of the shipped pack."""
    if chosen.ptxas is None:
        assert chosen.error is not None
        where = f" ({chosen.error.where})" if chosen.error.where else ""
        return Check("ptxas", "fail", chosen.error.what + where, chosen.error.next_step)
    ptxas = chosen.ptxas
    shown = f"{ptxas.version}, {ptxas.path}"
    install = "pip install 'nvidia-cuda-nvcc==13.3.*', and unset HELITUNE_PTXAS"
    fault = stub_fault(ptxas.path, arch, _PLAIN_PTX)
    if fault:
        return Check("ptxas", "fail", f"{shown}: does not compile a stub for {arch}: {fault}", install)
    fault = _acf_fault(ptxas.path, _PLAIN_PTX)
    if fault:
        what = f"{shown}: compiles for {arch}, but does not take the ACFs of {PACK}: {fault}"
        return Check("ptxas", "warn", what, f"{install}; or use a pack made for this ptxas")
    return Check("ptxas", "ok", f"{shown}: compiles for {arch}, with and without an ACF")


def triton_check(chosen: Chosen, arch: str, stack: InstalledStack, environment: Mapping[str, str]) -> Check:
    """What plain Triton would compile with here, which is what runs a pin: helitune's own processes choose theirs."""
    found = stack.about("triton_ptxas")
    setting = _setting(chosen)
    if found["error"]:
        return Check("triton ptxas", "warn", f"Triton finds no ptxas: {found['error']}", setting)
    path, ptx_version = Path(found["path"]), int(found["ptx_version"])
    shown = f"{found['toolkit']}, {path}"
    passed_over = _passed_over(path, environment)
    if fault := stub_fault(path, arch, ptx_version):
        what = f"{shown}: does not compile a stub for {arch}: {fault}"
        return Check("triton ptxas", "warn", what + passed_over, setting)
    if fault := _acf_fault(path, ptx_version):
        what = f"{shown}: takes no ACF of {PACK}, so plain Triton cannot run a pin with one: {fault}"
        return Check("triton ptxas", "warn", what + passed_over, setting)
    if passed_over:
        return Check("triton ptxas", "warn", shown + passed_over, setting)
    return Check("triton ptxas", "ok", f"{shown}: compiles for {arch}, with and without an ACF")


def search_space_check(stack: InstalledStack) -> Check:
    """Where CompileIQ finds the space of ptxas controls, which only evolving ACFs needs."""
    found = stack.about("search_space")
    if found["error"]:
        fix = "for helitune evolve: let it reach github.com, or set CIQ_SEARCH_SPACES_DIR to a mirror"
        return Check("search space", "warn", f"not to be had: {found['error']}", fix)
    how = {"mirror": "mirrored", "cache": "downloaded before", "network": "reachable"}[found["how"]]
    return Check("search space", "ok", f"{how}: {found['where']}")


def _acf_fault(ptxas: Path, ptx_version: int) -> str:
    """ "" where the ptxas takes an ACF of the shipped pack."""
    try:
        # what the pack was made for is not asked: whether this ptxas takes it is tried
        pack = read_pack(shipped_pack(PACK), ptxas_version="13.3", arch=PACK_ARCH, force=True)
    except UserError as error:
        return f"the shipped pack cannot be read: {error.what}"
    if not pack.accepted or pack.accepted[0].path is None:
        return "the shipped pack holds no ACF that is what its manifest says: install helitune again"
    with tempfile.TemporaryDirectory(prefix="helitune-doctor-") as folder:
        copy = Path(folder, "stub.acf")
        copy.write_bytes(pack.accepted[0].path.read_bytes())
        return stub_fault(ptxas, PACK_ARCH, ptx_version, copy)


def _setting(chosen: Chosen) -> str:
    if chosen.ptxas is None:
        return "mend the line `ptxas` first"
    names = " ".join(f"{name}={chosen.ptxas.path}" for name in PTXAS_VARIABLES)
    return f"export {names}"


def _passed_over(path: Path, environment: Mapping[str, str]) -> str:
    """What Triton does not say: a variable that names a ptxas it could not run, or the other of two is in force."""
    given = {name: environment[name] for name in PTXAS_VARIABLES if environment.get(name)}
    others = [f"{name}={value}" for name, value in given.items() if value != str(path)]
    if not others:
        return ""
    return f"; not in force here: {', '.join(others)}"


def all_toolchain_checks(
    chosen: Chosen, arch: str, stack: InstalledStack, environment: Mapping[str, str]
) -> Iterator[Check]:
    """All checks of this module."""
    yield ptxas_check(chosen, arch)
    yield triton_check(chosen, arch, stack, environment)
    yield search_space_check(stack)
