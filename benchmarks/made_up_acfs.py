"""Made-up ACF effects, after what was measured on an H200 (one fixed config a kernel, about 100 evolved ACFs).

On one config all of them win a little, on another all lose 2 to 27 %, the same ACF costs 1 % with 8 warps and 48 %
with 16, a fifth of a pack gives wrong results everywhere, and on a matmul a third crashes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class AcfStyle:
    """How the ACFs of a landscape act: shares, and standard deviations of log times."""

    count: int
    harmless: float
    """Share of feature values on which the ACFs as a group cost nothing."""
    harm: float
    """Mean cost of the group elsewhere."""
    own: float = 0.012
    gain: float = 0.01
    """What the group wins where it is harmless."""
    broken: float = 0.2
    """Share of ACFs that fail on every config."""
    crashing: float = 0.0
    """Share of the other ACFs that fail on about half of the feature values."""
    turning: float = 0.0
    """An additional gain on one kind of config that is not the best without ACFs."""


class AcfEffects:
    """Log time that each ACF adds to a config, by the config's features."""

    def __init__(self, source: random.Random, style: AcfStyle) -> None:
        self._style = style
        self._salt = source.getrandbits(40)
        ids = range(1, style.count + 1)
        self._own = {acf: source.gauss(0, style.own) for acf in ids}
        broken = round(style.broken * style.count)
        order = source.sample(ids, style.count)
        self._broken = frozenset(order[:broken])
        self._crashing = frozenset(order[broken : broken + round(style.crashing * (style.count - broken))])
        self.turn: tuple[int, ...] | None = None
        """Features (without the last) of the configs that `turning` favours."""

    def of(self, acf: int, features: tuple[int, ...]) -> float | None:
        """The effect of ACF number `acf`; None where it fails."""
        if acf == 0:
            return 0.0
        if acf in self._broken or (acf in self._crashing and self._drawn(acf, *features).random() < 0.5):
            return None
        kind = features[:2]
        group = self._drawn(0, *kind)
        if group.random() < self._style.harmless:
            effect = -abs(group.gauss(0, self._style.gain))
        else:
            effect = group.expovariate(1 / self._style.harm)
        if kind == self.turn:
            effect = -self._style.turning
        mine = self._drawn(acf, *features)
        return effect * mine.uniform(0.5, 1.2) + self._own[acf] + mine.gauss(0, 0.5 * self._style.own)

    def _drawn(self, *key: int) -> random.Random:
        return random.Random(hash((self._salt, *key)))  # a hash of integers is the same in every process


MILD = AcfStyle(27, harmless=0.7, harm=0.05)
HARMFUL = AcfStyle(27, harmless=0.25, harm=0.2, gain=0.02)
CRASHING = AcfStyle(31, harmless=0.5, harm=0.08, broken=0.1, crashing=0.3)
TURNING = AcfStyle(27, harmless=0.3, harm=0.1, turning=0.12)
MANY = AcfStyle(100, harmless=0.4, harm=0.1, own=0.015, broken=0.1, crashing=0.1)
NONE = AcfStyle(0, harmless=1.0, harm=0.1)
