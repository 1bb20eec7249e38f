"""The joint space: kernel config × ACF, as one index a dimension. Plain values, no torch, no Helion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from helitune.acfs.acf import NO_ACF, Acf

Value = int | float | bool | str | None | tuple["Value", ...]
"""One value of one slot of a config; a permutation is a tuple."""

Genome = tuple[int, ...]
"""One index a dimension of the joint space; the last one chooses the ACF."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One axis of the config space: the config key, where in it, the slots it sets, and their values.

    `index` is the position within a list-valued key (None for a scalar key, or for an axis that `--set`
    made of the whole key). Each entry of `values` holds one value for each of `slots`.
    """

    key: str
    index: int | None
    slots: tuple[int, ...]
    values: tuple[tuple[Value, ...], ...]

    @property
    def label(self) -> str:
        """The axis as `--set` names it: `num_warps`, `block_sizes[0]`."""
        return self.key if self.index is None else f"{self.key}[{self.index}]"


@dataclass(frozen=True)
class JointSpace:
    """All combinations of the dimensions' values with an ACF or none.

    The ACF dimension always has "no ACF" first. `encode` and `decode` are exact inverses on the space.
    """

    dimensions: tuple[Dimension, ...]
    acfs: tuple[Acf, ...]

    def __post_init__(self) -> None:
        if not self.acfs or self.acfs[0] != NO_ACF:
            object.__setattr__(self, "acfs", (NO_ACF, *(a for a in self.acfs if a != NO_ACF)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of choices of each dimension, the ACF's last."""
        return (*(len(d.values) for d in self.dimensions), len(self.acfs))

    @property
    def known_acfs(self) -> tuple[Acf, ...]:
        """Every ACF that a genome can name so far."""
        return self.acfs

    @property
    def configs(self) -> int:
        """Number of kernel configs before normalisation (several may normalise to the same one)."""
        return math.prod(self.lengths[:-1])

    @property
    def size(self) -> int:
        """Number of candidates: configs × (ACFs + none)."""
        return math.prod(self.lengths)

    def decode(self, genome: Genome) -> tuple[tuple[Value, ...], Acf]:
        """One value a slot, and the ACF; raises ValueError for an index outside its dimension."""
        if len(genome) != len(self.lengths) or any(
            not 0 <= index < length for index, length in zip(genome, self.lengths, strict=True)
        ):
            raise ValueError(f"genome {genome} does not fit a space of lengths {self.lengths}")
        slots: dict[int, Value] = {}
        for dimension, index in zip(self.dimensions, genome, strict=False):
            slots.update(zip(dimension.slots, dimension.values[index], strict=True))
        return tuple(slots[slot] for slot in sorted(slots)), self.acfs[genome[-1]]

    def encode(self, slots: Sequence[Value], acf: Acf = NO_ACF) -> Genome | None:
        """The genome of one value a slot and an ACF; None where a value lies outside the (narrowed) space."""
        genome: list[int] = []
        for dimension in self.dimensions:
            wanted = tuple(slots[slot] for slot in dimension.slots)
            index = _index(dimension.values, wanted)
            if index is None:
                return None
            genome.append(index)
        place = next((i for i, ours in enumerate(self.acfs) if ours.sha256 == acf.sha256), None)
        return None if place is None else (*genome, place)

    def with_acf(self, genome: Genome, acf: int) -> Genome:
        """The same config with the ACF at index `acf` of `acfs`."""
        return (*genome[:-1], acf)


def same_values(left: Sequence[Value], right: Sequence[Value]) -> bool:
    """Whether two value rows are equal with their types: True is not 1 in a config."""
    return len(left) == len(right) and all(map(_same_value, left, right))


def _same_value(left: Value, right: Value) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return same_values(left, right)
    return left == right and type(left) is type(right)


def _index(rows: Sequence[tuple[Value, ...]], wanted: tuple[Value, ...]) -> int | None:
    return next((i for i, row in enumerate(rows) if same_values(row, wanted)), None)
