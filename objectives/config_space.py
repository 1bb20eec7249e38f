"""Helion's config space of one bound kernel as dimensions of plain values, and the way back.

Helion flattens a config into slots (ConfigGeneration.flat_spec); a slot that holds a list of independent
choices is opened into one slot an element, so that a search can vary each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from helitune.search.space import Dimension, Value

MAX_VALUES = 512
"""Values listed for one slot; Helion's own fragments have at most 128."""


class ConfigSpace:
    """The tunable slots of one bound Helion kernel.

    `dimensions` lists every slot with its values; `flatten` and `unflatten` go between a Helion config and
    one value a slot. `unflatten` normalises as Helion's autotuner does: what it cannot repair raises
    helion.exc.InvalidConfig.
    """

    def __init__(self, bound_kernel: Any) -> None:
        self._spec = bound_kernel.config_spec
        self._generation = self._spec.create_config_generation()
        self._widths = [_width(fragment) for fragment in self._generation.flat_spec]
        self._seeds: list[tuple[Value, ...]] = []

    def include(self, configs: Iterable[Any]) -> None:
        """Add the values of `configs` to the dimensions, where Helion's own ranges leave them out."""
        self._seeds = [self.flatten(config) for config in configs]

    def dimensions(self) -> tuple[Dimension, ...]:
        """One dimension a slot, in Helion's order; each value list starts with Helion's default."""
        found: list[Dimension] = []
        for key, index, fragment in self._slots():
            slot = len(found)
            values = _distinct([*_values(fragment), *(seed[slot] for seed in self._seeds)])
            found.append(Dimension(key=key, index=index, slots=(slot,), values=tuple((v,) for v in values)))
        return tuple(found)

    def flatten(self, config: Any) -> tuple[Value, ...]:
        """One value a slot for `config`; slots it does not set get Helion's default."""
        slots: list[Value] = []
        for value, width in zip(self._generation.flatten(config), self._widths, strict=True):
            if width is None:
                slots.append(_plain(value))
            else:
                slots.extend(_plain(element) for element in value)
        return tuple(slots)

    def unflatten(self, slots: Sequence[Value]) -> Any:
        """The normalised helion.Config for one value a slot; raises InvalidConfig where none exists."""
        remaining = iter(slots)
        flat: list[Any] = []
        for width in self._widths:
            if width is None:
                flat.append(_fresh(next(remaining)))
            else:
                flat.append([_fresh(next(remaining)) for _ in range(width)])
        # the autotuner leaves out keys that are None, normalising puts them in: one config, one name
        return self._spec.normalized_config(self._generation.unflatten(flat))

    def _slots(self) -> Iterable[tuple[str, int | None, Any]]:
        """Config key, position within the key (None for a scalar) and fragment of every opened slot."""
        layout = self._generation._key_to_flat_indices
        for key, (indices, is_sequence) in layout.items():
            for position, flat_index in enumerate(indices):
                fragment, width = self._generation.flat_spec[flat_index], self._widths[flat_index]
                if width is not None:
                    for element in range(width):
                        yield key, element, fragment.inner
                else:
                    yield key, position if is_sequence else None, fragment


def _width(fragment: Any) -> int | None:
    """Elements of a slot that is a list of independent choices; None for a plain slot."""
    from helion.autotuner.config_fragment import ListOf

    return int(fragment.length) if isinstance(fragment, ListOf) else None


def _values(fragment: Any) -> list[Value]:
    """All values a fragment may take in a search, its default first."""
    from helion.autotuner.config_fragment import PermutationFragment

    default = _plain(fragment.default())
    if isinstance(fragment, PermutationFragment):
        orders = itertools.islice(itertools.permutations(range(fragment.length)), MAX_VALUES)
        return _distinct([default, *(tuple(order) for order in orders)])
    listed = fragment.search_values(MAX_VALUES)
    if listed is None:
        listed = _reachable(fragment)
    return _distinct([default, *map(_plain, listed)])


def _reachable(fragment: Any) -> list[Any]:
    """What pattern search could reach from the default: for fragments that do not list their values."""
    found = [fragment.default()]
    for value in found:
        if len(found) >= MAX_VALUES:
            break
        found.extend(n for n in fragment.pattern_neighbors(value) if n not in found)
    return found[:MAX_VALUES]


def _distinct(values: Iterable[Value]) -> list[Value]:
    kept: list[Value] = []
    for value in values:
        # True == 1 in Python: a bool and an int are different choices here
        if not any(value == other and type(value) is type(other) for other in kept):
            kept.append(value)
    return kept


def _plain(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value


def _fresh(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value
