"""The joint space: genomes and value rows are two names of the same candidate."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helitune.acfs.acf import NO_ACF, Acf
from helitune.search.space import Dimension, JointSpace, Value, same_values

ACFS = tuple(Acf(f"{i}.acf", f"{i:064x}", Path(f"/pack/{i}.acf")) for i in range(1, 4))


def key_of(value: Value) -> tuple[object, ...]:
    """Equal for values that are the same choice: 1, True and 1.0 are three."""
    if isinstance(value, tuple):
        return (tuple, *(key_of(v) for v in value))
    return (type(value), value)


scalars = st.none() | st.booleans() | st.integers(-4, 2048) | st.sampled_from(["", "flat", "first"])
values = scalars | st.floats(allow_nan=False) | st.lists(scalars, max_size=3).map(tuple)


@st.composite
def spaces(draw: st.DrawFn) -> JointSpace:
    """Any space: axes of one slot or of several, slots in any order over the axes."""
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    slots = draw(st.permutations(range(sum(widths))))
    dimensions = []
    for number, width in enumerate(widths):
        rows = draw(
            st.lists(
                st.tuples(*[values] * width), min_size=1, max_size=6, unique_by=lambda r: key_of(tuple(r))
            )
        )
        mine, slots = tuple(slots[:width]), slots[width:]
        dimensions.append(Dimension(f"key{number}", None, mine, tuple(rows)))
    return JointSpace(tuple(dimensions), (NO_ACF, *ACFS[: draw(st.integers(0, 3))]))


@given(st.data())
def test_encode_and_decode_are_inverses(data: st.DataObject) -> None:
    space = data.draw(spaces())
    genome = tuple(data.draw(st.integers(0, length - 1)) for length in space.lengths)
    slots, acf = space.decode(genome)
    assert space.encode(slots, acf) == genome
    again, same_acf = space.decode(genome)
    assert same_values(slots, again) and acf == same_acf


@given(spaces())
def test_the_size_is_the_number_of_genomes(space: JointSpace) -> None:
    total = 1
    for length in space.lengths:
        total *= length
    assert space.size == total == space.configs * len(space.acfs)


def one_axis(*choices: Value) -> JointSpace:
    return JointSpace((Dimension("key", None, (0,), tuple((c,) for c in choices)),), (NO_ACF,))


def test_true_is_not_one_and_none_is_a_value() -> None:
    space = one_axis(1, True, None, False, 0)
    for index, value in enumerate((1, True, None, False, 0)):
        assert space.encode([value]) == (index, 0)
        assert type(space.decode((index, 0))[0][0]) is type(value)


def test_a_permutation_of_booleans_is_not_one_of_integers() -> None:
    assert one_axis((1, 0)).encode([(True, False)]) is None
    assert not same_values([(1, (0, True))], [(1, (0, 1))])


def test_a_value_outside_the_space_has_no_genome() -> None:
    assert one_axis(1, 2).encode([3]) is None
    assert one_axis(1, 2).encode([1], ACFS[0]) is None


@pytest.mark.parametrize("genome", [(), (0,), (0, 0, 0), (2, 0), (0, 1), (-1, 0)])
def test_a_genome_outside_the_space_is_refused(genome: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        one_axis(1, 2).decode(genome)


@pytest.mark.parametrize("given_acfs", [(), ACFS, (ACFS[0], NO_ACF, *ACFS[1:]), (NO_ACF, *ACFS)])
def test_no_acf_comes_first_and_once(given_acfs: tuple[Acf, ...]) -> None:
    space = JointSpace(one_axis(1).dimensions, given_acfs)
    assert space.acfs == (NO_ACF, *(acf for acf in given_acfs if acf != NO_ACF))


def test_an_acf_is_known_by_its_content_not_by_its_name_or_place() -> None:
    space = JointSpace(one_axis(1).dimensions, ACFS)
    elsewhere = Acf("mine.acf", ACFS[1].sha256, Path("/elsewhere/mine.acf"), ("sm_90",), "13.3")
    assert space.encode([1], elsewhere) == (0, 2)


def test_with_acf_changes_nothing_but_the_acf() -> None:
    space = JointSpace(one_axis(8, 16).dimensions, ACFS)
    assert space.decode(space.with_acf((1, 0), 3)) == ((16,), ACFS[2])


def test_labels_are_those_that_set_takes() -> None:
    assert Dimension("num_warps", None, (0,), ((4,),)).label == "num_warps"
    assert Dimension("block_sizes", 1, (0,), ((4,),)).label == "block_sizes[1]"
