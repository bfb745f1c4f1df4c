"""`voxcli stream`: a text, or lines as they arrive, to the loudspeaker while it is generated."""

from __future__ import annotations

import secrets
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voxcli.cli import output
from voxcli.cli.options import (
    PRECISION_DEFAULT,
    RETRIES_DEFAULT,
    CfgOption,
    EagerOption,
    JsonOption,
    LanguageOption,
    MaxSecondsOption,
    ModelOption,
    OfflineOption,
    OverwriteOption,
    PrecisionOption,
    QuietOption,
    RetriesOption,
    SeedOption,
    StepsOption,
    ThreadsOption,
    VoiceOption,
    settings_with,
)
from voxcli.cli.playback import Target, open_sound, play
from voxcli.config import EngineConfig, SamplingParams
from voxcli.errors import EXIT_ITEM_FAILED, DeviceError, TextError, UsageError
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    from voxcli.plan import Plan, VoiceModel
    from voxcli.streaming import Source

EXAMPLES = (
    'voxcli stream "The ferry leaves at noon."',
    "tail -f app.log | voxcli stream -",
    "voxcli stream --file samples/garden.txt --save garden.flac",
    "voxcli stream --list-devices",
    'voxcli stream "The ferry leaves at noon." -o - --format raw | aplay -f S16_LE -r 24000',
)

STDIN = STDOUT = "-"
FIRST_LINE_S = 0.1  # a pipe that is empty from the start says so within it


def stream(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to say, or '-' for lines of stdin as they come."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the text from a file.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoding of the file or stdin, such as latin-1.",
            show_default="UTF-8, or by byte order mark",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME|INDEX",
            help="Sound device: its number, its name or a part of it that no other has.",
            show_default="the system's",
        ),
    ] = None,
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="List the sound devices and stop.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Also write what is heard to a file; its suffix is the format.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="-", help="'-' sends the sound to stdout, not to a device."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="wav|raw", help="What '-o -' streams; raw is s16le at 16 bits.")
    ] = "wav",
    bits: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Bits a sample of --save and '-o -': 8, 16, 24 or 32f.",
            show_default="16",
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="HZ",
            help="Sample rate of the sound device, --save and '-o -' in Hz.",
            show_default="the device's own; that of the model",
        ),
    ] = None,
    buffer_ms: Annotated[
        int | None,
        typer.Option(
            "--buffer-ms",
            metavar="MS",
            help="Speech to make before playing begins, in milliseconds, from 0 to 120000.",
            show_default="from the measured speed",
        ),
    ] = None,
    voice: VoiceOption = None,
    language: LanguageOption = None,
    speed: Annotated[
        float, typer.Option(metavar="X", help="Tempo with the pitch kept, from 0.5 to 2.")
    ] = 1.0,
    seed: SeedOption = None,
    steps: StepsOption = None,
    cfg: CfgOption = None,
    max_seconds: MaxSecondsOption = None,
    retries: RetriesOption = RETRIES_DEFAULT,
    raw_text: Annotated[
        bool, typer.Option("--raw-text", help="Do not write out numbers and abbreviations.")
    ] = False,
    model: ModelOption = None,
    compute_device: Annotated[
        str | None,
        typer.Option(
            "--compute-device",
            metavar="DEVICE",
            help="Where the model runs: auto, cpu, cuda or cuda:N ('--device' of other commands).",
            show_default="auto",
        ),
    ] = None,
    precision: PrecisionOption = PRECISION_DEFAULT,
    threads: ThreadsOption = None,
    eager: EagerOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    offline: OfflineOption = False,
) -> None:
    """Speak a text to the loudspeaker while it is generated.

    With '-' every line of stdin is spoken as it arrives; an empty line is a pause. Ctrl-C stops the
    sound at once; --save then holds what was heard.
    """
    from contextlib import ExitStack

    from voxcli.audio.stretch import check_speed
    from voxcli.hub import resolve_model
    from voxcli.plan import MAX_CHOSEN_SEED, voice_model

    if list_devices:
        _show_devices(is_json=json)
        return
    settings = settings_with(
        model=model, device=compute_device, threads=threads, voice=voice, offline=offline
    )
    if seed is None:  # the same for all lines
        seed = secrets.randbelow(MAX_CHOSEN_SEED)
    utterance = Utterance(
        "", settings.voice, SamplingParams(seed, steps, cfg, max_seconds, retries),
        language, check_speed(speed), not raw_text,
    )  # fmt: skip
    target = _check_target(
        device, save, out, format, bits, rate, buffer_ms, overwrite, is_json=json
    )
    files = resolve_model(settings.model, offline=settings.offline, cache_dir=settings.cache_dir)
    voice_of = voice_model(files)
    source = _open_source(text, file, encoding, utterance, voice_of)
    config = EngineConfig(
        settings.model,
        settings.device,
        precision,
        settings.threads,
        max_slots=1,  # segments side by side would slow down the one that is heard
        eager=eager,
        solver=_solver(utterance.sampling, voice_of),
    )
    with ExitStack() as stack:
        sound, failure = open_sound(target)
        if sound is not None:
            stack.callback(sound.close)
        from voxcli.synthesizer import Synthesizer  # imports torch: only now is it needed

        synthesizer = stack.enter_context(Synthesizer.load_files(files, config))
        if synthesizer.setup.warning and not quiet:
            output.warn(synthesizer.setup.warning)
        report = play(synthesizer, source, target, sound, failure, is_quiet=quiet)
    if json:
        output.result_json(report)
    elif target.save is not None:
        output.result(target.save)
    if report["failed"]:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _show_devices(*, is_json: bool) -> None:
    from voxcli.audio.sound import list_devices

    devices = list_devices()
    if is_json:
        output.result_json({"devices": [asdict(device) for device in devices]})
        return
    if not devices:
        raise DeviceError("there is no sound device to play on", hint="see 'voxcli doctor'")
    rows = [("", "index", "name", "system", "channels", "rate")]
    rows += [
        (
            "*" if device.is_default else "", str(device.index), _printable(device.name),
            device.api, str(device.channels), f"{device.sample_rate} Hz",
        )
        for device in devices
    ]  # fmt: skip
    output.result(output.table(rows))


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)


def _check_target(
    device: str | None,
    save: Path | None,
    out: str | None,
    container: str,
    bits: str | None,
    rate: int | None,
    buffer_ms: int | None,
    is_overwriting: bool,
    *,
    is_json: bool,
) -> Target:
    """Refuse what cannot be heard or written, before anything loads."""
    from voxcli.audio.formats import resolve_format
    from voxcli.audio.prebuffer import MAX_PREBUFFER_S
    from voxcli.audio.stream_out import STREAM_FORMATS
    from voxcli.audio.write import check_output
    from voxcli.cli.speak import check_stdout

    is_pipe = out is not None
    if is_pipe and out != STDOUT:
        raise UsageError(f"-o is '{out}'", hint=f"use --save {out} for a file, -o - for a pipe")
    if container not in STREAM_FORMATS:
        raise UsageError(f"--format is '{container}'", hint="use wav or raw")
    if container != "wav" and not is_pipe:
        raise UsageError(f"--format {container} is for '-o -' alone", hint="drop it, or add -o -")
    if is_pipe and device is not None:
        raise UsageError("--device and '-o -' both say where the sound goes", hint="drop one")
    if bits is not None and save is None and not is_pipe:
        raise UsageError("--bits is for --save and '-o -'", hint="drop it, or add --save FILE")
    if buffer_ms is not None and not 0 <= buffer_ms <= 1000 * MAX_PREBUFFER_S:
        raise UsageError(f"--buffer-ms is {buffer_ms}", hint="give milliseconds from 0 to 120000")
    if rate is not None:
        resolve_format("wav", bits if is_pipe else None).choose_rate(rate, rate)
    if is_pipe:
        check_stdout(is_json=is_json)
    if save is not None:
        check_output(save, overwrite=is_overwriting, bits=bits, rate=rate)
    buffer_s = None if buffer_ms is None else buffer_ms / 1000
    return Target(device, save, is_pipe, container, bits, rate, buffer_s, is_overwriting)


def _open_source(
    text: str | None,
    file: Path | None,
    encoding: str | None,
    utterance: Utterance,
    model: VoiceModel,
) -> Source:
    from voxcli.cli.speak import read_text
    from voxcli.plan import make_plan
    from voxcli.streaming import OneText, TextLines
    from voxcli.text.lines import LineReader

    def plan(said: str) -> Plan:
        made = make_plan(replace(utterance, text=said), model)
        for lost in made.text.unspeakable:
            output.warn(f"the voice cannot say {lost}: left out {lost.count} time(s)")
        return made

    if text != STDIN or file is not None:
        return OneText(plan(read_text(text, file, encoding)))
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("stdin is closed", hint="give TEXT or --file")
    lines = TextLines(LineReader(sys.stdin.fileno(), encoding=encoding), plan)
    if lines.is_empty(FIRST_LINE_S):
        raise TextError("the text is empty", hint="give TEXT, --file, or lines on stdin")
    return lines


def _solver(sampling: SamplingParams, model: VoiceModel) -> tuple[tuple[int, bool], ...]:
    """What every line will ask of the engine."""
    cfg = model.settings.cfg if sampling.cfg is None else sampling.cfg
    return ((sampling.steps or model.settings.steps, cfg != 1.0),)
