"""Options that several commands share, spelled and explained once.

Every option of every command spells its name: typer 0.27 makes `--TRIAL` of a parameter `trial` whose metavar is
TRIAL.
"""

from __future__ import annotations

from typing import Annotated

import typer

RunArgument = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="A run's folder or id; the newest by default.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]
PtxasOption = Annotated[
    str | None,
    typer.Option(
        "--ptxas",
        metavar="PATH",
        help="The ptxas to use instead of nvidia-cuda-nvcc's (or set HELITUNE_PTXAS).",
    ),
]
