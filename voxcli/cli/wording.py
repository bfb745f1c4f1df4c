"""What is wrong with a command line, in voxcli's own words, with what to type instead.

Typer's errors come as they are: their classes are no public names. `check_words` finds what Typer
would take for something else.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from typer.main import get_command

from voxcli import cli
from voxcli.cli import output
from voxcli.cli.habits import OPTIONS, VERBS, quoted, unmarked
from voxcli.errors import UsageError, nearest

# What begins with a dash and is no option: "-5", "-²", "-hello", "-hello there", "-- he said".
_DASHED_TEXT = re.compile(r"-(?:[^a-zA-Z-]|[a-zA-Z]{2}|.*\s)")
# An option by its looks: with two dashes, one, or a dash that a word processor made of them.
_OPTION = re.compile(r"(--|-|-?[‐‑‒–—―−－]+-?)([A-Za-z][\w-]*)(=.*)?", re.DOTALL)
_NEAR = 0.75  # an option this like the one that was typed is meant, even if another command has it
_SHORTEST = 3  # letters of an option that another may begin with: --ref of --reference
_NO_SPACES = "write NAME=VALUE without spaces, or leave the sign out"
_LISTS = ("voices", "models")  # commands that list: what --list-voices means


def check_words(command: Any, ctx: Any, words: Sequence[str]) -> None:
    """Refuse what a parser would take for something else, or drop.

    That is an option as the value of the one before it, a long option with one dash, of which the
    first letter may be an option, and dashes that a word processor made.

    Raises:
        UsageError: with what to type.
    """
    known = {name: each for each in command.get_params(ctx) for name in _all_names(each)}
    given: dict[str, str] = {}
    behind = ""
    for word in words:
        if word == "--":
            return
        looks = _OPTION.fullmatch(word.strip())
        if behind and word == "=":
            raise UsageError(f"{behind} needs a value, and '=' follows it", hint=_NO_SPACES)
        if behind and looks and (word in known or looks[1] == "--"):
            needs = _as_typed(known[behind], behind)
            hint = f"give it one: {needs}; or write {behind}={word} if that is its value"
            raise UsageError(f"{behind} needs a value, and '{word}' follows it", hint=hint)
        if looks and looks[1] != "--":
            _check_dash(word, looks, command, known)
        if looks and word != word.strip() and f"{looks[1]}{looks[2]}" in known:
            hint = f"write {word.strip()}, or put -- before a text that begins so"
            raise UsageError(f"'{word}' has a space in it that no option has", hint=hint)
        option, sign, value = (behind, "=", word) if behind else word.partition("=")
        behind = ""
        if option in known and not known[option].is_flag and not sign:
            behind = option
        elif option in known and not known[option].multiple:
            _warn_twice(option, value, known[option], given)


def _warn_twice(option: str, value: str, parameter: Any, given: dict[str, str]) -> None:
    """Say which of two values counts: the last, as wherever a command adds options of its own."""
    told = option if parameter.is_flag else f"{option} {value}"
    before = given.get(parameter.name, told)
    if before != told and not {before, told} <= {*parameter.opts}:
        output.warn(f"'{told}' is used, and not '{before}', which is given too")
    given[parameter.name] = told


def _check_dash(word: str, looks: re.Match[str], command: Any, known: Any) -> None:
    dash, name, value = looks.groups(default="")
    if dash == "-" and len(name) == 1 and value and word[:2] in known:
        raise UsageError(f"'{word}' has a sign in it", hint=f"write {word[:2]} {value[1:]}")
    if dash == "-" and (len(name) < _SHORTEST or word in known):
        return
    if f"-{name}" in known:
        meant = f"-{name}"
    else:
        meant, likeness = _nearest_option(name, command)
        # "-onames" is "-o names"
        is_attached = dash == "-" and f"-{name[0]}" in known and name[0] != meant[2:3]
        if likeness < _NEAR or (is_attached and meant != f"--{name}"):
            return
    if dash == "-":
        hint = f"did you mean '{meant}{value}'? put -- before a text that begins with a dash"
        raise UsageError(f"no option '{word}'", hint=hint)
    hint = f"write {meant}{value}, or put -- before a text that begins so"
    raise UsageError(f"'{word}' begins with a dash that no option has", hint=hint)


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


def no_command(words: Sequence[str], known: Iterable[str], path: str) -> UsageError:
    """The error for a command that is not there.

    Args:
        words: it, and what follows.
        known: those that could have been meant.
        path: the words before it.
    """
    name, known = words[0], tuple(known)
    message, see = f"no command '{name}'", f"see '{path} --help'"
    if path != "voxcli":
        verb = next((verb for verb in VERBS.get(name, ()) if verb in known), "")
        hint = f"did you mean '{verb}'? " if verb else nearest(name, known)
        return UsageError(message, hint=(hint or f"it has {', '.join(known)}; ") + see)
    if Path(name).is_file():
        return UsageError(message, hint=f"'{name}' is a file; {_for_file(name)}")
    if f"--{name}" in _names(get_command(cli.app)):
        return UsageError(message, hint=f"write voxcli --{name}")
    if len(name.split()) == 1:
        above = [each for each in cli.COMMANDS if name in _below(cli.load(each))]
        if above:
            return UsageError(message, hint=_any_of("it is a command of", above) + see)
        is_near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=_NEAR)
        if is_near or (len(words) == 1 and name.startswith(known)):
            return UsageError(message, hint=nearest(name, known) + see)
    if words[-1] == "--help":
        return UsageError(message, hint=nearest(name, known) + see)
    told = [*takewhile(lambda word: not word.startswith("-"), words)]
    # "say 'good morning'": the words that were in quotes are the text
    text = next((word for word in told if len(word.split()) > 1), unmarked(" ".join(told)))
    hint = f"to speak this text, run: voxcli speak {quoted(text)}"
    if text == name and len(name.split()) > 1:
        return UsageError("no command was given", hint=hint)
    return UsageError(message, hint=f"{hint}; else {see}")


def _for_file(name: str) -> str:
    from voxcli.audio.formats import FORMATS
    from voxcli.batch.tables import SUFFIXES

    name, suffix = shlex.quote(name), Path(name).suffix.lower()
    if suffix[1:] in FORMATS:
        return f"to speak in its voice, run: voxcli clone TEXT --ref {name}"
    if SUFFIXES.get(suffix, "text") != "text":
        return f"to speak its rows, run: voxcli batch {name} -o FOLDER"
    return f"to read it aloud, run: voxcli speak --file {name}"


def _no_option(option: str, path: str, command: Any, words: list[str]) -> UsageError:
    hint = f"see '{path} --help'"
    message = f"no option '{option}'"
    if text := next((word for word in words if _is_text(word, option)), None):
        hint = f"put -- before a text that begins with a dash, or {hint}"
        return UsageError(f"no option '{text}'", hint=hint)
    argument = option.lstrip("-").upper()
    if any(each.metavar == argument and _is_argument(each) for each in command.params):
        return UsageError(message, hint=f"{argument} needs none: {path} {argument}")
    if option in _names(command) and (moved := _behind_command(words)):
        return UsageError(message, hint=f"put it behind the command: {moved}")
    if path != "voxcli" and option in _names(get_command(cli.app)):
        return UsageError(message, hint=f"write voxcli {option}")
    if option in ("--resume", "--continue") and "--force" in _names(command):
        hint = "leave it out: the same command goes on where it stopped"
        return UsageError(message, hint=hint)
    if lists := [each for each in _LISTS if option in (f"--list-{each}", f"--list_{each}")]:
        return UsageError(message, hint=f"run: voxcli {lists[0]} list")
    if option in ("-t", "--text") and (path == "voxcli" or _takes_text(command)):
        named = "voxcli speak" if path == "voxcli" else path
        return UsageError(message, hint=f"TEXT needs none: {named} TEXT")
    if (flag := option.replace("--no-", "--", 1)) != option and flag in _names(command):
        return UsageError(message, hint=f"leave {flag} out; {hint}")
    elsewhere = OPTIONS.get(option.lstrip("-").replace("_", "-"), "")
    if elsewhere.partition(" ")[0] in _names(command):
        return UsageError(message, hint=f"did you mean '{elsewhere}'? {hint}")
    name, likeness = _nearest_option(option, command)
    wanted = elsewhere.partition(" ")[0] or option
    owners = [each for each in cli.COMMANDS if wanted in _names(cli.load(each))][:3]
    if owners and likeness < _NEAR:
        told = f"did you mean '{wanted}'? it" if elsewhere else "it"
        return UsageError(message, hint=_any_of(f"{told} is an option of", owners) + hint)
    return UsageError(message, hint=f"did you mean '{name}'? {hint}" if name else hint)


def _is_text(word: str, option: str) -> bool:
    """Whether an option that is none was found in this word, which looks like a text."""
    is_in = word == option or (not option.startswith("--") and option[1:] in word[1:])
    return is_in and _DASHED_TEXT.match(word) is not None


def _behind_command(words: list[str]) -> str:
    """The same command line with the options before the command at its end; empty without one."""
    at = next((at for at, word in enumerate(words) if word in cli.COMMANDS), 0)
    if not at:
        return ""
    end = words.index("--") if "--" in words else len(words)
    moved = [*words[at:end], *words[:at], *words[end:]]
    return " ".join(("voxcli", *map(_quoted_if_needed, moved)))


def _nearest_option(option: str, command: Any) -> tuple[str, float]:
    """The option of a command that is most like another, and how much; none below 0.6."""
    typed = option.lstrip("-").lower().replace("_", "-")
    best, most = "", 0.6
    for known in _names(command):
        name = known.removeprefix("--")
        likeness = difflib.SequenceMatcher(None, typed, name).ratio()
        shorter, longer = sorted((typed, name), key=len)
        if len(shorter) >= _SHORTEST and longer.startswith(shorter):
            likeness = max(likeness, _NEAR) + 1 / len(longer)
        if known == "--help" and likeness < _NEAR:
            continue
        if known.startswith("--") and likeness > most:
            best, most = known, likeness
    return best, most


def _too_many(surplus: str, path: str, command: Any, words: list[str]) -> UsageError:
    hint = f"see '{path} --help'"
    first = surplus.split()[0] if surplus.split() else surplus
    if not surplus.strip():
        hint = "a backslash at the end of a line has nothing behind it, no space either"
        return UsageError("a word is a space alone", hint=hint)
    dashed = next((word for word in surplus.split() if word.startswith("-")), "")
    if "--" in words and dashed:
        hint = "put options before --, and the text in quotes behind it"
        return UsageError(f"'{dashed}' is behind --, where all words are text", hint=hint)
    name, sign, value = first.partition("=")
    if sign and f"--{name}" in _names(command):
        hint = f"write --{name} {shlex.quote(value)}"
        return UsageError(f"'{first}' is no option", hint=hint)
    at = words.index(first) if first in words else 0
    before = words[at - 1] if at else ""
    lists = {opt for each in command.params if each.multiple for opt in each.opts}
    if sign and at > 1 and words[at - 2] in lists:
        hint = f"write {words[at - 2]} {shlex.quote(first)}"
        return UsageError(f"an option is missing before '{first}'", hint=hint)
    if before.startswith("-") and "--" not in words:
        elsewhere = OPTIONS.get(before.lstrip("-"), "")
        if elsewhere in _names(command):
            hint = f"did you mean '{elsewhere} {first}'? {hint}"
        return UsageError(f"{before} takes no value, but '{first}' follows it", hint=hint)
    if option := _option_of_file(first, command):
        hint = f"write {option} {shlex.quote(first)}"
        return UsageError(f"an option is missing before '{first}'", hint=hint)
    if _takes_text(command):
        return _text_in_pieces(words, path)
    if Path(first).is_file():
        return UsageError(
            f"too many files: {surplus}", hint=f"'{path}' takes one at a time; {hint}"
        )
    if any(map(_is_argument, command.params)):
        hint = f"put a name with spaces in quotes, or {hint}"
    return UsageError(f"too many words: {surplus}", hint=hint)


def _option_of_file(word: str, command: Any) -> str:
    """The option that a surplus word can be meant for; empty where there is none."""
    from voxcli.audio.formats import FORMATS

    options, has_text = _names(command), _takes_text(command)
    if Path(word).suffix[1:].lower() not in FORMATS:
        is_output = not has_text and Path(word).suffix and not Path(word).exists()
        return "-o" if is_output and "-o" in options else ""
    likely = ("--ref", "-o") if Path(word).is_file() else ("-o", "--ref")
    return next((each for each in likely if each in options), "")


def _text_in_pieces(words: list[str], path: str) -> UsageError:
    name = path.split()[-1]
    rest = [word for word in words[words.index(name) + 1 :] if word != "--"]
    text = " ".join(takewhile(lambda word: word == "-" or not word.startswith("-"), rest))
    hint = f"put it in quotes: {path} {quoted(unmarked(text) or 'TEXT')}"
    return UsageError("the text is several words", hint=hint)


def _quoted_if_needed(word: str) -> str:
    return word if shlex.quote(word) == word else quoted(word)


def _command_in(words: list[str]) -> tuple[str, Any]:
    """The command that was typed, and the words that lead to it; else voxcli itself."""
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


def _all_names(parameter: Any) -> tuple[str, ...]:
    return (*parameter.opts, *parameter.secondary_opts)


def _names(command: Any) -> list[str]:
    """Every option of a command."""
    options = (each for each in command.params if not _is_argument(each))
    return ["--help", *(name for each in options for name in _all_names(each))]


def _takes_text(command: Any) -> bool:
    return any(each.name == "text" for each in command.params)


def _below(command: Any) -> Any:
    return getattr(command, "commands", {})


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")
