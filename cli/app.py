"""The commands of `helitune`, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from . import (
    acf_commands,
    calibrate_command,
    check_command,
    doctor_command,
    evolve_command,
    pin_command,
    show_command,
    tune_command,
    validate_command,
)

app = typer.Typer(
    name="helitune",
    help="Search the kernel config of a Helion kernel jointly with ptxas controls (ACFs), and pin the result.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"helitune {version('helitune')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


doctor_command.register(app)
tune_command.register(app)
evolve_command.register(app)
validate_command.register(app)
pin_command.register(app)
check_command.register(app)
show_command.register(app)
calibrate_command.register(app)
acf_commands.register(app)
