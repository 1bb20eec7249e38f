"""`--set`: every form it takes, and every mistake with what to do about it."""

from __future__ import annotations

import re

import pytest

from helitune.acfs.acf import NO_ACF
from helitune.acfs.errors import InputError
from helitune.search.narrow import narrow
from helitune.search.space import Dimension, JointSpace, Value, same_values


def axis(key: str, index: int | None, slot: int, *choices: Value) -> Dimension:
    return Dimension(key, index, (slot,), tuple((choice,) for choice in choices))


DIMENSIONS = (
    axis("block_sizes", 0, 0, 16, 32, 64),
    axis("block_sizes", 1, 1, 16, 32, 64, 128),
    axis("loop_orders", 0, 2, (0, 1), (1, 0)),
    axis("num_warps", None, 3, 4, 1, 2, 8),
    axis("range_flattens", 0, 4, None, False, True),
    axis("range_stages", 0, 5, 0, 1),
    axis("pid_type", None, 6, "flat", "persistent_blocked"),
    axis("eviction", 0, 7, "", "first"),
    axis("scale", None, 8, 0.5, 1e-05, -2.0),
)


def narrowed(*settings: str) -> dict[str, tuple[tuple[Value, ...], ...]]:
    """The values of each axis that `settings` changed, by label."""
    before = {d.label: d.values for d in DIMENSIONS}
    return {d.label: d.values for d in narrow(DIMENSIONS, settings) if before.get(d.label) != d.values}


def test_without_settings_nothing_changes() -> None:
    assert narrow(DIMENSIONS, []) == DIMENSIONS


@pytest.mark.parametrize(
    ("setting", "label", "kept"),
    [
        ("num_warps=8", "num_warps", (8,)),
        ("num_warps=8,4", "num_warps", (8, 4)),
        (" num_warps = 8 , 4 ", "num_warps", (8, 4)),
        ("num_warps=8,8", "num_warps", (8,)),
        ("block_sizes[1]=128", "block_sizes[1]", (128,)),
        ("pid_type=flat", "pid_type", ("flat",)),
        ('pid_type="flat"', "pid_type", ("flat",)),
        ('eviction="",first', "eviction[0]", ("", "first")),
        ('eviction=""', "eviction[0]", ("",)),
        ("range_flattens=None,True", "range_flattens[0]", (None, True)),
        ("range_flattens=null,false", "range_flattens[0]", (None, False)),
        ("loop_orders=[1,0]", "loop_orders[0]", ((1, 0),)),
        ("loop_orders[0]=[1,0]", "loop_orders[0]", ((1, 0),)),
        ("loop_orders=[[1,0]]", "loop_orders[0]", ((1, 0),)),
        ("range_stages=[1]", "range_stages[0]", (1,)),
        ("scale=1e-5,0.5", "scale", (1e-05, 0.5)),
        ("scale=-2.0", "scale", (-2.0,)),
    ],
)
def test_a_setting_keeps_its_values_in_its_order(setting: str, label: str, kept: tuple[Value, ...]) -> None:
    result = narrow(DIMENSIONS, [setting])
    assert [d for d in result if d.label != label] == [d for d in DIMENSIONS if d.label != label]
    (changed,) = (d for d in result if d.label == label)
    assert len(changed.values) == len(kept)
    assert all(same_values(row, (value,)) for row, value in zip(changed.values, kept, strict=True))


def test_plain_values_of_a_list_key_hold_for_every_position() -> None:
    assert narrowed("block_sizes=32") == {"block_sizes[0]": ((32,),), "block_sizes[1]": ((32,),)}


def test_whole_lists_make_one_axis_of_the_key_where_the_key_was() -> None:
    result = narrow(DIMENSIONS, ["block_sizes=[32,64],[16,128],[32,64]"])
    assert result[0] == Dimension("block_sizes", None, (0, 1), ((32, 64), (16, 128)))
    assert result[1:] == DIMENSIONS[2:]
    space = JointSpace(result, (NO_ACF,))
    slots, _ = space.decode((1,) + (0,) * len(DIMENSIONS[1:]))
    assert slots[:2] == (16, 128)


def test_later_settings_narrow_what_earlier_ones_left() -> None:
    assert narrowed("num_warps=8,4", "num_warps=8") == {"num_warps": ((8,),)}
    with pytest.raises(InputError, match="4 is not a value of num_warps"):
        narrow(DIMENSIONS, ["num_warps=8", "num_warps=4"])


def test_whole_lists_can_be_narrowed_again() -> None:
    result = narrow(DIMENSIONS, ["block_sizes=[32,64],[16,128]", "block_sizes=[16,128]"])
    assert result[0].values == ((16, 128),)
    with pytest.raises(InputError, match=r"\[64, 64\] is not a value of block_sizes"):
        narrow(DIMENSIONS, ["block_sizes=[32,64],[16,128]", "block_sizes=[64,64]"])


@pytest.mark.parametrize(
    ("setting", "what", "next_step"),
    [
        ("num_warps", "cannot read 'num_warps'", "KEY=VALUE"),
        ("num_warps=", "cannot read", "KEY=VALUE"),
        ("=4", "cannot read", "KEY=VALUE"),
        ("num_warps[x]=4", "cannot read", "KEY=VALUE"),
        ("num_warps=[4", "cannot read the values", "lists in brackets"),
        ("num_warps={}", "cannot read the values", "lists in brackets"),
        ("num_warps=4,,8", "cannot read the values", "by commas"),
        ("num_warp=4", "no 'num_warp'", "did you mean num_warps"),
        ("zzz=4", "no 'zzz'", "this kernel has block_sizes"),
        ("block_sizes[7]=32", r"no 'block_sizes\[7\]'", r"block_sizes\[0\]"),
        ("num_warps[0]=4", r"no 'num_warps\[0\]'", "num_warps"),
        ("num_warps=5", "5 is not a value of num_warps", "choose from 4, 1, 2, 8"),
        ("num_warps=True", "true is not a value of num_warps", "choose from"),
        ("range_stages=False", r"false is not a value of range_stages\[0\]", "choose from 0, 1"),
        ("range_flattens=0", r"0 is not a value of range_flattens\[0\]", "choose from null, false, true"),
        ("block_sizes=128", r"128 is not a value of block_sizes\[0\]", "choose from 16, 32, 64"),
        ("block_sizes[0]=[32]", r"\[32\] is not a value of block_sizes\[0\]", "choose from"),
        ("block_sizes=[32]", "block_sizes has 2 position", "that many values"),
        ("block_sizes=[32,64],[1,2,3]", "block_sizes has 2 position", "that many values"),
        ("block_sizes=[128,64]", r"128 is not a value of block_sizes\[0\]", "choose from 16, 32, 64"),
        ("num_warps=[4]", r"\[4\] is not a value of num_warps", "choose from"),
        (
            "loop_orders=[0,2]",
            r"\[0, 2\] is not a value of loop_orders\[0\]",
            r"choose from \[0, 1\], \[1, 0\]",
        ),
    ],
)
def test_a_mistake_is_named_with_what_to_write_instead(setting: str, what: str, next_step: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        narrow(DIMENSIONS, [setting])
    assert "--set" in caught.value.where
    assert re.search(next_step, caught.value.next_step)
