"""Options that commands share, single and in groups.

A group is a frozen dataclass whose fields are options. A command under `@grouped` takes a group as
one parameter, and Typer sees its fields as options of the command, but for those in `left_out`.
Under `--help` they stand below the group's `panel`, but for those that name one themselves.

An option that a user may set once for all (model, device, threads, voice, offline, engine) has the
default None; the environment, the config file or the default of `UserSettings` then count.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from voxcli.config import MAX_SEED, SamplingParams, UserSettings, check_pause, check_speed
from voxcli.errors import UsageError, hint_for_file, reason_of
from voxcli.parameters import Values
from voxcli.utterance import Utterance

STDIN = "-"


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let Typer see the fields of a command's dataclass parameters as options of their own."""
    hints = get_type_hints(command, include_extras=True)
    groups = {n: kind for n, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    flat: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name not in groups:
            flat.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        own = get_type_hints(groups[name], include_extras=True)
        flat += [
            Parameter(
                field.name, Parameter.KEYWORD_ONLY, default=field.default,
                annotation=_in_panel(own[field.name], getattr(groups[name], "panel", None)),
            )
            for field in _options_of(groups[name])
        ]  # fmt: skip

    @wraps(command)
    def run(**values: Any) -> None:
        made = {
            name: group(**{field.name: values.pop(field.name) for field in _options_of(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _options_of(group: Any) -> list[Field[Any]]:
    """The fields of a group that its commands have as options."""
    return [field for field in fields(group) if field.name not in getattr(group, "left_out", ())]


def _in_panel(annotation: Any, panel: str | None) -> Any:
    """The annotation of an option, in a panel of the help if it is in none yet."""
    told = copy(annotation.__metadata__[0])
    told.rich_help_panel = told.rich_help_panel or panel
    told.autocompletion = told.autocompletion or _words_in(told.metavar or "")
    return Annotated[annotation.__origin__, told]


def one_of(words: Sequence[str]) -> Callable[[str], list[str]]:
    """For a shell that completes: those of some words that begin as what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _words_in(metavar: str) -> Callable[[str], list[str]] | None:
    """The words of "auto|none|NAMES" that stand for themselves; None where there are none."""
    words = re.findall(r"(?<![^|])[a-z][a-z0-9-]*(?![^|])", metavar)
    return one_of(words) if words else None


OUTPUT, ENGINE, TEXT, VOICE = "Output", "Engine", "Text", "Voice"  # panels that commands share


def voice_names(incomplete: str) -> list[str]:
    """For a shell that completes."""
    from voxcli.voices import VoiceStore

    store = VoiceStore()
    return [name for name in (*store.bundled(), *store.names()) if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """For a shell that completes."""
    from voxcli.hub.catalog import known_models

    return [name for name in known_models() if name.startswith(incomplete)]


VoiceOption = Annotated[
    str | None,
    typer.Option(
        "--voice",
        autocompletion=voice_names,
        metavar="VOICE",
        help="Name of a voice, such as emma. See 'voxcli voices list'.",
        show_default="the model's own",
    ),
]
StyleOption = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="WORDS",
        help="How the speech should sound, such as 'warm, slow'. Not every model supports this.",
        show_default=False,
    ),
]
MaxSlotsOption = Annotated[
    int,
    typer.Option(
        "--slots",
        "--max-slots",
        metavar="N",
        help="Segments to speak at the same time, 1 or more. Each takes memory.",
        show_default=True,
        rich_help_panel=ENGINE,
    ),
]
LexiconOption = Annotated[
    Path | None,
    typer.Option(
        "--lexicon",
        metavar="FILE",
        help="CSV file that defines how words are spoken: written,spoken[,language[,match]].",
        show_default="none",
        rich_help_panel=TEXT,
    ),
]
OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an output file that exists.", rich_help_panel=OUTPUT),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result (or the error) as one JSON object.",
        rich_help_panel=OUTPUT,
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress and no summary on stderr.", rich_help_panel=OUTPUT
    ),
]
OfflineOption = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Open no network connection, even if files are missing.",
        rich_help_panel=ENGINE,
    ),
]
BitsOption = Annotated[
    str | None,
    typer.Option(
        "--bits", metavar="N", help="Bits per sample: 8, 16, 24 or 32f.", show_default="16"
    ),
]
StreamFormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="wav|raw",
        help="Format of '-o -', which has no suffix. raw is s16le at 16 bits.",
    ),
]


_SUBTITLES = "a subtitle file"  # whose times would be read aloud
_OF_BATCH = {".epub": "a book"} | dict.fromkeys((".srt", ".vtt", ".ass", ".ssa"), _SUBTITLES)


@dataclass(frozen=True)
class TextSource:
    """Where the text comes from."""

    panel: ClassVar[str] = TEXT

    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="Text to speak. '-', or a pipe without TEXT, reads stdin."
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE|-", help="Read the text from a file."),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="Encoding of the file or stdin, such as latin-1.",
            show_default="UTF-8, or as the byte-order mark says",
        ),
    ] = None

    def read(self) -> str:
        """The text from the one place it was given.

        Raises:
            UsageError: from no place or from two, or the file cannot be read.
            TextError: undecodable.
        """
        from voxcli.text import decode_text

        if self.text is not None and self.file is not None:
            hint = "give one of: TEXT, '-' for stdin, --file FILE"
            raise UsageError("TEXT and --file are both given", hint=hint)
        if self.file is not None and not self.is_stdin:
            if (kind := _OF_BATCH.get(self.file.suffix.lower())) is not None:
                hint = f"to speak it, run: voxcli batch {self.file} -o FOLDER"
                raise UsageError(f"{self.file} is {kind}", hint=hint)
            try:
                content = self.file.read_bytes()
            except OSError as err:
                from voxcli.audio.formats import FORMATS

                message = f"cannot read {self.file}: {reason_of(err)}"
                hint = "check --file"
                if self.file.suffix[1:].lower() in FORMATS:  # which -f names in other programs
                    hint = f"to write the speech there, give -o {self.file}"
                raise UsageError(message, hint=hint_for_file(self.file, hint)) from err
            text = decode_text(content, encoding=self.encoding, source=str(self.file))
            _warn_rows(self.file)
            return text
        if self.is_stdin:
            if sys.stdin is None or sys.stdin.closed:
                raise UsageError("stdin is closed", hint="give TEXT or --file")
            return decode_text(sys.stdin.buffer.read(), encoding=self.encoding, source="stdin")
        if self.text is None:
            raise UsageError("no text was given", hint="give TEXT, '-' for stdin, or --file FILE")
        if not _is_unicode(self.text):  # bytes that are no text in the locale's encoding
            return decode_text(os.fsencode(self.text), encoding=self.encoding, source="TEXT")
        if self.encoding is not None:
            raise UsageError("--encoding is for --file and stdin, and TEXT is given")
        if _is_file(self.text):
            raise UsageError(
                f"'{self.text}' is a file", hint=f"to read it aloud, give --file {self.text}"
            )
        return self.text

    @property
    def is_stdin(self) -> bool:
        """Whether stdin is read: '-' says so, or nothing is given and something is piped in."""
        if self.file is not None or self.text is not None:
            return STDIN in (str(self.file), self.text)
        return _is_piped()


def _warn_rows(file: Path) -> None:
    """Say that a table is spoken with all that is in it."""
    if file.suffix.lower() in ("", ".txt"):
        return
    from voxcli.batch.tables import SUFFIXES
    from voxcli.cli import output

    if SUFFIXES.get(file.suffix.lower()) in ("csv", "jsonl"):
        way = f"to speak each row by itself, run: voxcli batch {file} -o FOLDER"
        output.warn(f"all of {file} is spoken as one text; {way}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_piped() -> bool:
    """Whether stdin is a pipe or a file: no terminal, no /dev/null, and open."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or no file at all
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_file(text: str) -> bool:
    try:
        return os.path.isfile(text)
    except ValueError:  # no name can have a NUL in it
        return False


@dataclass(frozen=True)
class SpeechOptions:
    """How a text is spoken."""

    panel: ClassVar[str] = VOICE

    voice: VoiceOption = None
    style: StyleOption = ""
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="CODE",
            help="Language of the text as an ISO 639-1 code, such as en.",
            show_default="detected",
            rich_help_panel=TEXT,
        ),
    ] = None
    speed: Annotated[
        float,
        typer.Option(
            "--speed",
            metavar="X",
            help="Tempo from 0.25 to 4, with the pitch kept. Best from 0.5 to 2.",
        ),
    ] = Utterance.speed
    pause: Annotated[
        float | None,
        typer.Option(
            "--pause",
            metavar="S",
            help="Silence between the segments of a long text, from 0 to 10 seconds.",
            show_default="by punctuation",
        ),
    ] = Utterance.pause_s
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help=f"Seed of the noise, from 0 to {MAX_SEED}. The same seed gives the same speech.",
            show_default="chosen and reported",
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            metavar="S",
            help="Longest audio of the whole text in seconds, above 0. Longer speech is cut.",
            show_default="depends on the text",
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            metavar="N",
            help="How often to try again if the speech fails its checks, 0 or more.",
            show_default=True,
        ),
    ] = SamplingParams.retries
    lexicon: LexiconOption = None
    raw_text: Annotated[
        bool,
        typer.Option(
            "--raw-text",
            help="Do not spell out numbers and abbreviations, and ignore pause marks.",
            rich_help_panel=TEXT,
        ),
    ] = False

    def utterance(self, text: str, settings: UserSettings, told: Values) -> Utterance:
        """What the user asked for.

        Args:
            told: the model, by `ParameterOptions.given`.

        Raises:
            UsageError: a value out of range.
        """
        if self.language is not None and not self.language.strip():
            raise UsageError("--language is empty", hint="give a code such as en, or leave it out")
        return Utterance(
            text=text,
            voice=settings.voice if self.voice is None else self.voice,
            sampling=SamplingParams(self.seed, self.max_seconds, self.retries, dict(told)),
            language=self.language,
            speed=check_speed(self.speed),
            is_normalised=not self.raw_text,
            style=self.style,
            pause_s=None if self.pause is None else check_pause(self.pause),
            lexicon=self._lexicon(settings),
        )

    def _lexicon(self, settings: UserSettings) -> str:
        """The table that was given, else the one of the settings; none for raw text."""
        if self.raw_text:
            if self.lexicon is not None:
                raise UsageError("--lexicon and --raw-text are both given", hint="drop one of them")
            return ""
        path = settings.lexicon if self.lexicon is None else self.lexicon
        if path is None:
            return ""
        from voxcli.text.pronunciations import load_lexicon

        return load_lexicon(path)
