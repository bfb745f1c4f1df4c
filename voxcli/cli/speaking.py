"""One utterance to a file or to stdout: what every command does that speaks one text.

A command builds the utterance; this module checks the target, plans, speaks and writes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from voxcli.cli import output
from voxcli.cli.engine_options import EngineOptions, WarmOptions, say_who, start
from voxcli.cli.options import (
    OUTPUT,
    BitsOption,
    JsonOption,
    OverwriteOption,
    QuietOption,
    StreamFormatOption,
)
from voxcli.cli.speech_report import (
    describe_text,
    report_of,
    show_plan,
    summary,
    warn_undescribed,
    warn_unseen,
    warn_unspeakable,
)
from voxcli.cli.subtitles import SubtitlesOption, check_subtitles, write_subtitles
from voxcli.config import UserSettings
from voxcli.errors import EXIT_ITEM_FAILED, OutputError, UsageError
from voxcli.utterance import FinishReason, Utterance

if TYPE_CHECKING:
    from voxcli.alignment import WordTimer
    from voxcli.audio.write import WrittenAudio
    from voxcli.engine.base import Speech, SpeechEngine
    from voxcli.plan import Plan

STDOUT = "-"


@dataclass(frozen=True)
class Target:
    """Where the speech goes; `path` is None for stdout.

    Attributes:
        container: "wav" or "raw", of stdout alone.
        next_path: makes another path where the program chose this one and it is taken meanwhile.
    """

    path: Path | None
    bits: str | None
    rate: int | None
    is_overwriting: bool
    container: str
    next_path: Callable[[], Path] | None = None


@dataclass(frozen=True)
class TargetOptions:
    """Where the speech goes, as typed."""

    panel: ClassVar[str] = OUTPUT

    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE|-",
            help="Output file. The suffix sets the format: wav, flac, mp3, ogg, opus, m4a, m4b, "
            "aac or wma. '-' writes to stdout.",
            show_default="a free .wav name made from the text",
        ),
    ] = None
    format: StreamFormatOption = "wav"
    bits: BitsOption = None
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate",
            metavar="HZ",
            help="Output sample rate in Hz.",
            show_default="the model's",
        ),
    ] = None
    subtitles: SubtitlesOption = None
    overwrite: OverwriteOption = False

    def check(self, *, is_json: bool, is_dry: bool) -> Target | None:
        """Refuse what cannot be written; None where a free name is to be made from the text.

        Args:
            is_dry: the plan goes to stdout, so this may be a terminal.
        """
        if self.subtitles is not None:
            check_subtitles(self.subtitles, overwrite=self.overwrite)
        return self._check_audio(is_json=is_json, is_dry=is_dry)

    def _check_audio(self, *, is_json: bool, is_dry: bool) -> Target | None:
        from voxcli.audio.formats import STREAM_FORMATS, resolve_format

        if self.format not in STREAM_FORMATS:
            hint = (
                "use wav or raw, which are for '-o -'; a file's format is its suffix: -o NAME.mp3"
            )
            raise UsageError(f"--format is '{self.format}'", hint=hint)
        if self.format == "raw" and self.out != STDOUT:
            raise UsageError(
                "--format raw is only for '-o -'", hint="name the file .wav, or use -o -"
            )
        wav = resolve_format("wav", self.bits)
        if self.rate is not None and self.out in (None, STDOUT):
            wav.choose_rate(self.rate, self.rate)
        if self.out == STDOUT:
            check_stdout(is_json=is_json, is_dry=is_dry)
            return Target(None, self.bits, self.rate, False, self.format)
        from voxcli.audio.write import check_output  # imports numpy, which a pipe can do without

        if self.out is None:
            check_output("speech-probe.wav", overwrite=True)
            return None
        check_output(self.out, overwrite=self.overwrite, bits=self.bits, rate=self.rate)
        return Target(Path(self.out), self.bits, self.rate, self.overwrite, self.format)

    def named_after(self, text: str) -> Target:
        """A file with a free name made from the text."""
        from voxcli.audio.names import free_name

        free = partial(free_name, text, ".", ".wav")
        return Target(free(), self.bits, self.rate, False, self.format, free)


def check_stdout(*, is_json: bool, is_dry: bool = False) -> None:
    """Refuse `-o -` where stdout cannot carry audio."""
    if is_json:
        raise UsageError(
            "'-o -' and --json both use stdout", hint="write to a file, or drop --json"
        )
    if sys.stdout is None:
        raise OutputError("stdout is closed", hint="write to a file")
    if not is_dry and sys.stdout.isatty():
        raise UsageError("stdout is a terminal", hint="pipe it, or write to a file")


@dataclass(frozen=True)
class ShowOptions:
    """What is shown besides the speech, or instead of it."""

    panel: ClassVar[str] = OUTPUT

    show_text: Annotated[
        bool,
        typer.Option(
            "--show-text", help="Show on stderr the text that is spoken, and every change of it."
        ),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, show what would be spoken, and stop."),
    ] = False
    json: JsonOption = False
    quiet: QuietOption = False


def run(
    utterance: Utterance,
    targets: TargetOptions,
    options: EngineOptions,
    settings: UserSettings,
    show: ShowOptions,
    warm: WarmOptions,
    add_facts: Callable[[dict[str, Any]], None] = lambda report: None,
) -> None:
    """Plan, speak and report; with `--dry-run` plan and show, which asks nobody else.

    Args:
        add_facts: called with the report of the run, or of the plan, before it is shown.

    Raises:
        UsageError, TextError, ModelError, OutputError: before a model loads.
        SynthesisError, EngineError, OutputError: while speaking.
    """
    from voxcli.engine.choose import planning_spec

    target = targets.check(is_json=show.json, is_dry=show.dry_run)
    warm.check(settings)
    if show.dry_run:
        settings = replace(settings, engine=planning_spec(settings.engine))
    told = utterance.sampling.parameters
    config = options.config(settings, (told,) if told else ())
    config = replace(config, light=settings.light)
    with options.open(settings, config, is_quiet=show.quiet) as engine:
        if not show.dry_run:
            engine.prepare()
        plan = _plan(engine, utterance, is_quiet=show.quiet)
        if show.dry_run:
            engine.check_machine()
            show_plan(plan, add_facts, is_json=show.json)
            return
        if show.show_text:
            output.note(describe_text(plan))
        if target is None:
            target = targets.named_after(plan.utterance.text)
        start(engine, [plan.parameters], is_quiet=show.quiet)
        timer = _timer(engine, plan) if targets.subtitles is not None else None
        speech, report, path = _speak(engine, plan, target, timer, is_quiet=show.quiet)
        warm.leave_server(engine, settings, config)
    if targets.subtitles is not None and timer is not None:
        segments = timer.finish(speech.reports)
        write_subtitles(
            targets.subtitles, segments, plan.text.language, overwrite=targets.overwrite
        )
        report["subtitles"] = str(targets.subtitles)
    add_facts(report)
    output.note(summary(report), is_quiet=show.quiet)
    if show.json:
        output.result_json(report)
    elif path is not None:
        output.result(path)
    if report["finish_reason"] == FinishReason.LENGTH:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _plan(engine: SpeechEngine, utterance: Utterance, *, is_quiet: bool) -> Plan:
    plan = engine.plan(engine.in_voice(utterance))
    say_who(engine, is_quiet=is_quiet)
    warn_unseen([utterance.voice], engine.facts)
    warn_undescribed(utterance.style, engine.facts)
    warn_unspeakable(plan)
    return plan


def _timer(engine: SpeechEngine, plan: Plan) -> WordTimer:
    from voxcli.alignment import WordTimer  # imports numpy, as above

    return WordTimer(engine.facts.sample_rate, plan.text.language)


def _speak(
    engine: SpeechEngine, plan: Plan, target: Target, timer: WordTimer | None, *, is_quiet: bool
) -> tuple[Speech, dict[str, Any], Path | None]:
    """Speak into the target and return the report, and the file's path if it is one.

    Args:
        timer: gets all samples.
    """
    with output.Progress("speak", plan.estimated_audio_s, unit="s", is_quiet=is_quiet) as progress:
        if target.path is None:
            speech, rate = _to_stdout(engine, plan, target, timer, progress)
            path = peak = None
        else:
            speech, written = _to_file(engine, plan, target, timer, progress)
            path, rate, peak = written.path, written.sample_rate, round(written.peak, 4)
    return speech, report_of(engine, plan, speech, path, rate, peak), path


def _to_file(
    engine: SpeechEngine,
    plan: Plan,
    target: Target,
    timer: WordTimer | None,
    progress: output.Progress,
) -> tuple[Speech, WrittenAudio]:
    assert target.path is not None
    with engine.stream(plan, is_live=False) as stream:
        # NOTE: imported here, while a running server makes the first samples
        from voxcli.audio.write import AudioWriter

        with AudioWriter(
            target.path, engine.facts.sample_rate, rate=target.rate, bits=target.bits,
            overwrite=target.is_overwriting, next_path=target.next_path,
        ) as writer:  # fmt: skip
            for chunk in stream:
                writer.write(chunk.samples)
                if timer is not None:
                    timer.push(chunk.samples)
                    timer.catch_up(stream.speech.reports)
                progress.advance(len(chunk.samples) / chunk.sample_rate)
            return stream.speech, writer.commit()


def _to_stdout(
    engine: SpeechEngine,
    plan: Plan,
    target: Target,
    timer: WordTimer | None,
    progress: output.Progress,
) -> tuple[Speech, int]:
    """Returns the speech and the sample rate of what was sent."""
    model_rate = engine.facts.sample_rate
    engine.begin(plan, takes_integers=takes_integers(target.bits, target.rate, model_rate))
    with engine.stream(plan, is_live=True) as stream:
        from voxcli.audio.stream_out import StreamWriter, open_stdout

        with (
            open_stdout() as stdout,
            StreamWriter(
                stdout, model_rate, rate=target.rate, bits=target.bits,
                container=target.container,
            ) as pipe,
        ):  # fmt: skip
            for chunk in stream:
                pipe.write(chunk.samples)
                if timer is not None:  # it aligns when all has left: somebody may be listening
                    timer.push(chunk.samples)
                progress.update(stream.speech.num_samples / model_rate)
        return stream.speech, pipe.sample_rate


def takes_integers(bits: str | None, rate: int | None, model_rate: int) -> bool:
    """Whether a pipe takes integers as a server sends them, so that numpy is not needed."""
    return bits in (None, "16") and rate in (None, model_rate)
