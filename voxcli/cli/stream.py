"""`voxcli stream`: a text, or lines as they arrive, to the loudspeaker while it is generated."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from voxcli.cli import output
from voxcli.cli.engine_options import EngineOptions, WarmOptions, say_who, start
from voxcli.cli.options import (
    OUTPUT,
    JsonOption,
    OverwriteOption,
    QuietOption,
    SpeechOptions,
    StreamFormatOption,
    TextSource,
    grouped,
)
from voxcli.cli.parameter_options import ParameterOptions
from voxcli.cli.playback import Target, open_sound, play
from voxcli.cli.speaking import STDOUT, check_stdout, takes_integers
from voxcli.cli.speech_report import (
    warn_direction,
    warn_undescribed,
    warn_unseen,
    warn_unspeakable,
)
from voxcli.cli.subtitles import SubtitlesOption, check_subtitles
from voxcli.config import is_device, random_seed
from voxcli.errors import EXIT_ITEM_FAILED, DeviceError, TextError, UsageError
from voxcli.utterance import FinishReason, Utterance

if TYPE_CHECKING:
    from voxcli.engine.base import SpeechEngine
    from voxcli.parameters import Values
    from voxcli.plan import Plan
    from voxcli.streaming.source import Source

EXAMPLES = (
    'voxcli stream "The ferry leaves at noon."',
    "date | voxcli stream",
    "(printf 'It is done. That'; sleep 1; echo ' was all.') | voxcli stream -",
    'voxcli stream "The ferry leaves at noon." --voice emma --save noon.flac',
    "voxcli stream --list-devices",
    'voxcli stream "The ferry leaves at noon." -o - --format raw > noon.raw',
)

FIRST_LINE_S = 0.1  # a pipe that is empty from the start says so within it


@dataclass(frozen=True)
class SoundOptions:
    """Where the sound goes."""

    panel: ClassVar[str] = OUTPUT

    sound_device: Annotated[
        str | None,
        typer.Option(
            "--sound-device",
            metavar="NAME|INDEX",
            help="Sound device: its number, its name, or a part of the name that no other device "
            "has.",
            show_default="the system's",
        ),
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Also write the sound to a file. The suffix sets the format.",
        ),
    ] = None
    subtitles: SubtitlesOption = None
    overwrite: OverwriteOption = False
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="-", help="'-' sends the sound to stdout instead of a device."
        ),
    ] = None
    format: StreamFormatOption = "wav"
    bits: Annotated[
        str | None,
        typer.Option(
            "--bits",
            metavar="N",
            help="Bits per sample of --save and '-o -': 8, 16, 24 or 32f.",
            show_default="16",
        ),
    ] = None
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate",
            metavar="HZ",
            help="Sample rate in Hz of the sound device, --save and '-o -'.",
            show_default="the device's own, else the model's",
        ),
    ] = None
    buffer_ms: Annotated[
        int | None,
        typer.Option(
            "--buffer-ms",
            metavar="MS",
            help="Speech to make before playing begins, from 0 to 120000 milliseconds.",
            show_default="depends on the measured speed",
        ),
    ] = None

    def check(self, *, is_json: bool) -> Target:
        """Refuse what cannot be heard or written, before anything loads."""
        from voxcli.audio.formats import STREAM_FORMATS, resolve_format
        from voxcli.audio.prebuffer import MAX_PREBUFFER_S

        is_pipe = self.out == STDOUT
        if self.out is not None and not is_pipe:
            hint = f"use --save {self.out} for a file, -o - for a pipe"
            raise UsageError(f"-o is '{self.out}'", hint=hint)
        if self.format not in STREAM_FORMATS:
            raise UsageError(f"--format is '{self.format}'", hint="use wav or raw")
        if self.format != "wav" and not is_pipe:
            hint = "drop it, or add -o -"
            raise UsageError(f"--format {self.format} is only for '-o -'", hint=hint)
        if is_pipe and self.sound_device is not None:
            raise UsageError(
                "--sound-device and '-o -' both say where the sound goes", hint="drop one"
            )
        if self.bits is not None and self.save is None and not is_pipe:
            raise UsageError("--bits is for --save and '-o -'", hint="drop it, or add --save FILE")
        if self.buffer_ms is not None and not 0 <= self.buffer_ms <= 1000 * MAX_PREBUFFER_S:
            hint = f"give milliseconds from 0 to {1000 * MAX_PREBUFFER_S:.0f}"
            raise UsageError(f"--buffer-ms is {self.buffer_ms}", hint=hint)
        wav = resolve_format("wav", self.bits if is_pipe else None)
        if self.rate is not None:
            wav.choose_rate(self.rate, self.rate)
        if is_pipe:
            check_stdout(is_json=is_json)
        if self.subtitles is not None:
            check_subtitles(self.subtitles, overwrite=self.overwrite)
        if self.save is not None:
            from voxcli.audio.write import check_output  # imports numpy: a server can speak before

            check_output(self.save, overwrite=self.overwrite, bits=self.bits, rate=self.rate)
        return Target(
            self.sound_device, self.save, is_pipe, self.format, self.bits, self.rate,
            None if self.buffer_ms is None else self.buffer_ms / 1000, self.overwrite,
            self.subtitles,
        )  # fmt: skip


@grouped
def stream(
    text: TextSource,
    sound: SoundOptions,
    speech: SpeechOptions,
    parameters: ParameterOptions,
    options: EngineOptions,
    warm: WarmOptions,
    list_devices: Annotated[
        bool,
        typer.Option(
            "--list-devices", help="List the sound devices, then stop.", rich_help_panel=OUTPUT
        ),
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play a text on the loudspeaker while it is spoken. Needs voxcli[play].

    With '-' or from a pipe, voxcli speaks stdin as it arrives: each line, and each complete
    sentence of an unfinished line. An empty line is a pause. Ctrl-C stops the sound at once, and
    --save then has what was heard.
    """
    if list_devices:
        _show_devices(is_json=json)
        return
    settings = options.settings()
    if options.device is not None and not is_device(options.device):
        hint = "use auto, cpu, cuda or cuda:N; a sound device is chosen with --sound-device"
        raise UsageError(f"--device is '{options.device}'", hint=hint)
    if speech.seed is None:  # chosen here, because it is the same for all lines
        speech = replace(speech, seed=random_seed())
    told = parameters.given()
    utterance = speech.utterance("", settings, told)
    target = sound.check(is_json=json)
    warm.check(settings)
    # one slot: segments made side by side would slow down the one that is being heard
    config = options.config(settings, (told,) if told else ())
    config = replace(config, max_slots=1, light=settings.light)
    with ExitStack() as stack:
        engine = stack.enter_context(options.open(settings, config, is_quiet=quiet))
        warn_unseen([utterance.voice], engine.facts)
        utterance = engine.in_voice(utterance)
        source, wanted = _open_source(text, utterance, engine, target)
        say_who(engine, is_quiet=quiet)
        device, failure = open_sound(target)
        if device is not None:
            stack.callback(device.close)
        start(engine, [wanted], is_quiet=quiet)
        report = play(
            engine, source, target, device, failure, max_seconds=speech.max_seconds, is_quiet=quiet
        )
        warm.leave_server(engine, settings, config)
    if json:
        output.result_json(report)
    elif report["path"] is not None and not target.is_pipe:
        output.result(report["path"])
    if report["failed"] or report["finish_reason"] == FinishReason.LENGTH:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _show_devices(*, is_json: bool) -> None:
    from voxcli.audio.sound import in_time, list_devices

    devices = in_time(list_devices)
    if is_json:
        output.result_json({"devices": [asdict(device) for device in devices]})
        return
    if not devices:
        raise DeviceError("there is no sound device to play on", hint="see 'voxcli doctor'")
    rows = [("", "index", "name", "system", "channels", "rate")]
    rows += [
        (
            "*" if device.is_default else "", str(device.index), device.printable_name,
            device.api, str(device.channels), f"{device.sample_rate} Hz",
        )
        for device in devices
    ]  # fmt: skip
    output.result(output.table(rows))


def _open_source(
    text: TextSource, utterance: Utterance, engine: SpeechEngine, target: Target
) -> tuple[Source, Values]:
    """One text, planned, or the lines of stdin; and what the model is told with all of it.

    A running server begins with the one text at once.

    Raises:
        UsageError, TextError: as `TextSource.read` and `SpeechEngine.plan`; stdin ends without a
            word.
    """

    warn_undescribed(utterance.style, engine.facts)

    def plan(said: str) -> Plan:
        made = engine.plan(replace(utterance, text=said))
        warn_unspeakable(made)
        return made

    if not text.is_stdin:
        planned = plan(text.read())
        engine.begin(planned, takes_integers=_takes_integers(target, engine.facts.sample_rate))
        from voxcli.streaming.source import OneText

        return OneText(planned), planned.parameters
    from voxcli.streaming.source import TextLines
    from voxcli.text import whole
    from voxcli.text.lines import LineReader
    from voxcli.text.pauses import silence_alone
    from voxcli.text.thoughts import Thoughts

    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("stdin is closed", hint="give TEXT or --file")

    def language_of(said: str) -> str:
        return whole.language_of(said, utterance.language, engine.facts.languages)

    reader = LineReader(
        sys.stdin.fileno(),
        encoding=text.encoding,
        whole_length=lambda said: whole.whole_length(said, language_of(said)),
    )
    thoughts = Thoughts(warn_direction)
    lines = TextLines(reader, plan, thoughts=thoughts)
    if utterance.is_normalised:
        lines = TextLines(
            reader,
            plan,
            silence_of=silence_alone,
            says_nothing=lambda said: whole.says_nothing(said, language_of(said)),
            thoughts=thoughts,
        )
    if lines.is_empty(FIRST_LINE_S):
        raise TextError("the text is empty", hint="give TEXT, --file, or lines on stdin")
    return lines, engine.settled(utterance)


def _takes_integers(target: Target, model_rate: int) -> bool:
    is_plain = target.is_pipe and target.save is None
    return is_plain and takes_integers(target.bits, target.rate, model_rate)
