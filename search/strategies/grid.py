"""Grid: explore configs without an ACF first, then cross the best k of them with every ACF.

Configs decide the coarse cost and ACFs the fine one, so most of a budget that tries ACFs on poor configs is
lost.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from helitune.search.space import Genome, JointSpace

from . import random_search
from .contract import Evaluate

BEST_CONFIGS = 4
EXPLORED_PER_ROUND = 16


def search(space: JointSpace, evaluate: Evaluate, /, *, seed: int, known: Mapping[Genome, float]) -> None:
    """Rounds of random configs without an ACF, each followed by the best configs × every ACF; then what is left."""
    source = random.Random(seed)
    scores = {genome: score for genome, score in known.items() if genome[-1] == 0}
    seen = set(known)
    while True:
        fresh = _fresh_configs(space, source, seen)
        seen.update(fresh)
        for genome, score in zip(fresh, evaluate(fresh) if fresh else [], strict=True):
            if score is not None:
                scores[genome] = score
        best = sorted(scores, key=lambda genome: (scores[genome], genome))[:BEST_CONFIGS]
        crossed = [
            candidate
            for genome in best
            for acf in range(1, len(space.acfs))
            if (candidate := space.with_acf(genome, acf)) not in seen
        ]
        seen.update(crossed)
        if crossed:
            evaluate(crossed)
        if not fresh and not crossed:
            random_search.search(space, evaluate, seed=seed, known=dict.fromkeys(seen, 0.0))
            return


def _fresh_configs(space: JointSpace, source: random.Random, seen: set[Genome]) -> list[Genome]:
    found: list[Genome] = []
    for _ in range(EXPLORED_PER_ROUND * 20):
        # only config axes are drawn: a pack with one ACF more explores the same configs
        genome = (*(source.randrange(length) for length in space.lengths[:-1]), 0)
        if genome not in seen and genome not in found:
            found.append(genome)
        if len(found) == EXPLORED_PER_ROUND:
            break
    return found
