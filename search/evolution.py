"""A joint space whose ACFs are not only listed but bred while the search goes on.

The last index of a genome chooses the ACF: first those that are listed ("none", packs), then those that were bred,
in the order in which they were proposed. That order is what names a bred ACF in a resumed run: the same seed and
scores give the same controls, but each time in other bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from helitune.acfs.acf import Acf

from .space import Dimension, Genome, JointSpace, Value


class Keep(Protocol):
    """Keeps newly bred ACFs where they last: the Acf of each of `contents`, by its place in the run's order.

    A place that an earlier session of the run has already filled is answered with what was kept there.
    """

    def __call__(self, contents: Sequence[bytes], /, *, generation: int) -> list[Acf]: ...


@dataclass(frozen=True)
class BredSpace(JointSpace):
    """The joint space of `dimensions` and `acfs`, to which `breed` adds ACFs.

    `lengths`, `size` and `encode` are those of what is listed; `decode` knows what was bred, too.
    """

    keep: Keep
    bred: list[Acf] = field(default_factory=list, compare=False)

    @property
    def known_acfs(self) -> tuple[Acf, ...]:
        """Every ACF that a genome can name so far."""
        return (*self.acfs, *self.bred)

    def breed(self, contents: Sequence[bytes], *, generation: int) -> list[int]:
        """The index that each of these ACFs has as the last one of a genome, after it was kept."""
        first = len(self.known_acfs)
        self.bred.extend(self.keep(contents, generation=generation))
        return list(range(first, len(self.known_acfs)))

    def decode(self, genome: Genome) -> tuple[tuple[Value, ...], Acf]:
        """One value a slot, and the ACF; raises ValueError for an index outside its dimension."""
        known = self.known_acfs
        if not len(self.acfs) <= genome[-1] < len(known):
            return JointSpace.decode(self, genome)
        slots, _ = JointSpace.decode(self, self.with_acf(genome, 0))
        return slots, known[genome[-1]]


def configs_dimension(rows: Sequence[Sequence[Value]]) -> Dimension:
    """One dimension whose values are whole configs, each as one value a slot: a space of these configs alone."""
    width = len(rows[0])
    return Dimension("config", None, tuple(range(width)), tuple(tuple(row) for row in rows))
