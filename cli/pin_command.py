"""`helitune pin`: the result of a run as files that plain Helion loads."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
