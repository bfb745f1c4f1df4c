"""What is wrong with a command line, in voxcli's own words, with what to type instead.

Imported for an error alone. Typer's errors come as they are: their classes are no public names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from voxcli import cli
from voxcli.errors import UsageError, nearest

# What begins with a dash and is no option: "-5", "-²", "-hello", "-hello there", "-- he said".
_DASHED_TEXT = re.compile(r"-(?:[^a-zA-Z-]|[a-zA-Z]{2}|.*\s)")
_NEAR = 0.75  # an option this like the one that was typed is meant, even if another command has it
_SHORTEST = 3  # letters of an option that another may begin with: --ref of --reference


def usage_error(error: Any, words: list[str]) -> UsageError:
    """The error for one of Typer's: no such option, a missing argument, a bad value.

    Args:
        words: the whole command line.
    """
    path, command = _command_in(words)
    hint = f"see '{path} --help'"
    message = str(error.format_message()).rstrip(".")
    message = message[:1].lower() + message[1:]
    option = str(getattr(error, "option_name", None) or "")
    if option and message.startswith("no such option"):
        return _no_option(option, path, command, words)
    if message.startswith("got unexpected extra argument"):
        surplus = message.rpartition("(")[2].rstrip(")")
        return _too_many(surplus, path, command, words)
    if message.startswith("missing command"):
        message = "no command was given"
    elif message.startswith("missing"):
        message = f"{_as_typed(error.param)} is missing"
    elif message.endswith("requires an argument"):
        message = f"{option} needs a value"
        if found := [each for each in command.params if option in each.opts]:
            message += f": {_as_typed(found[0], option)}"
    elif message.endswith("does not take a value"):
        message = f"{option} takes no value"
    return UsageError(message, hint=hint)


def no_command(name: str, known: Iterable[str], path: str) -> UsageError:
    """The error for a command that is not there.

    Args:
        known: those that could have been meant.
        path: the words before it.
    """
    above = [each for each in cli.COMMANDS if path == "voxcli" and name in _below(cli.load(each))]
    hint = nearest(name, known) or _any_of("it is a command of", above)
    return UsageError(f"no command '{name}'", hint=f"{hint}see '{path} --help'")


def _no_option(option: str, path: str, command: Any, words: list[str]) -> UsageError:
    hint = f"see '{path} --help'"
    message = f"no option '{option}'"
    if text := next(filter(_DASHED_TEXT.match, words), None):
        hint = f"put -- before a text that begins with a dash, or {hint}"
        return UsageError(f"no option '{text}'", hint=hint)
    argument = option.lstrip("-").upper()
    if any(each.metavar == argument and _is_argument(each) for each in command.params):
        return UsageError(message, hint=f"{argument} needs none: {path} {argument}")
    if _has(command, option):  # the words before it led to another command
        return UsageError(message, hint=f"put it behind the command: {path} {option}")
    name, likeness = _nearest_option(option, command)
    owners = [each for each in cli.COMMANDS if _has(cli.load(each), option)][:3]
    if owners and likeness < _NEAR:
        return UsageError(message, hint=_any_of("it is an option of", owners) + hint)
    return UsageError(message, hint=f"did you mean '{name}'? {hint}" if name else hint)


def _nearest_option(option: str, command: Any) -> tuple[str, float]:
    """The option of a command that is most like another, and how much; none below 0.6."""
    typed = option.lstrip("-")
    best, most = "", 0.6
    for known in (each for parameter in command.params for each in parameter.opts):
        name = known.removeprefix("--")
        likeness = difflib.SequenceMatcher(None, typed, name).ratio()
        shorter, longer = sorted((typed, name), key=len)
        if len(shorter) >= _SHORTEST and longer.startswith(shorter):
            likeness = max(likeness, _NEAR) + 1 / len(longer)
        if known.startswith("--") and likeness > most:
            best, most = known, likeness
    return best, most


def _too_many(surplus: str, path: str, command: Any, words: list[str]) -> UsageError:
    hint = f"see '{path} --help'"
    first = surplus.split()[0] if surplus.split() else surplus
    before = words[words.index(first) - 1] if first in words else ""
    if before.startswith("-") and "--" not in words:
        return UsageError(f"{before} takes no value, but '{first}' follows it", hint=hint)
    if any(parameter.name == "text" for parameter in command.params):
        return _text_in_pieces(words, path)
    if any(map(_is_argument, command.params)):
        hint = f"put a name with spaces in quotes, or {hint}"
    return UsageError(f"too many words: {surplus}", hint=hint)


def _text_in_pieces(words: list[str], path: str) -> UsageError:
    behind = words[words.index("--") + 1 :] if "--" in words else []
    if option := next((word for word in behind[1:] if word.startswith("-")), None):
        message = f"'{option}' is behind --, where all words are text"
        return UsageError(message, hint="put options before --, and the text in quotes behind it")
    name = path.split()[-1]
    rest = words[words.index(name) + 1 :] if name in words else []
    text = " ".join(takewhile(lambda word: not word.startswith("-"), rest))
    hint = f'put it in quotes: {path} "{text or "TEXT"}"'
    return UsageError("the text is several words", hint=hint)


def _command_in(words: list[str]) -> tuple[str, Any]:
    """The command that was typed, and the words that lead to it; else voxcli itself."""
    from typer.main import get_command

    path, command = "voxcli", get_command(cli.app)
    known: Any = cli.COMMANDS
    for word in words:
        if word in known:
            command = known[word] if path != "voxcli" else cli.load(word)
            path, known = f"{path} {word}", _below(command)
    return path, command


def _as_typed(parameter: Any, option: str = "") -> str:
    """A parameter as in a command, such as "INPUT" or "-o FOLDER"."""
    value = str(parameter.metavar or parameter.name.upper())
    return value if _is_argument(parameter) else f"{option or parameter.opts[0]} {value}"


def _any_of(what: str, commands: list[str]) -> str:
    return f"{what}: {', '.join(f'voxcli {each}' for each in commands)}; " if commands else ""


def _has(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _below(command: Any) -> Any:
    return getattr(command, "commands", {})


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")
