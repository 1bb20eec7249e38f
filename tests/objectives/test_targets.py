from __future__ import annotations

import pytest

from helitune.acfs.errors import InputError
from helitune.objectives.targets import KIB, TARGETS, find_target


@pytest.mark.parametrize("text", ["sm_90", "sm90", "90", "9.0", "sm_90a", " SM_90A "])
def test_every_spelling_names_the_same_target(text: str) -> None:
    assert find_target(text).name == "NVIDIA H200"


@pytest.mark.parametrize(("text", "arch"), [("10.0", "sm_100"), ("sm_120a", "sm_120"), ("100f", "sm_100")])
def test_two_digit_capabilities(text: str, arch: str) -> None:
    assert find_target(text).arch == arch


@pytest.mark.parametrize("text", ["", "sm_70", "h200", "sm_9", "sm_90x", "sm_900", "9"])
def test_an_unknown_target_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(InputError) as caught:
        find_target(text)
    assert repr(text) in caught.value.what
    assert all(arch in caught.value.next_step for arch in TARGETS)


def test_every_target_agrees_with_its_name() -> None:
    for arch, target in TARGETS.items():
        major, minor = target.capability
        assert arch == target.arch == f"sm_{major}{minor}"


def test_shared_memory_by_capability() -> None:
    optin = {arch: target.shared_per_block_optin_bytes // KIB for arch, target in TARGETS.items()}
    assert optin == {"sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_120": 99}
