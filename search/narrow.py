"""`--set`: narrow the config space to given values, by key or by one position of a key."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from helitune.acfs.errors import InputError

from .space import Dimension, Value, same_values

_SETTING = re.compile(r"^\s*([A-Za-z_]\w*)(?:\[(\d+)\])?\s*=\s*(.+)$")


def narrow(dimensions: Sequence[Dimension], settings: Sequence[str]) -> tuple[Dimension, ...]:
    """`dimensions` with each of `settings` applied in order.

    `num_warps=4,8` keeps these values; on a list-valued key they hold for every position; `block_sizes[0]=32`
    sets one position; `block_sizes=[32,64],[64,64]` keeps these whole lists and makes one axis of the key.
    Raises InputError for an unknown key or value, naming the ones that exist.
    """
    result = tuple(dimensions)
    for setting in settings:
        result = _apply(result, setting)
    return result


def _apply(dimensions: tuple[Dimension, ...], setting: str) -> tuple[Dimension, ...]:
    key, index, alternatives = _parse(setting)
    ours = [d for d in dimensions if d.key == key and (index is None or d.index == index)]
    if not ours:
        raise _unknown_key(dimensions, setting, key if index is None else f"{key}[{index}]")
    nested = _holds_lists(ours)
    if index is None and ours[0].index is not None and all(_is_whole(a, nested) for a in alternatives):
        return _whole_lists(dimensions, ours, alternatives, setting)
    chosen = {d.label: replace(d, values=_kept(d, alternatives, setting)) for d in ours}
    return tuple(chosen.get(d.label, d) for d in dimensions)


def _parse(setting: str) -> tuple[str, int | None, list[Value]]:
    match = _SETTING.match(setting)
    if not match:
        raise InputError(
            f"cannot read {setting!r}",
            where="--set",
            next_step="write KEY=VALUE[,VALUE…], for example --set num_warps=4,8",
        )
    key, index, text = match[1], match[2], match[3]
    return key, int(index) if index is not None else None, _alternatives(text, setting)


def _alternatives(text: str, setting: str) -> list[Value]:
    """The comma-separated JSON values of `text`; bare words are strings, as `pid_type=flat`."""
    spelled = re.sub(
        r'"[^"]*"|(?<![\w.])[A-Za-z_][\w.]*',
        lambda m: {"None": "null", "True": "true", "False": "false"}.get(m[0], _quoted(m[0])),
        text,
    )
    try:
        return [_frozen(value) for value in json.loads(f"[{spelled}]")]
    except ValueError as error:
        raise InputError(
            f"cannot read the values of {setting!r}",
            where="--set",
            next_step="separate values by commas, lists in brackets: block_sizes=[32,64],[64,64]",
        ) from error


def _quoted(word: str) -> str:
    return word if word.startswith('"') or word in ("null", "true", "false") else json.dumps(word)


def _frozen(value: object) -> Value:
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"{value!r} is no config value")


def _holds_lists(dimensions: list[Dimension]) -> bool:
    """Whether single positions of the key hold lists themselves, as loop orders do."""
    return any(isinstance(row[0], tuple) for d in dimensions for row in d.values)


def _is_whole(alternative: Value, nested: bool) -> bool:
    """Whether the alternative is a value for the key as a whole, not for each of its positions."""
    return isinstance(alternative, tuple) and (not nested or all(isinstance(v, tuple) for v in alternative))


def _kept(dimension: Dimension, alternatives: list[Value], setting: str) -> tuple[tuple[Value, ...], ...]:
    wanted: list[tuple[Value, ...]] = []
    for alternative in alternatives:
        row = _row(dimension, alternative)
        if not any(same_values(row, known) for known in dimension.values):
            shown = ", ".join(_shown(known) for known in dimension.values)
            raise InputError(
                f"{json.dumps(alternative)} is not a value of {dimension.label}",
                where=f"--set {setting}",
                next_step=f"choose from {shown}",
            )
        if not any(same_values(row, kept) for kept in wanted):
            wanted.append(row)
    return tuple(wanted)


def _row(dimension: Dimension, alternative: Value) -> tuple[Value, ...]:
    """The alternative as a row of the axis: an axis of several slots was made of whole lists."""
    return alternative if isinstance(alternative, tuple) and len(dimension.slots) > 1 else (alternative,)


def _shown(row: tuple[Value, ...]) -> str:
    return json.dumps(row if len(row) > 1 else row[0])


def _whole_lists(
    dimensions: tuple[Dimension, ...], ours: list[Dimension], alternatives: list[Value], setting: str
) -> tuple[Dimension, ...]:
    rows = list(dict.fromkeys(a for a in alternatives if isinstance(a, tuple)))
    if any(len(row) != len(ours) for row in rows):
        raise InputError(
            f"{ours[0].key} has {len(ours)} position(s)",
            where=f"--set {setting}",
            next_step="give each list that many values",
        )
    for position, dimension in enumerate(ours):
        _kept(dimension, [row[position] for row in rows], setting)
    if len(ours) == 1:
        return tuple(replace(d, values=tuple(rows)) if d is ours[0] else d for d in dimensions)
    merged = Dimension(ours[0].key, None, tuple(d.slots[0] for d in ours), tuple(rows))
    first = dimensions.index(ours[0])
    rest = [d for d in dimensions if d not in ours]
    return (*rest[:first], merged, *rest[first:])


def _unknown_key(dimensions: tuple[Dimension, ...], setting: str, key: str) -> InputError:
    labels = list(dict.fromkeys([d.key for d in dimensions] + [d.label for d in dimensions]))
    close = get_close_matches(key, labels, n=3)
    hint = f"did you mean {', '.join(close)}?" if close else f"this kernel has {', '.join(labels)}"
    return InputError(f"this kernel's config has no {key!r}", where=f"--set {setting}", next_step=hint)
