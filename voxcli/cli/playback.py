"""A run of `voxcli stream`: the sound device, the file beside it, the live line and the report."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.cli import output
from voxcli.cli.interrupt import on_interrupt
from voxcli.cli.speech_report import setup_facts
from voxcli.cli.subtitles import write_subtitles
from voxcli.errors import DeviceError, TextError, VoxError
from voxcli.utterance import FinishReason

if TYPE_CHECKING:
    from voxcli.audio.heard import HeardFile
    from voxcli.audio.player import Player
    from voxcli.audio.sound import SoundOutput
    from voxcli.audio.write import WrittenAudio
    from voxcli.engine.base import SpeechEngine
    from voxcli.streaming.outlet import Outlet
    from voxcli.streaming.source import Source
    from voxcli.streaming.streamer import Streamer, StreamReport


@dataclass(frozen=True)
class Target:
    """Where the speech goes: the loudspeaker or, with `is_pipe`, stdout; and into a file.

    Attributes:
        rate: asked for, of all of them; None for the device's own and the model's.
        container: "wav" or "raw", of stdout alone.
        buffer_s: prebuffer asked for, or None.
    """

    device: str | None
    save: Path | None
    is_pipe: bool
    container: str
    bits: str | None
    rate: int | None
    buffer_s: float | None
    is_overwriting: bool
    subtitles: Path | None = None


def open_sound(target: Target) -> tuple[SoundOutput | None, DeviceError | None]:
    """The open sound device, or why there is none where a file is wanted all the same.

    Raises:
        DeviceError: none can be opened, and there is no file.
    """
    if target.is_pipe:
        return None, None
    from voxcli.audio.sound import SoundOutput, find_device, in_time

    try:
        return in_time(lambda: SoundOutput(find_device(target.device), target.rate)), None
    except DeviceError as err:
        if target.save is None:
            raise
        output.warn(
            f"{err.message}; the speech goes to {target.save} alone, and the exit code is "
            f"{err.exit_code}"
        )
        return None, err


def play(
    engine: SpeechEngine,
    source: Source,
    target: Target,
    sound: SoundOutput | None,
    failure: DeviceError | None,
    *,
    max_seconds: float | None,
    is_quiet: bool,
) -> dict[str, Any]:
    """Speak a source to its end, and return the report.

    Args:
        max_seconds: of all lines together; None without a limit.
        sound: the open device, or None for a pipe or a file alone.
        failure: why there is no device.

    Raises:
        DeviceError: nothing could be played, or not to the end; the file is whole.
        KeyboardInterrupt: the file has what was heard.
        VoxError: the one text, the engine or the file failed.
    """
    from voxcli.audio.stream_out import ReaderClosedError
    from voxcli.streaming.streamer import Streamer

    with ExitStack() as stack:
        file = _open_file(engine, target, stack)
        player = None if sound is None else _start_player(sound, engine.facts.sample_rate)
        outlet = _open_outlet(engine, target, player, file, stack)
        line = output.LiveLine(is_quiet=is_quiet)
        stack.callback(line.clear)

        def fail(number: int, err: VoxError) -> None:
            line.clear()
            output.error(f"line {number}: {err.message}", err.hint)

        streamer = Streamer(
            engine, source, outlet, max_seconds=max_seconds,
            on_progress=lambda: line.show(_live_text(streamer, player)), on_failure=fail,
        )  # fmt: skip
        try:
            with on_interrupt(player.stop if player is not None else lambda: None):
                run = streamer.run()
        except (KeyboardInterrupt, ReaderClosedError):
            _commit(file)
            raise
        if not run.num_texts and not run.failed:
            raise TextError("the text is empty", hint="give TEXT, --file, or lines on stdin")
        written = _commit(file)
    for segment in run.segments:
        for warning in segment.warnings:
            output.warn(f"'{segment.text[:40]}': {warning}")
    if run.finish_reason is FinishReason.LENGTH and source.is_by_line:
        output.warn(f"--max-seconds {max_seconds:g} is reached: further lines are not spoken")
    report = _report(engine, run, written) | _heard_report(run, outlet, sound)
    if target.subtitles is not None and run.plan is not None:
        language = run.plan.text.language
        write_subtitles(target.subtitles, run.segments, language, overwrite=target.is_overwriting)
        report["subtitles"] = str(target.subtitles)
    output.note(_summary(report), is_quiet=is_quiet)
    failure = failure or outlet.error
    if failure is not None:
        what = f"{failure.message}: not played to the end"
        if written:
            raise DeviceError(f"{what}; all of it is in {written.path}") from failure
        raise DeviceError(what, hint=failure.hint) from failure
    return report


def _start_player(sound: SoundOutput, source_rate: int) -> Player:
    from voxcli.audio.player import Player  # imports numpy, which a pipe may not need

    player = Player(sound, source_rate)
    player.start()
    return player


def _open_file(engine: SpeechEngine, target: Target, stack: ExitStack) -> HeardFile | None:
    if target.save is None:
        return None
    from voxcli.audio.heard import HeardFile
    from voxcli.audio.write import AudioWriter

    writer = AudioWriter(
        target.save, engine.facts.sample_rate, rate=target.rate, bits=target.bits,
        overwrite=target.is_overwriting,
    )  # fmt: skip
    return HeardFile(stack.enter_context(writer))


def _commit(file: HeardFile | None) -> WrittenAudio | None:
    return None if file is None else file.commit()


def _open_outlet(
    engine: SpeechEngine,
    target: Target,
    player: Player | None,
    file: HeardFile | None,
    stack: ExitStack,
) -> Outlet:
    from voxcli.audio.prebuffer import Prebuffer
    from voxcli.audio.stream_out import StreamWriter, open_stdout
    from voxcli.streaming.outlet import Loudspeaker, Outlet, Pipe

    if player is not None:
        return Loudspeaker(player, Prebuffer(target.buffer_s), file)
    if not target.is_pipe:
        return Outlet(file)
    pipe = StreamWriter(
        stack.enter_context(open_stdout()), engine.facts.sample_rate, rate=target.rate,
        bits=target.bits, container=target.container,
    )  # fmt: skip
    return Pipe(pipe, file)


def _live_text(streamer: Streamer, player: Player | None) -> str:
    report = streamer.report
    elapsed_s = 0.0 if report.begun_at is None else streamer.clock() - report.begun_at
    text = f"{elapsed_s:.1f} s elapsed"
    if player is not None:
        text += f", {player.heard_s:.1f} s heard, {player.buffered_s:.1f} s buffered"
    if report.wall_s:
        text += f", {report.audio_s / report.wall_s:.1f}x real time"
    if player is not None and player.stats.num_underruns:
        text += f", {player.stats.num_underruns} underruns"
    return text


def _report(
    engine: SpeechEngine, run: StreamReport, written: WrittenAudio | None
) -> dict[str, Any]:
    plan = run.plan
    return {
        "path": str(written.path) if written else None,
        "audio_s": run.audio_s,
        "sample_rate": written.sample_rate if written else None,
        "peak": round(written.peak, 4) if written else None,
        "model_sample_rate": engine.facts.sample_rate,
        "wall_s": run.wall_s,
        "ttfa_s": run.ttfa_s,
        "rtf": run.wall_s / run.audio_s if run.audio_s else None,
        "speed_x": run.audio_s / run.wall_s if run.audio_s else None,
        "seed": plan.seed if plan else None,
        "parameters": dict(plan.parameters) if plan else None,
        "language": plan.text.language if plan else None,
        "finish_reason": run.finish_reason,
        "attempts": max((segment.attempts for segment in run.segments), default=0),
        "texts": run.num_texts,
        "failed": [
            {"line": line, "type": type(err).__name__, "message": err.message}
            for line, err in run.failed
        ],
        "segments": [asdict(segment) for segment in run.segments],
        **setup_facts(engine.setup),
    }


def _heard_report(run: StreamReport, outlet: Outlet, sound: SoundOutput | None) -> dict[str, Any]:
    """What only a loudspeaker knows; null for a pipe or a file alone."""
    heard = outlet.heard()
    begun_at, first_at = run.begun_at, heard.first_sound_at
    is_known = begun_at is not None and first_at is not None
    return {
        "first_sound_s": first_at - begun_at if is_known else None,  # type: ignore[operator]
        "played_s": heard.played_s,
        "underruns": heard.num_underruns,
        "underrun_s": heard.underrun_s,
        "prebuffer_s": heard.prebuffer_s,
        "prebuffer_reason": heard.reason,
        "sound_device": sound.device.name if sound else None,
        "sound_rate": sound.sample_rate if sound else None,
    }


def _summary(report: dict[str, Any]) -> str:
    text = f"{report['audio_s']:.1f} s of audio in {report['wall_s']:.2f} s"
    if report["ttfa_s"] is not None:
        text += f" (TTFA {report['ttfa_s']:.2f} s"
        if report["first_sound_s"] is not None:
            text += f", first sound {report['first_sound_s']:.2f} s"
        text += f", {report['speed_x']:.1f}x real time, seed {report['seed']})"
    if report["prebuffer_reason"]:
        text += f"\n{report['prebuffer_reason']}"
    if report["underruns"]:
        text += f"\n{report['underruns']} underruns: {report['underrun_s']:.2f} s without sound"
    return text
