"""`voxcli help`: the help of a command."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = ("voxcli help speak", "voxcli help voices add")


def help(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...", help="Name of a command, such as speak or voices add."
        ),
    ] = None,
) -> None:
    """Show the help of a command, as --help does."""
    from voxcli.cli import run

    run([*(words or ()), "--help"])
