"""What is generated in `docs/`: `python -m voxcli.cli.docs docs` rewrites it.

`cli.md`, the pages of `man/` and the scripts of `completions/` come from the app; the wheel
installs the last two. In `models/` the table of a family's parameters comes from its declaration
and stands between two comments. A test compares the files with `pages()`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from voxcli import __version__
from voxcli.cli import app, panels_of
from voxcli.cli.completion import SHELLS, script
from voxcli.models import FAMILIES
from voxcli.parameters import Parameter

WIDTH = 100
HEADER = """\
# Command line

Look up every command and option of voxcli here. Exit codes are in [exit-codes.md](exit-codes.md).
`make docs` writes this page from the program, so do not edit it.
"""
COMPLETIONS = ("voxcli", "_voxcli", "voxcli.fish")  # as each shell looks for them
BEGIN, END = "<!-- parameters, by `make docs` -->\n", "<!-- end of parameters -->\n"


def pages(folder: Path) -> dict[Path, str]:
    """Every file of `docs/` that is generated, or has a generated part, and what is to be in it."""
    made = {folder / "cli.md": render()}
    made |= {folder / "man" / f"{name}.1": text for name, text in manuals().items()}
    names = zip(COMPLETIONS, SHELLS, strict=True)
    made |= {folder / "completions" / name: f"{script(shell)}\n" for name, shell in names}
    for family in FAMILIES:
        page = folder / "models" / f"{family.name.replace('_', '-')}.md"
        before, _, rest = page.read_text("utf-8").partition(BEGIN)
        made[page] = before + BEGIN + parameter_table(family.declaration) + END
        made[page] += rest.partition(END)[2]
    return made


def render() -> str:
    """The help of the app and of every command, as Markdown."""
    sections = []
    for command, context in _walk(get_command(app), "voxcli", None):
        help = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        sections.append(f"\n## {context.command_path}\n\n```text\n{help}\n```\n")
    return HEADER + "".join(sections)


def parameter_table(parameters: Sequence[Parameter]) -> str:
    """What a family can be told, as Markdown."""
    rows = ["| name | option | value | default | meaning |", "|---|---|---|---|---|"]
    for each in parameters:
        meaning = "; ".join(filter(None, (each.meaning, each.note)))
        rows.append(
            f"| `{each.name}` | `{each.option}` | {each.wanted} | {each.default} | {meaning} |"
        )
    return "\n".join(rows) + "\n"


def manuals() -> dict[str, str]:
    """Name and text of the manual page of every command, in roff."""
    found = list(_walk(get_command(app), "voxcli", None))
    names = [context.command_path.replace(" ", "-") for _, context in found]
    return {
        name: _manual(command, context, name, [other for other in names if other != name])
        for name, (command, context) in zip(names, found, strict=True)
    }


def _manual(command: Any, context: typer.Context, name: str, others: Sequence[str]) -> str:
    paragraphs = [" ".join(each.split()) for each in (command.help or "").split("\n\n")]
    lines = [
        f'.TH {_roff(name.upper())} 1 "" "voxcli {__version__}" voxcli',
        *(".SH NAME", rf"{_roff(name)} \- {_roff(paragraphs[0].rstrip('.'))}"),
        *(".SH SYNOPSIS", f".B {_roff(context.command_path)}"),
        _roff(" ".join(command.collect_usage_pieces(context))),
        *(".SH DESCRIPTION", "\n.PP\n".join(map(_roff, paragraphs))),
    ]
    for panel, records in panels_of(command, context).items():
        lines.append(f".SH {_roff(panel.upper())}")
        for option, help in records:
            lines += [".TP", f".B {_roff(option)}", _roff(" ".join(help.split()))]
    if hasattr(command, "list_commands"):
        lines.append(".SH COMMANDS")
        for each in command.list_commands(context):
            help = command.get_command(context, each).get_short_help_str(WIDTH)
            lines += [".TP", f".B {_roff(each)}", _roff(help)]
    if command.epilog:
        _, *examples = command.epilog.replace("\b\n", "").splitlines()
        lines += [".SH EXAMPLES", ".nf", *(_roff(line.strip()) for line in examples), ".fi"]
    related = [other for other in others if other.startswith(name) or name.startswith(other)]
    lines += [".SH SEE ALSO", ", ".join(f"{_roff(other)}(1)" for other in related)]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Text that roff shows as it is."""
    shown = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{shown}" if shown.startswith((".", "'")) else shown


def _walk(
    command: Any, name: str, parent: typer.Context | None
) -> Iterator[tuple[Any, typer.Context]]:
    """The command, and those below it."""
    context = typer.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    yield command, context
    for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _walk(command.get_command(context, child), child, context)


if __name__ == "__main__":
    for path, text in pages(Path(sys.argv[1])).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
