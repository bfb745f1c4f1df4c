"""`voxcli completion`: what makes a shell complete commands, options and voices."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from voxcli.cli import COMPLETE, output
from voxcli.cli.options import one_of
from voxcli.errors import UsageError

EXAMPLES = (
    "voxcli completion bash > voxcli.bash && . ./voxcli.bash",
    "voxcli completion zsh > _voxcli",
    "voxcli completion fish > voxcli.fish",
)

SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="bash|zsh|fish", help="Name of the shell.", autocompletion=one_of(SHELLS)
        ),
    ],
) -> None:
    """Print a script that completes voxcli's commands, options and voices in a shell.

    For bash, put this line into ~/.bashrc: eval "$(voxcli completion bash)". For zsh, write the
    script to the file _voxcli in a folder of $fpath. For fish, write the script to
    ~/.config/fish/completions/voxcli.fish.
    """
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for '{shell}'", hint=f"use {', '.join(SHELLS)}")
    output.result(script(shell))


def script(shell: str) -> str:
    """What a shell is to run; it asks voxcli itself for the words that fit."""
    make = import_module("typer.completion").get_completion_script
    return str(make(prog_name="voxcli", complete_var=COMPLETE, shell=shell))
