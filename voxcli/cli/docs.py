"""`docs/cli.md`, generated from the app: `python -m voxcli.cli.docs docs/cli.md` rewrites it.

A test compares the file with `render()`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from voxcli.cli import app

WIDTH = 100
HEADER = """\
# Command line

Generated from the program by `make docs`; do not edit. Exit codes: [exit-codes.md](exit-codes.md).
"""


def render() -> str:
    """The help of the app and of every command, as Markdown."""
    return HEADER + "".join(_sections(get_command(app), "voxcli", None))


def _sections(command: Any, name: str, parent: typer.Context | None) -> Iterator[str]:
    context = typer.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    help = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"\n## {context.command_path}\n\n```text\n{help}\n```\n"
    for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _sections(command.get_command(context, child), child, context)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), "utf-8")
