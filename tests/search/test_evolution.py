"""A space that grows: what is bred has its place behind what is listed, in the order of proposal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from helitune.acfs.acf import NO_ACF, Acf
from helitune.search.evolution import BredSpace, configs_dimension
from helitune.search.space import Dimension

LISTED = Acf("listed", "1" * 64, Path("/pack/listed.acf"))


class Keep:
    """Remembers what it was given; an ACF is named by its bytes."""

    def __init__(self) -> None:
        self.kept: list[tuple[bytes, int]] = []

    def __call__(self, contents: Sequence[bytes], /, *, generation: int) -> list[Acf]:
        self.kept += [(content, generation) for content in contents]
        return [Acf(content.decode(), content.hex().rjust(64, "0"), None) for content in contents]


def space(keep: Keep) -> BredSpace:
    return BredSpace((Dimension("x", None, (0,), ((1,), (2,))),), (NO_ACF, LISTED), keep)


def test_bred_acfs_are_named_in_the_order_of_proposal() -> None:
    keep = Keep()
    grown = space(keep)
    assert grown.breed([b"a", b"b"], generation=0) == [2, 3]
    assert grown.breed([b"c"], generation=1) == [4]
    assert keep.kept == [(b"a", 0), (b"b", 0), (b"c", 1)]
    assert [grown.decode((1, acf))[1].name for acf in range(5)] == ["", "listed", "a", "b", "c"]
    assert grown.decode((1, 4))[0] == (2,)
    assert [acf.name for acf in grown.known_acfs] == ["", "listed", "a", "b", "c"]


def test_what_is_listed_stays_the_space_itself() -> None:
    grown = space(Keep())
    grown.breed([b"a"], generation=0)
    assert grown.lengths == (2, 2) and grown.size == 4
    assert grown.encode((2,), LISTED) == (1, 1)


@pytest.mark.parametrize("genome", [(0, 3), (2, 2), (0, -1), (0,)])
def test_an_index_that_names_nothing_is_refused(genome: tuple[int, ...]) -> None:
    grown = space(Keep())
    grown.breed([b"a"], generation=0)
    with pytest.raises(ValueError, match="does not fit"):
        grown.decode(genome)


def test_whole_configs_are_one_dimension() -> None:
    rows = ((1, True, None), (2, False, "flat"))
    grown = BredSpace((configs_dimension(rows),), (NO_ACF,), Keep())
    assert grown.configs == 2
    assert [grown.decode((row, 0))[0] for row in (0, 1)] == list(rows)
