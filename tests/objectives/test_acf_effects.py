"""What real ACFs do to a real PTX, by the machine code that ptxas makes of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from ptx_fixtures import SOFTMAX

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.pack import inspect_pack, shipped_pack
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.acf_effects import Effect, group, ptx_effects, ptx_target, stub_failures

ACFS = inspect_pack(shipped_pack()).accepted

STORE_THREAD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry store_thread(.param .u64 out)
{
  .reg .b64 %a<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %a1, [out];
  cvta.to.global.u64 %a2, %a1;
  mov.u32 %r1, %tid.x;
  st.global.u32 [%a2], %r1;
  ret;
}
"""


def damaged(folder: Path) -> Acf:
    """A real ACF with one bit turned."""
    assert ACFS[0].path is not None
    content = bytearray(ACFS[0].path.read_bytes())
    content[len(content) // 2] ^= 1
    path = folder / "damaged.acf"
    path.write_bytes(content)
    return Acf("damaged", hashlib.sha256(content).hexdigest(), path)


def test_groups_are_by_code_and_keep_the_order() -> None:
    names = {"a": "1", "b": "0", "c": "2", "d": "1", "e": ""}
    effects = [Effect(Acf(name, name, None), code, "" if code else "why") for name, code in names.items()]
    groups = group("0", effects)
    assert [acf.name for acf in groups.none] == ["b"]
    assert [[acf.name for acf in acfs] for acfs in groups.identical] == [["a", "d"]]
    assert [acf.name for acf in groups.alone] == ["c"]
    assert [(effect.acf.name, effect.failure) for effect in groups.failed] == [("e", "why")]


@pytest.mark.slow
def test_different_acfs_have_one_effect_on_code_that_leaves_nothing_to_choose(
    ptxas: Ptxas, tmp_path: Path
) -> None:
    bad = damaged(tmp_path)
    groups = ptx_effects(ptxas, STORE_THREAD, [*ACFS, bad])
    assert groups.none and any(len(acfs) > 1 for acfs in groups.identical)
    found = [*groups.none, *groups.alone, *(acf for acfs in groups.identical for acf in acfs)]
    assert sorted(acf.sha256 for acf in found) == sorted(acf.sha256 for acf in ACFS)
    assert [effect.acf for effect in groups.failed] == [bad]
    assert "Invalid compiler controls file" in groups.failed[0].failure


@pytest.mark.slow
def test_on_a_kernel_each_of_these_acfs_has_an_effect_of_its_own(ptxas: Ptxas) -> None:
    groups = ptx_effects(ptxas, SOFTMAX.ptx, ACFS[:3])
    assert groups.alone == ACFS[:3]


def test_the_same_acf_under_two_names_has_one_effect(ptxas: Ptxas) -> None:
    other = Acf("copy", ACFS[0].sha256, ACFS[0].path)
    assert ptx_effects(ptxas, STORE_THREAD, [ACFS[0], other]).identical == ((ACFS[0], other),)


def test_a_ptx_that_ptxas_does_not_take_is_the_inputs_fault(ptxas: Ptxas) -> None:
    with pytest.raises(InputError, match="does not take the PTX: ptxas exit 255"):
        ptx_effects(ptxas, STORE_THREAD.replace("mov.u32", "mov.what"), ACFS)


def test_a_ptx_that_is_too_new_for_it_is_the_machines(ptxas: Ptxas) -> None:
    with pytest.raises(MachineError, match=r"Unsupported \.version 99"):
        ptx_effects(ptxas, STORE_THREAD.replace(".version 8.8", ".version 99.0"), ACFS)


def test_the_target_is_that_of_the_text() -> None:
    assert ptx_target(SOFTMAX.ptx) == "sm_90a"
    with pytest.raises(InputError, match=r"no \.target"):
        ptx_target("// .target sm_90 in a comment only")


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100", "sm_80"])
def test_ptxas_takes_a_real_acf_on_the_stub_and_no_damaged_one(
    ptxas: Ptxas, tmp_path: Path, arch: str
) -> None:
    bad = damaged(tmp_path)
    failures = stub_failures(ptxas, arch, [ACFS[0], bad])
    assert [(failed.acf, "Invalid compiler controls file" in failed.failure) for failed in failures] == [
        (bad, True)
    ]


def test_an_architecture_that_ptxas_does_not_know_is_the_machines_fault(ptxas: Ptxas) -> None:
    with pytest.raises(MachineError, match="compiles nothing for sm_37"):
        stub_failures(ptxas, "sm_37", ACFS)
