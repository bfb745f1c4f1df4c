"""The command line: the app, its lazily loaded commands, and `main`, the one error boundary.

Each command is a module of this package with `EXAMPLES` and either a function of the module's name
or a Typer `app` (a noun with verbs below it). A module is imported when its command is asked for,
and imports torch, numpy and the like only inside a command body, so that help stays fast.

Only names that Typer exports are used: since 0.26 it carries its own copy of Click.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from voxcli import __version__
from voxcli.cli import output
from voxcli.cli.plain import take_plain_values
from voxcli.engine.takeover import TakeOver, replace_process
from voxcli.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_OUTPUT,
    EXIT_USAGE,
    OutputError,
    UsageError,
    VoxError,
    reason_of,
)

# With what `voxcli --help` says of each: it imports none of them.
COMMANDS = {
    "speak": "Speak a text into a file or to stdout.",
    "clone": "Speak a text in the voice of a recording.",
    "batch": "Speak every row of a table into a separate file.",
    "stream": "Play a text on the loudspeaker while it is spoken.",
    "voices": "List, save, describe, rename and share voices.",
    "bench": "Measure how fast this machine speaks.",
    "models": "List, inspect, check, download and remove models.",
    "serve": "Keep a model loaded for programs, the browser and voxcli.",
    "doctor": "Report what this machine can do.",
    "completion": "Complete commands, options and voices in a shell.",
    "help": "Show the help of a command.",
}
EXAMPLES = (
    'voxcli speak "Good morning." --voice emma -o morning.wav',
    "date | voxcli speak -o now.mp3",
    "voxcli voices list",
    "voxcli help speak",
)
COMPLETE = "_VOXCLI_COMPLETE"  # by which a shell asks what may follow

_HELP = ["-h", "--help"]
_SETTINGS = {"help_option_names": _HELP, "max_content_width": 100}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_SILENCE = logging.NullHandler()
# What Typer puts around a default that is told in words.
_BRACKETS = re.compile(r"\[default: \((.+)\)\]", re.DOTALL)
# The class of every error in the command's wording (no such option, missing argument, bad value).
_WordingError: Any = typer.BadParameter.__base__


def examples_text(examples: Sequence[str]) -> str:
    """Examples as they stand under the help; the backspace keeps the lines apart."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)


def panels_of(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Arguments, then options by panel, in the order in which the panels first occur."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        name, told = record
        record = (name.partition(" <")[0], _BRACKETS.sub(r"[default: \1]", told))
        is_argument = parameter.param_type_name == "argument"
        panel = getattr(parameter, "rich_help_panel", None) or "Options"
        panels.setdefault("Arguments" if is_argument else panel, []).append(record)
    if rest := panels.pop("Options", None):  # with --help, at the end
        panels["Options"] = rest
    return panels


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Typer shows panels by rich alone, which takes longer to import than all of voxcli's help."""
    for name, records in panels_of(command, ctx).items():
        with formatter.section(name):
            formatter.write_dl(records)


def _verbose_of(ctx: Any) -> list[Any]:
    """voxcli's own --verbose for a command below it, where `-qv` is `-q -v`; help leaves it out."""
    if ctx.parent is None:
        return []
    top = ctx.find_root().command.params
    verbose = copy(next(each for each in top if each.name == "verbose"))
    verbose.hidden, verbose.expose_value = True, False
    verbose.process_value = lambda _, is_asked: _log_to_stderr(is_asked)
    return [verbose]


def _check_words(command: Any, ctx: Any, words: Sequence[str]) -> None:
    if any(not word[:1].isalnum() for word in words) and not ctx.resilient_parsing:
        from voxcli.cli.wording import check_words

        check_words(command, ctx, words)


class PlainCommand(TyperCommand):
    """A command whose help shows options in panels, without rich."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *_verbose_of(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _check_words(self, ctx, args)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Without braces around an argument that is required: nobody is to type them."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class PlainGroup(TyperGroup):
    """The same for a command with commands below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *_verbose_of(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--help speak` is `speak --help`."""
        known = self.list_commands(ctx)
        at = next((at for at, word in enumerate(args) if word in known), 0)
        if at and args[at - 1] in _HELP:
            args = [*args[: at - 1], args[at], args[at - 1], *args[at + 1 :]]
        _check_words(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing:
            from voxcli.cli.wording import no_command

            raise no_command(args, known, ctx.command_path)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class _App(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, **{"cls": PlainCommand, **settings})


def new_app(help: str, *, cls: type[TyperGroup] = PlainGroup, **settings: Any) -> typer.Typer:
    """A Typer app in voxcli's style: plain help, plain tracebacks, `-h`."""
    return _App(
        cls=cls,
        help=help,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=_SETTINGS,
        **settings,
    )


class LazyCommands(PlainGroup):
    """Imports `voxcli.cli.<name>` when `<name>` is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            command = load(cmd_name)
            take_plain_values(command)
            if COMPLETE in os.environ:
                import_module("voxcli.cli.completion").complete_behind_signs(command)
            self.commands[cmd_name] = command
        return self.commands[cmd_name]


def load(name: str) -> Any:
    module = import_module(f"voxcli.cli.{name}")
    if hasattr(module, "app"):
        command = get_command(module.app)
        command.name, command.epilog = name, examples_text(module.EXAMPLES)
        return command
    single = new_app("")
    epilog = examples_text(module.EXAMPLES)
    single.command(name, epilog=epilog, context_settings=_SETTINGS)(getattr(module, name))
    return get_command(single)


app = new_app(
    """Turn text into speech, from a terminal.

    The result goes to stdout, everything else to stderr. Exit codes: 0 done, 1 an item failed,
    2 usage or input, 3 model, 4 device, 5 writing, 130 interrupted.
    """,
    cls=LazyCommands,
    no_args_is_help=True,
    epilog=examples_text(EXAMPLES),
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        output.result(f"voxcli {__version__}")
        raise typer.Exit


@app.callback()
def voxcli(
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show each step on stderr, with its time."),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """The options before a command."""
    logging.captureWarnings(True)
    if not _log_to_stderr(verbose):
        logging.basicConfig(handlers=[_SILENCE])


def _log_to_stderr(is_asked: bool) -> bool:
    if is_asked:
        line = "%(relativeCreated)6.0f ms  %(name)s: %(message)s"
        logging.getLogger().removeHandler(_SILENCE)
        logging.basicConfig(level=logging.INFO, format=line)
        logging.getLogger("voxcli").setLevel(logging.DEBUG if _is_debugging() else logging.INFO)
    return is_asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; every expected failure ends here.

    An unknown exception is a bug: it passes, and Python shows its traceback and exits with 1.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    output.never_fail_to_encode()
    try:
        try:
            return run(words)
        except TakeOver as end:
            if arguments is None:  # else the process is another program's
                replace_process(end)
            return _report(end.fault, words)
        except VoxError as err:
            if err.exit_code == EXIT_BROKEN_PIPE:  # whoever read our stdout has gone
                output.drop_stdout()
                return EXIT_BROKEN_PIPE
            return _report(err, words)
        except _WordingError as err:
            return _report_wording(err, words)
        except UnicodeEncodeError as err:
            if sys.getfilesystemencoding() == "utf-8":
                raise
            return _report(_not_a_name(err), words)
        except PermissionError as err:
            if not err.filename:
                raise
            return _report(_not_allowed(err), words)
        except ModuleNotFoundError as err:
            if not err.name or err.name.partition(".")[0] == "voxcli":
                raise
            from voxcli.extras import missing

            return _report(missing(err.name), words)
    except OutputError as err:  # the report itself could not be written
        output.error(err.message, err.hint)
        return err.exit_code
    except BrokenPipeError:
        output.drop_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as err:
        if err.errno not in _FULL or err.filename is not None:
            raise
        output.drop_stdout()
        output.error(f"cannot write to stdout: {reason_of(err)}")  # files are checked where written
        return EXIT_OUTPUT
    except (KeyboardInterrupt, typer.Abort):
        output.note("voxcli: interrupted")
        return EXIT_INTERRUPTED


def run(words: list[str]) -> int:
    """Run a command line and return its exit code; lets every error pass."""
    if COMPLETE in os.environ:
        import_module("voxcli.cli.completion").begin()
    try:
        command: Any = get_command(app)
        take_plain_values(command)
        code = command.main(words, prog_name="voxcli", standalone_mode=False)
        if sys.stdout:  # None when it was closed by the shell
            sys.stdout.flush()
    except SystemExit as err:
        # NOTE: Typer itself turns a closed pipe into exit 1; its cause is still attached.
        if isinstance(err.__context__, BrokenPipeError):
            raise err.__context__ from None
        raise
    if code == EXIT_INTERRUPTED:  # Typer's form of Ctrl-C
        raise KeyboardInterrupt
    return code if isinstance(code, int) else EXIT_OK


def _report(error: VoxError, words: list[str]) -> int:
    if _is_debugging():
        output.traceback(error)
    if isinstance(error, UsageError):
        from voxcli.cli.habits import straight_quotes

        error.hint = straight_quotes(words) or error.hint
    output.error(error.message, error.hint)
    # Read from the words themselves: the error may be that they could not be parsed.
    options = words[: words.index("--")] if "--" in words else words
    if "--json" in options:
        output.result_json({"error": error_as_json(error)})
    return error.exit_code


def _not_a_name(error: UnicodeEncodeError) -> UsageError:
    """For a file name where Python's UTF-8 mode is switched off."""
    return UsageError(
        f"{error.object!r} is not a valid file name here: "
        f"the locale's encoding is {error.encoding}",
        hint="set LC_ALL=C.UTF-8, and unset PYTHONUTF8",
    )


def _not_allowed(error: PermissionError) -> UsageError:
    """For what is read; whoever writes reports an OutputError."""
    report = UsageError(
        f"cannot open {os.fsdecode(error.filename)}: permission denied",
        hint="give a file that you may read, in a folder that you may open",
    )
    report.__cause__ = error
    return report


def _report_wording(error: Any, words: list[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        output.note(error.message)
        return EXIT_USAGE
    from voxcli.cli.wording import usage_error

    return _report(usage_error(error, words), words)


def error_as_json(error: VoxError) -> dict[str, Any]:
    """Type, message, hint, exit code, and the data that the error carries."""
    return {"type": type(error).__name__, **vars(error), "exit_code": error.exit_code}


def _is_debugging() -> bool:
    from voxcli.config import load_settings

    try:
        return load_settings().debug
    except VoxError:  # a bad config file is reported by the command that needs it
        return False
