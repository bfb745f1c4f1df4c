"""What commands share: options in groups, single options, and how a user's settings fill them in.

A group is a frozen dataclass whose fields are options. A command under `@grouped` takes a group as
one parameter, and Typer sees its fields as options of the command.

An option that a user may set once for all (model, device, threads, voice, offline) has the default
None; the environment, the config file or the default of `UserSettings` then count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

from voxcli.cli import output
from voxcli.config import (
    MAX_SEED,
    EngineConfig,
    SamplingParams,
    UserSettings,
    check_pause,
    check_speed,
    load_settings,
)
from voxcli.errors import UsageError
from voxcli.utterance import Mode, Utterance

if TYPE_CHECKING:
    from voxcli.engine.remote.client import RemoteSynthesizer
    from voxcli.hub import ModelFiles
    from voxcli.plan import Plan
    from voxcli.engine.native.engine import Synthesizer

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
                annotation=own[field.name],
            )
            for field in fields(groups[name])
        ]  # fmt: skip

    @wraps(command)
    def run(**values: Any) -> None:
        made = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


VoiceOption = Annotated[
    str | None,
    typer.Option(
        "--voice",
        metavar="VOICE",
        help="Name of a saved voice; see 'voxcli voices list'.",
        show_default="the model's own",
    ),
]
StyleOption = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="WORDS",
        help="How it should sound, such as 'warm, slow'; not every model can.",
        show_default=False,
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        help="Solver steps for each patch of audio, from 2 to 100.",
        show_default="the model's best",
    ),
]
MaxSlotsOption = Annotated[
    int,
    typer.Option(
        "--max-slots",
        metavar="N",
        help="Segments that can be spoken at once, 1 or more; each takes memory.",
        show_default=True,
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output file that exists.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result (or the error) as one JSON object.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no summary on stderr.")
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Open no network connection, whatever is missing.")
]
BitsOption = Annotated[
    str | None,
    typer.Option("--bits", metavar="N", help="Bits a sample: 8, 16, 24 or 32f.", show_default="16"),
]
StreamFormatOption = Annotated[
    str,
    typer.Option(
        "--format", metavar="wav|raw", help="What '-o -' streams; raw is s16le at 16 bits."
    ),
]


@dataclass(frozen=True)
class TextSource:
    """Where the text comes from."""

    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to say, or '-' for stdin.")
    ] = None
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the text from a file.")
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="Encoding of the file or stdin, such as latin-1.",
            show_default="UTF-8, or by byte order mark",
        ),
    ] = None

    def read(self) -> str:
        """The text from the one place it was given.

        Raises:
            UsageError: from no place or from two, or the file cannot be read.
            TextError: undecodable.
        """
        from voxcli.text import decode_text

        if (self.text is None) == (self.file is None):
            what = "no text was given" if self.text is None else "TEXT and --file are both given"
            raise UsageError(what, hint="give one of: TEXT, '-' for stdin, --file FILE")
        if self.file is not None:
            try:
                content = self.file.read_bytes()
            except OSError as err:
                message = f"cannot read {self.file}: {err.strerror}"
                raise UsageError(message, hint="check --file") from err
            return decode_text(content, encoding=self.encoding, source=str(self.file))
        assert self.text is not None
        if self.encoding is not None and self.text != STDIN:
            raise UsageError("--encoding is for --file and stdin, and TEXT is given")
        if self.text == STDIN:
            if sys.stdin is None or sys.stdin.closed:
                raise UsageError("stdin is closed", hint="give TEXT or --file")
            return decode_text(sys.stdin.buffer.read(), encoding=self.encoding, source="stdin")
        return self.text


@dataclass(frozen=True)
class SpeechOptions:
    """How a text is spoken."""

    voice: VoiceOption = None
    style: StyleOption = ""
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="CODE",
            help="Language of the text as an ISO 639-1 code, such as en.",
            show_default="found from the text",
        ),
    ] = None
    speed: Annotated[
        float,
        typer.Option("--speed", metavar="X", help="Tempo with the pitch kept, from 0.5 to 2."),
    ] = Utterance.speed
    pause: Annotated[
        float | None,
        typer.Option(
            "--pause",
            metavar="S",
            help="Silence between the segments of a long text in seconds, from 0 to 10.",
            show_default="by punctuation",
        ),
    ] = Utterance.pause_s
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help=f"Seed of the noise, from 0 to {MAX_SEED}; same seed, same speech.",
            show_default="chosen and reported",
        ),
    ] = None
    steps: StepsOption = None
    cfg: Annotated[
        float | None,
        typer.Option(
            "--cfg",
            metavar="X",
            help="Guidance, from 0 to 10; 1 is unguided and fastest.",
            show_default="the model's best",
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            metavar="S",
            help="Longest audio of the whole text in seconds, above 0.",
            show_default="by text length",
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            metavar="N",
            help="Fresh attempts after speech that came out bad, 0 or more.",
            show_default=True,
        ),
    ] = SamplingParams.retries
    raw_text: Annotated[
        bool, typer.Option("--raw-text", help="Do not write out numbers and abbreviations.")
    ] = False

    def utterance(self, text: str, settings: UserSettings) -> Utterance:
        """What the user asked for.

        Raises:
            UsageError: a value out of range.
        """
        if self.language is not None and not self.language.strip():
            raise UsageError("--language is empty", hint="give a code such as en, or leave it out")
        return Utterance(
            text=text,
            voice=settings.voice if self.voice is None else self.voice,
            sampling=SamplingParams(
                self.seed, self.steps, self.cfg, self.max_seconds, self.retries
            ),
            language=self.language,
            speed=check_speed(self.speed),
            is_normalised=not self.raw_text,
            style=self.style,
            pause_s=None if self.pause is None else check_pause(self.pause),
        )


@dataclass(frozen=True)
class EngineOptions:
    """What model speaks, and on what."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A model name, a hub id or a folder; see 'voxcli models list'.",
            show_default=UserSettings.model,
        ),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="Where the model runs: auto, cpu, cuda or cuda:N.",
            show_default=UserSettings.device,
        ),
    ] = None
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            metavar="PRECISION",
            help="Number format of the model: auto, fp32, bf16, or fp8 on GPUs that have it.",
            show_default=True,
        ),
    ] = EngineConfig.precision
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            help="CPU threads, 0 (automatic) or more.",
            show_default=str(UserSettings.threads),
        ),
    ] = None
    eager: Annotated[
        bool,
        typer.Option("--eager", help="On a GPU, run without CUDA graphs: slower, for debugging."),
    ] = False
    offline: OfflineOption = False

    def settings(self) -> UserSettings:
        """The user's settings with these on top.

        Raises:
            UsageError: a bad config file or `VOXCLI_*` variable.
        """
        typed: dict[str, Any] = {
            "model": self.model,
            "device": self.device,
            "threads": self.threads,
            "offline": self.offline or None,
        }
        given = {name: value for name, value in typed.items() if value is not None}
        return replace(load_settings(), **given)

    def config(self, settings: UserSettings, plans: tuple[Plan, ...] = ()) -> EngineConfig:
        """What the engine is built from; graphs are captured for what the plans need."""
        return EngineConfig(
            settings.model,
            settings.device,
            self.precision,
            settings.threads,
            eager=self.eager,
            native=settings.native,
            solver=tuple(sorted({plan.solver for plan in plans})),
        )


@dataclass(frozen=True)
class HotEngineOptions(EngineOptions):
    """The same for a command that a running server may serve."""

    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="auto|off|URL",
            help="Use the engine of a running 'voxcli serve': if it fits, never, or the one at a "
            "URL.",
            show_default=UserSettings.server,
        ),
    ] = None

    def settings(self) -> UserSettings:
        settings = super().settings()
        return settings if self.server is None else replace(settings, server=self.server)

    def remote(self, settings: UserSettings, *, is_quiet: bool) -> RemoteSynthesizer | None:
        """A running server that stands in for an engine of our own; else None, and why on stderr.

        Raises:
            UsageError, EngineError: the server at a URL does not answer, or does not fit.
        """
        from voxcli.engine.remote.find import Wanted, connect

        wanted = Wanted(
            settings.model, settings.device, self.precision, self.eager, settings.cache_dir,
            Path.cwd(),
        )  # fmt: skip
        remote, why_not = connect(settings.server, wanted, api_key=settings.api_key)
        if why_not is not None:
            output.note(f"the running server is not used: {why_not}", is_quiet=is_quiet)
        return remote

    def load(
        self, settings: UserSettings, files: ModelFiles, config: EngineConfig, *, is_quiet: bool
    ) -> Synthesizer:
        """Who speaks: a running server with the calls of a `Synthesizer`, or an engine of our own.

        Raises:
            DeviceError, CheckpointError: our own engine cannot be made; else as `remote`.
        """
        remote = self.remote(settings, is_quiet=is_quiet)
        if remote is not None:
            say_server(remote, is_quiet=is_quiet)
            return cast("Synthesizer", remote)
        from voxcli.engine.native.engine import Synthesizer  # imports torch: only now is it needed

        return Synthesizer.load_files(files, config)


@dataclass(frozen=True)
class SizedEngineOptions(HotEngineOptions):
    """The same for a command that speaks as much at once as there is room for."""

    max_slots: MaxSlotsOption = EngineConfig.max_slots

    def config(self, settings: UserSettings, plans: tuple[Plan, ...] = ()) -> EngineConfig:
        return replace(super().config(settings, plans), max_slots=self.max_slots)


def say_server(remote: RemoteSynthesizer, *, is_quiet: bool) -> None:
    """Who speaks, once it is known that there is something to speak."""
    output.note(f"spoken by the running server ({remote.name})", is_quiet=is_quiet)


def find_model(settings: UserSettings) -> ModelFiles:
    """The files of the model the settings name.

    Raises:
        ModelNotFoundError, CheckpointError: it is not here, or not usable.
    """
    from voxcli.hub import resolve_model

    return resolve_model(settings.model, offline=settings.offline, cache_dir=settings.cache_dir)


def resolve_voice(utterance: Utterance, files: ModelFiles) -> Utterance:
    """Give a voice by name the recordings that it stands for.

    Raises:
        VoiceNotFoundError: no such voice, or not for this model.
        VoiceFileError: its file is damaged.
    """
    if utterance.voice in (None, "default") or utterance.mode is not Mode.ZERO_SHOT:
        return utterance
    from voxcli.hub import encoder_checksum
    from voxcli.voices import VoiceStore

    assert utterance.voice is not None
    voice = VoiceStore().find(utterance.voice)
    return voice.apply(utterance, files.name, encoder_checksum(files))
