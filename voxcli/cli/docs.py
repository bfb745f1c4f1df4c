"""What is generated in `docs/`: `python -m voxcli.cli.docs docs` rewrites it.

`cli.md` comes from the app; in `models/` the table of a family's parameters comes from its
declaration and stands between two comments. A test compares the files with `pages()`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from voxcli.cli import app
from voxcli.models import FAMILIES
from voxcli.parameters import Parameter

WIDTH = 100
HEADER = """\
# Command line

Generated from the program by `make docs`; do not edit. Exit codes: [exit-codes.md](exit-codes.md).
"""
BEGIN, END = "<!-- parameters, by `make docs` -->\n", "<!-- end of parameters -->\n"


def pages(folder: Path) -> dict[Path, str]:
    """Every file of `docs/` that is generated, or has a generated part, and what is to be in it."""
    made = {folder / "cli.md": render()}
    for family in FAMILIES:
        page = folder / "models" / f"{family.name.replace('_', '-')}.md"
        before, _, rest = page.read_text("utf-8").partition(BEGIN)
        made[page] = before + BEGIN + parameter_table(family.declaration) + END
        made[page] += rest.partition(END)[2]
    return made


def render() -> str:
    """The help of the app and of every command, as Markdown."""
    return HEADER + "".join(_sections(get_command(app), "voxcli", None))


def parameter_table(parameters: Sequence[Parameter]) -> str:
    """What a family can be told, as Markdown."""
    rows = ["| name | option | value | default | meaning |", "|---|---|---|---|---|"]
    for each in parameters:
        meaning = "; ".join(filter(None, (each.meaning, each.note)))
        rows.append(
            f"| `{each.name}` | `{each.option}` | {each.wanted} | {each.default} | {meaning} |"
        )
    return "\n".join(rows) + "\n"


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
    for path, text in pages(Path(sys.argv[1])).items():
        path.write_text(text, "utf-8")
