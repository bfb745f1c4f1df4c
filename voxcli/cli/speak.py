"""`voxcli speak`: a text to a file or to stdout."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import output
from voxcli.cli.options import (
    PRECISION_DEFAULT,
    RETRIES_DEFAULT,
    CfgOption,
    DeviceOption,
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
from voxcli.config import EngineConfig, SamplingParams
from voxcli.errors import OutputError, UsageError
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    from voxcli.plan import Plan
    from voxcli.synthesizer import SpeechStream, Synthesizer

EXAMPLES = (
    'voxcli speak "The ferry leaves at noon." -o ferry.wav',
    'voxcli speak "It costs $1,299.50 until 5:30 p.m." --dry-run',
    "voxcli speak --file samples/garden.txt -o garden.mp3 --seed 7",
    'echo "Piped text." | voxcli speak - -o - > piped.wav',
)  # fmt: skip

STDIN = STDOUT = "-"


@dataclass(frozen=True)
class Target:
    """Where the speech goes; `path` is None for stdout.

    Attributes:
        container: "wav" or "raw", of stdout alone.
    """

    path: Path | None
    bits: str | None
    rate: int | None
    is_overwriting: bool
    container: str


def speak(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to say, or '-' for stdin.")
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
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE|-",
            help="Output file; its suffix is the format: wav, flac, mp3, ogg, opus, m4a, aac, wma. "
            "'-' streams to stdout.",
            show_default="a free .wav name made from the text",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="wav|raw", help="What '-o -' streams; raw is s16le at 16 bits.")
    ] = "wav",
    bits: Annotated[
        str | None,
        typer.Option(metavar="N", help="Bits a sample: 8, 16, 24 or 32f.", show_default="16"),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="HZ", help="Output sample rate in Hz.", show_default="that of the model"
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
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Show on stderr what is said and every rewrite.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be said, and stop.")
    ] = False,
    model: ModelOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = PRECISION_DEFAULT,
    threads: ThreadsOption = None,
    eager: EagerOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    offline: OfflineOption = False,
) -> None:
    """Speak a text into a file or to stdout."""
    from voxcli.audio.stretch import check_speed
    from voxcli.hub import resolve_model
    from voxcli.plan import make_plan, voice_model

    settings = settings_with(
        model=model, device=device, threads=threads, voice=voice, offline=offline
    )
    sampling = SamplingParams(seed, steps, cfg, max_seconds, retries)
    utterance = Utterance(
        read_text(text, file, encoding),
        settings.voice,
        sampling,
        language,
        check_speed(speed),
        not raw_text,
    )
    target = _check_target(out, format, bits, rate, overwrite, is_json=json, is_dry=dry_run)
    files = resolve_model(settings.model, offline=settings.offline, cache_dir=settings.cache_dir)
    plan = make_plan(utterance, voice_model(files))
    config = EngineConfig(
        settings.model,
        settings.device,
        precision,
        settings.threads,
        eager=eager,
        solver=((plan.steps, plan.cfg != 1.0),),
    )
    for lost in plan.text.unspeakable:
        output.warn(f"the voice cannot say {lost}: left out {lost.count} time(s)")
    if dry_run:
        _show_plan(plan, is_json=json)
        return
    if show_text:
        output.note(describe_text(plan))
    if target is None:
        target = Target(_free_path(plan), bits, rate, False, format)
    from voxcli.synthesizer import Synthesizer  # imports torch: only now is it needed

    with Synthesizer.load_files(files, config) as synthesizer:
        if synthesizer.setup.warning and not quiet:
            output.warn(synthesizer.setup.warning)
        report = _run(synthesizer, plan, target, is_quiet=quiet)
    output.note(_summary(report), is_quiet=quiet)
    if json:
        output.result_json(report)
    elif target.path is not None:
        output.result(target.path)


def read_text(text: str | None, file: Path | None, encoding: str | None) -> str:
    """The text from the one place it was given.

    Raises:
        UsageError: from no place or from two, or the file cannot be read.
        TextError: undecodable.
    """
    from voxcli.text import decode_text

    if (text is None) == (file is None):
        what = "no text was given" if text is None else "TEXT and --file are both given"
        raise UsageError(what, hint="give one of: TEXT, '-' for stdin, --file FILE")
    if file is not None:
        try:
            return decode_text(file.read_bytes(), encoding=encoding, source=str(file))
        except OSError as err:
            raise UsageError(f"cannot read {file}: {err.strerror}", hint="check --file") from err
    assert text is not None
    if text == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise UsageError("stdin is closed", hint="give TEXT or --file")
        return decode_text(sys.stdin.buffer.read(), encoding=encoding, source="stdin")
    return text


def _check_target(
    out: str | None,
    container: str,
    bits: str | None,
    rate: int | None,
    is_overwriting: bool,
    *,
    is_json: bool,
    is_dry: bool,
) -> Target | None:
    """Refuse what cannot be written; None where a free name is to be made from the text."""
    from voxcli.audio.formats import resolve_format
    from voxcli.audio.stream_out import STREAM_FORMATS
    from voxcli.audio.write import check_output

    if container not in STREAM_FORMATS:
        raise UsageError(f"--format is '{container}'", hint="use wav or raw")
    if container == "raw" and out != STDOUT:
        raise UsageError("--format raw is for '-o -' alone", hint="name the file .wav, or use -o -")
    wav = resolve_format("wav", bits)
    if out is None or out == STDOUT:
        if rate is not None:
            wav.choose_rate(rate, rate)
        if out is None:
            if not is_dry:
                check_output("speech-probe.wav", overwrite=True)
            return None
        if is_json:
            raise UsageError(
                "'-o -' and --json both want stdout", hint="write to a file, or drop --json"
            )
        if sys.stdout is None:
            raise OutputError("stdout is closed", hint="write to a file with -o")
        if not is_dry and sys.stdout.isatty():
            raise UsageError("stdout is a terminal", hint="pipe it, or write to a file with -o")
        return Target(None, bits, rate, False, container)
    if not is_dry:
        check_output(out, overwrite=is_overwriting, bits=bits, rate=rate)
    return Target(Path(out), bits, rate, is_overwriting, container)


def _free_path(plan: Plan) -> Path:
    from voxcli.audio.names import free_name

    return free_name(plan.utterance.text, ".", ".wav")


def describe_text(plan: Plan) -> str:
    """Segments, one a line, then every rewrite."""
    lines = [f"{i}: {segment.text}" for i, segment in enumerate(plan.text.segments, start=1)]
    for change in plan.text.changes:
        lines.append(f"   {change.kind}: {change.before!r} -> {change.after!r}")
    return "\n".join(lines)


def plan_as_json(plan: Plan) -> dict[str, Any]:
    text = plan.text
    return {
        "text": text.text,
        "language": text.language,
        "segments": [asdict(segment) for segment in text.segments],
        "changes": [asdict(change) for change in text.changes],
        "unspeakable": [asdict(lost) for lost in text.unspeakable],
        "estimated_audio_s": round(plan.estimated_audio_s, 2),
        "seed": plan.seed,
        "steps": plan.steps,
        "cfg": plan.cfg,
    }


def _show_plan(plan: Plan, *, is_json: bool) -> None:
    if is_json:
        output.result_json(plan_as_json(plan))
    else:
        output.result(f"{describe_text(plan)}\nabout {plan.estimated_audio_s:.1f} s of speech")


def _run(synthesizer: Synthesizer, plan: Plan, target: Target, *, is_quiet: bool) -> dict[str, Any]:
    """Speak into the target and return the report."""
    from voxcli.audio.stream_out import StreamWriter, open_stdout
    from voxcli.audio.write import AudioWriter

    source_rate = synthesizer.sample_rate
    with (
        output.Progress("speak", plan.estimated_audio_s, unit="s", is_quiet=is_quiet) as progress,
        synthesizer.stream(plan, is_live=target.path is None) as stream,
    ):
        if target.path is None:
            with (
                open_stdout() as stdout,
                StreamWriter(
                    stdout, source_rate, rate=target.rate, bits=target.bits,
                    container=target.container,
                ) as pipe,
            ):  # fmt: skip
                _pump(stream, pipe, progress)
            rate, peak = pipe.sample_rate, None
        else:
            with AudioWriter(
                target.path, source_rate, rate=target.rate, bits=target.bits,
                overwrite=target.is_overwriting,
            ) as writer:  # fmt: skip
                _pump(stream, writer, progress)
                written = writer.commit()
            rate, peak = written.sample_rate, round(written.peak, 4)
    return _report(synthesizer, plan, stream, target, rate, peak)


def _pump(stream: SpeechStream, sink: Any, progress: output.Progress) -> None:
    for chunk in stream:
        sink.write(chunk.samples)
        progress.advance(len(chunk.samples) / chunk.sample_rate)


def _report(
    synthesizer: Synthesizer,
    plan: Plan,
    stream: SpeechStream,
    target: Target,
    rate: int,
    peak: float | None,
) -> dict[str, Any]:
    setup, speech = synthesizer.setup, stream.speech
    audio_s = speech.num_samples / synthesizer.sample_rate
    for segment in speech.reports:
        for warning in segment.warnings:
            output.warn(f"'{segment.text[:40]}': {warning}")
    return {
        "path": str(target.path) if target.path else None,
        "audio_s": audio_s,
        "sample_rate": rate,
        "model_sample_rate": synthesizer.sample_rate,
        "peak": peak,
        "wall_s": speech.wall_s,
        "ttfa_s": speech.ttfa_s,
        "rtf": speech.wall_s / audio_s,
        "speed_x": audio_s / speech.wall_s,
        "seed": plan.seed,
        "steps": plan.steps,
        "cfg": plan.cfg,
        "language": plan.text.language,
        "finish_reason": "stop",
        "attempts": max(segment.attempts for segment in speech.reports),
        "segments": [asdict(segment) for segment in speech.reports],
        "model": setup.model,
        "device": setup.device_type,
        "device_name": setup.device,
        "precision": setup.precision,
        "threads": setup.threads,
        "load_s": setup.load_s,
        "graph_captures": setup.num_captures,
        "capture_s": setup.capture_s,
    }


def _summary(report: dict[str, Any]) -> str:
    return (
        f"{report['audio_s']:.1f} s of audio in {report['wall_s']:.2f} s "
        f"(TTFA {report['ttfa_s']:.2f} s, {report['speed_x']:.1f}x real time, "
        f"seed {report['seed']})"
    )
