"""`voxcli help`: the help of a command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from voxcli import cli
from voxcli.cli.options import one_of
from voxcli.errors import UsageError

EXAMPLES = ("voxcli help speak", "voxcli help voices add")


def _commands(ctx: typer.Context, incomplete: str) -> list[str]:
    """For a shell that completes: commands, or those below the one that was typed."""
    words: Any = ctx.params.get("words") or ()
    known: Any = cli.COMMANDS
    if words:
        known = getattr(cli.load(words[0]), "commands", ()) if words[0] in known else ()
    return one_of(tuple(known) if len(words) < 2 else ())(incomplete)


def help(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...",
            help="Name of a command, such as speak or voices add.",
            autocompletion=_commands,
        ),
    ] = None,
) -> None:
    """Show the help of a command, as --help does."""
    words = words or []
    is_group = bool(words) and words[0] in cli.COMMANDS and hasattr(cli.load(words[0]), "commands")
    if len(words) > 1 + is_group:
        surplus = " ".join(words[1 + is_group :])
        raise UsageError(f"too many words: {surplus}", hint="name one command")
    cli.run([*words, "--help"])
