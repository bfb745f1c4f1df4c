"""Plain values of options and arguments without Typer's pydantic, which costs 0.15 s to import.

Typer hands every value but a flag to a pydantic adapter, also where there is none: an option that
was not given, `--help`. It makes the options itself and has no place for a class or a function of
ours (`parser=` goes through an adapter too), so theirs are told here. A value that is just what its
type says (text, a decimal number, a path that can be read) is taken as it is; anything else goes
Typer's own way and gets its messages. A Typer that works otherwise is only slower.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer

from voxcli.errors import UsageError

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _decimal(text: str) -> float | None:
    return float(text) if _DECIMAL.fullmatch(text) else None


def _path(text: str) -> Path | None:
    is_plain = "\0" not in text and (os.access(text, os.R_OK) or not os.path.lexists(text))
    return Path(text) if is_plain else None


_KINDS: dict[Any, Callable[[str], Any]] = {int: _integer, float: _decimal, Path: _path}


def take_plain_values(command: Any) -> None:
    """Let the parameters of a command, and of the commands below it, take plain values as such.

    They must ask no more of a value than its type: no range, no parser, no existing file.
    """
    for parameter in command.params:
        if parameter.callback is None and parameter.nargs == 1:
            process = _process_list if parameter.multiple else _process
            parameter.process_value = partial(process, parameter, parameter.process_value)
    command.get_help_option = partial(_help_option, command.get_help_option)
    for below in getattr(command, "commands", {}).values():
        take_plain_values(below)


def _process(parameter: Any, typers_own: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """The value as its type, or None for an option that was not given."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if value == "" and kind is not Path and _needs_words(parameter):
        raise _empty(parameter)
    if isinstance(value, str) and (kind is Path or _names_file(parameter)):
        value = _file_name(parameter, value)
    if type(value) is kind:
        return value
    plain = _KINDS[kind](value) if isinstance(value, str) and kind in _KINDS else None
    if plain is not None or (value is None and not parameter.required):
        return plain
    try:
        return typers_own(ctx, value)
    except typer.BadParameter:
        if kind not in (int, float):
            raise
        from voxcli.cli.habits import number_hint

        told = number_hint(value, kind, parameter.metavar or "")
        hint = f"{told}; see '{ctx.command_path} --help'"
        raise UsageError(f"{_name(parameter)} is '{value}'", hint=hint) from None


def _names_file(parameter: Any) -> bool:
    return "FILE" in (parameter.metavar or "")


def _file_name(parameter: Any, value: str) -> str:
    """The name of a file or folder as it was meant: no shell opens `~` in `--file=~/a.txt`."""
    hint = "give the name of a file or folder"
    if not value:  # which pathlib takes for the present folder
        raise UsageError(f"{_name(parameter)} is empty", hint=hint)
    if value == "-" and "-" not in parameter.metavar:
        raise UsageError(f"{_name(parameter)} is '-', but it is not for a pipe", hint=hint)
    return os.path.expanduser(value) if value.startswith("~/") else value


def _empty(parameter: Any) -> UsageError:
    hint = f"give {parameter.metavar}, or leave the option out"
    return UsageError(f"{_name(parameter)} is empty", hint=hint)


def _needs_words(parameter: Any) -> bool:
    """Whether an empty value says nothing; some options are empty where they are not given."""
    return bool(parameter.param_type_name == "option" and parameter.default != "")


def _name(parameter: Any) -> str:
    """What a message calls it: the first long name of an option, or what help calls an argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name)
    return str(next((opt for opt in parameter.opts if opt.startswith("--")), parameter.opts[0]))


def _process_list(parameter: Any, typers_own: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """The texts of an option that may be given several times; none where it was not."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if "" in (value or ()) and parameter.param_type_name == "option":
        raise _empty(parameter)
    if kind == list[str] and not parameter.required and (value is None or _are_texts(value)):
        expand = os.path.expanduser if _names_file(parameter) else str
        return [expand(each) if each.startswith("~/") else each for each in value or ()]
    return typers_own(ctx, value)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(each, str) for each in values)


def _help_option(typers_own: Callable[..., Any], ctx: Any) -> Any:
    option = typers_own(ctx)
    if option is not None:
        option.default = False  # an absent --help would be None, which is no flag
    return option
