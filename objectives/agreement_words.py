"""How a message tells on what a kernel and its reference were compared."""

from __future__ import annotations

LONGEST_SHAPE = 64
"""Characters of a shape in a message: the line stays one that can be read."""

_ROUNDS = {
    "tiles in halves": "with tiles of half the size",
    "zeros": "with zeros",
    "large values": "with inputs × 64",
    "small values": "with inputs × 0.001",
    "NaN and infinity": "with a NaN and an infinity among the inputs",
}


def circumstances(round_name: str) -> str:
    """The name of a round (see check_rounds.py) in words: "values 0" is "with random inputs (draw 1)"."""
    kind, _, draw = round_name.rpartition(" ")
    if kind == "values":
        return f"with random inputs (draw {int(draw) + 1})"
    return _ROUNDS[round_name]


def shortened(shape: str) -> str:
    """The text of a shape, cut where it is long."""
    return shape if len(shape) <= LONGEST_SHAPE else f"{shape[: LONGEST_SHAPE - 1]}…"
