"""The options of `voxcli bench` in groups, and what each group comes to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from voxcli.cli.engine_options import EngineOptions
from voxcli.cli.options import (
    ENGINE,
    OUTPUT,
    VOICE,
    MaxSlotsOption,
    OverwriteOption,
    StyleOption,
    VoiceOption,
)
from voxcli.cli.references import ReferenceOptions
from voxcli.config import EngineConfig, SamplingParams, UserSettings
from voxcli.errors import UsageError
from voxcli.parameters import Values
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    from voxcli.bench.cells import BenchOptions
    from voxcli.engine.base import SpeechEngine
    from voxcli.hub import ModelFiles

STDOUT = "-"
NATIVE = "native"
DEFAULT_PROMPTS = "short,medium,long"
DEFAULT_LANG = "en"


@dataclass(frozen=True)
class LoadOptions:
    """What is said, how often, and how much of it at once."""

    panel: ClassVar[str] = "Load"

    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Texts to speak: short, medium, long, everyday, or files with one text a line.",
            show_default=DEFAULT_PROMPTS,
        ),
    ] = None
    lang: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Languages of the prompts, such as en,zh.",
            show_default=DEFAULT_LANG,
        ),
    ] = None
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Streams at the same time, 1 or more each. A new stream starts when one ends.",
            show_default="1",
        ),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="R", help="Start R streams a second at random times, instead of --concurrency."
        ),
    ] = None
    max_slots: MaxSlotsOption = EngineConfig.max_slots
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How often to speak each prompt, or each stream, 1 or more.",
            show_default="3",
        ),
    ] = None
    warmup: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Warm-up runs before each measurement, 0 or more.",
            show_default="1",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Seed of the first repeat. Each further repeat adds 1.",
            show_default="1",
        ),
    ] = None
    stream: Annotated[
        bool,
        typer.Option(
            "--stream/--no-stream",
            help="Receive audio while it is made, or whole checked segments.",
        ),
    ] = True

    @property
    def languages(self) -> tuple[str, ...]:
        return _words(self.lang or DEFAULT_LANG)

    def options(self, told: Values, files: ReportFiles) -> BenchOptions:
        """What is measured.

        Args:
            told: the model, by `ParameterOptions.given`.

        Raises:
            UsageError: a value out of range.
        """
        from voxcli.bench.cells import BenchOptions

        concurrency = () if self.rate is not None else _numbers("--concurrency", self.concurrency)
        typed: dict[str, Any] = {
            "rate": self.rate,
            "repeats": self.repeats,
            "warmup": self.warmup,
            "seed": self.seed,
            "concurrency": concurrency,
        }
        return BenchOptions(
            **{name: value for name, value in typed.items() if value is not None},
            parameters=told,
            is_streaming=self.stream,
            save_audio=files.save_audio,
            is_overwriting=files.overwrite,
        )


@dataclass(frozen=True)
class MannerOptions:
    """How every prompt is spoken."""

    panel: ClassVar[str] = VOICE

    voice: VoiceOption = None
    style: StyleOption = ""

    def manner(
        self, reference: ReferenceOptions, settings: UserSettings, told: Values, *, is_random: bool
    ) -> Utterance:
        """In whose voice, in which style and told what; a saved voice is not looked up yet."""
        heard = reference.load(settings)
        manner = Utterance("", sampling=SamplingParams(parameters=told), style=self.style)
        if heard is not None:
            recording = heard.recording
            prompt = recording if recording.text else None
            return replace(manner, voice=str(reference.ref), reference=recording, prompt=prompt)
        if is_random:  # which know no saved voice
            return manner
        return replace(manner, voice=settings.voice if self.voice is None else self.voice)


@dataclass(frozen=True)
class BenchEngineOptions(EngineOptions):
    """The same; what is measured is an engine of our own unless somebody asks for another."""

    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="native|auto|URL",
            help="What runs the model: this process, auto (a running 'voxcli serve' with this "
            "model, else this process), or a server.",
            show_default=True,
        ),
    ] = NATIVE

    def files(self, settings: UserSettings, weights: WeightsOptions) -> ModelFiles | None:
        """Of the model, where it is known that this process speaks with it.

        Raises:
            ModelNotFoundError, CheckpointError: it is not here, or not usable.
        """
        if weights.are_random or settings.engine != NATIVE:
            return None
        from voxcli.hub import resolve_model

        return resolve_model(settings.model, offline=settings.offline, cache_dir=settings.cache_dir)


@dataclass(frozen=True)
class WeightsOptions:
    """Which weights, but the model's own."""

    panel: ClassVar[str] = ENGINE

    dummy_weights: Annotated[
        Path | None,
        typer.Option(
            metavar="CONFIG",
            help="Use random weights of the size in this config.json, to measure speed.",
        ),
    ] = None
    frames: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Length of the speech with --dummy-weights, in frames of the model, 4 or more.",
            show_default="125",
        ),
    ] = None

    @property
    def are_random(self) -> bool:
        return self.dummy_weights is not None

    def open(self, config: EngineConfig) -> SpeechEngine | None:
        """An engine over random weights, if they are asked for; loads nothing.

        Raises:
            UsageError: the configuration cannot be used; too few frames.
        """
        if self.dummy_weights is None:
            return None
        from voxcli.bench.launch import frames_for
        from voxcli.engine.choose import RandomWeights, open_random_engine

        weights = RandomWeights(self.dummy_weights, frames_for(self.frames))
        return open_random_engine(weights, config)


@dataclass(frozen=True)
class ReportFiles:
    """Where the report goes besides the terminal."""

    panel: ClassVar[str] = OUTPUT

    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write the whole report as JSON.")
    ] = None
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a web page with plots that opens offline. Needs voxcli[bench].",
        ),
    ] = None
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a CSV file with a row for each run.")
    ] = None
    save_audio: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the audio of the measured runs.")
    ] = None
    overwrite: OverwriteOption = False

    @property
    def is_json_on_stdout(self) -> bool:
        return self.json == STDOUT

    @property
    def json_file(self) -> Path | None:
        return None if self.json in (None, STDOUT) else Path(str(self.json))

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.json_file, self.html, self.csv) if path is not None]


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError as err:
        raise UsageError(f"{option} is '{text}'", hint="give numbers such as 1,4,16") from err
