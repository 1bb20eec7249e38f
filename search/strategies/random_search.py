"""Random search: every dimension drawn uniformly, the floor that any other strategy must beat."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

from helitune.search.space import Genome, JointSpace

from .contract import Evaluate

BATCH = 64


def draw(space: JointSpace, source: random.Random) -> Genome:
    """One uniformly drawn genome."""
    return tuple(source.randrange(length) for length in space.lengths)


def search(space: JointSpace, evaluate: Evaluate, /, *, seed: int, known: Mapping[Genome, float]) -> None:
    """Propose uniformly drawn candidates without end, each once while the space lasts."""
    source = random.Random(seed)
    seen = set(known)
    while len(seen) < space.size:
        batch: list[Genome] = []
        for _ in range(BATCH * 20):
            genome = draw(space, source)
            if genome not in seen:
                seen.add(genome)
                batch.append(genome)
            if len(batch) == BATCH:
                break
        evaluate(batch or _left(space, seen))


def _left(space: JointSpace, seen: set[Genome]) -> list[Genome]:
    """The next genomes not seen, in order: for a space of which so much is seen that draws find none."""
    unseen = (genome for genome in itertools.product(*map(range, space.lengths)) if genome not in seen)
    left = list(itertools.islice(unseen, BATCH))
    seen.update(left)
    return left
