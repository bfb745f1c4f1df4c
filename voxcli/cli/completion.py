"""`voxcli completion`: what makes a shell complete commands, options and voices."""

from __future__ import annotations

import os
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

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
    name = Path(shell).name.lower()  # $SHELL is a path
    if name not in SHELLS:
        raise UsageError(f"there is no completion for '{shell}'", hint=f"use {', '.join(SHELLS)}")
    output.result(script(name))


# As Typer's, which has no file names behind a sign: --file=…
_ZSH = f"""\
#compdef voxcli

_voxcli_completion() {{
  local found="$(env _TYPER_COMPLETE_ARGS="${{words[1,$CURRENT]}}" {COMPLETE}=complete_zsh voxcli)"
  [[ $found == _files ]] && compset -P '--*='
  eval $found
}}

compdef _voxcli_completion voxcli
"""


def begin() -> None:
    """Let a shell ask for words, of which bash takes the sign in `--voice=em` for one."""
    import_module("typer.completion").completion_init()
    words, at = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", 0))
    signs = [i for i in range(1, len(words)) if words[i] == "=" and words[i - 1].startswith("--")]
    kept = [word for i, word in enumerate(words) if i not in signs or i == at]
    if signs:
        os.environ["COMP_WORDS"] = "\n".join(kept)
        os.environ["COMP_CWORD"] = str(at - sum(sign < at for sign in signs))


def complete_behind_signs(command: Any) -> None:
    """Let what completes `--voice=em` have the option in front, as zsh and fish want it."""
    for parameter in command.params:
        parameter.shell_complete = partial(_with_option, parameter.shell_complete)
    for below in getattr(command, "commands", {}).values():
        complete_behind_signs(below)


def _with_option(typers_own: Any, ctx: Any, incomplete: str) -> Any:
    found = typers_own(ctx, incomplete)
    asked = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    if option := re.search(r"(?:^|\s)(--[\w-]+=)\S*$", asked):
        for item in found:
            item.value = option[1] + item.value
    return found


def script(shell: str) -> str:
    """What a shell is to run; it asks voxcli itself for the words that fit."""
    if shell == "zsh":
        return _ZSH.rstrip("\n")
    make = import_module("typer.completion").get_completion_script
    return str(make(prog_name="voxcli", complete_var=COMPLETE, shell=shell))
