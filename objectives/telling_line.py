"""The line of somebody else's error that says what is wrong."""

from __future__ import annotations


def telling_line(error: BaseException) -> str:
    """The line of an error that says what is wrong: Triton begins with the place and ends with the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return (lines[-1] if lines[0].startswith("at ") else lines[0])[:500]
