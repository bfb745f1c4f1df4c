"""The options of a reference recording, and the recording they name: read, checked, prepared.

Shared by the commands that take a recording. No model is loaded here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from voxcli.cli import output
from voxcli.config import UserSettings
from voxcli.errors import UsageError, hint_for_file, reason_of
from voxcli.utterance import Recording

if TYPE_CHECKING:
    from voxcli.audio.measure import ReferenceReport
    from voxcli.audio.reference import Preparation

AUTO = "auto"
RECORDING = "Recording"  # the panel of these options


@dataclass(frozen=True)
class Reference:
    """A recording that passed its checks.

    Attributes:
        report: what it is and what was done to it.
    """

    recording: Recording
    report: ReferenceReport

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.report), "transcript": self.recording.text}


@dataclass(frozen=True)
class ReferenceOptions:
    """A recording of the voice, as typed."""

    panel: ClassVar[str] = RECORDING

    ref: Annotated[
        Path | None,
        typer.Option(
            "--ref",
            metavar="FILE",
            help="Recording of the voice to imitate: 3 to 30 s of speech.",
        ),
    ] = None
    ref_text: Annotated[
        str | None,
        typer.Option(
            "--ref-text",
            metavar="TEXT|auto",
            help="Transcript of the recording, for a closer result. 'auto' makes it with faster-"
            "whisper.",
        ),
    ] = None
    ref_text_file: Annotated[
        Path | None,
        typer.Option("--ref-text-file", metavar="FILE", help="File with the transcript."),
    ] = None
    ref_start: Annotated[
        float | None,
        typer.Option("--ref-start", metavar="S", help="Use the recording from this second on."),
    ] = None
    ref_end: Annotated[
        float | None,
        typer.Option("--ref-end", metavar="S", help="Use the recording up to this second."),
    ] = None
    ref_auto: Annotated[
        bool,
        typer.Option("--ref-auto", help="Use the best 10 s or so of a long recording."),
    ] = False
    ref_trim: Annotated[
        bool, typer.Option("--ref-trim", help="Cut silence at both ends of the recording.")
    ] = False
    ref_normalise: Annotated[
        bool, typer.Option("--ref-normalise", help="Bring the recording to -23 LUFS.")
    ] = False
    asr_model: Annotated[
        str,
        typer.Option(
            "--asr-model",
            metavar="NAME",
            help="Whisper model for '--ref-text auto': a size or a folder.",
            show_default=True,
        ),
    ] = "base"

    def check(self) -> Preparation:
        """What to do to the recording; refuses options that contradict each other.

        Raises:
            UsageError: naming the options.
        """
        from voxcli.audio.reference import Preparation

        typed = {
            "--ref-text": self.ref_text is not None,
            "--ref-text-file": self.ref_text_file is not None,
            "--ref-start": self.ref_start is not None,
            "--ref-end": self.ref_end is not None,
            "--ref-auto": self.ref_auto,
            "--ref-trim": self.ref_trim,
            "--ref-normalise": self.ref_normalise,
        }
        lonely = [name for name, is_typed in typed.items() if is_typed]
        if self.ref is None and lonely:
            raise UsageError(
                f"{lonely[0]} is about a recording, but --ref is not given", hint="add --ref FILE"
            )
        if self.ref_text is not None and self.ref_text_file is not None:
            raise UsageError(
                "--ref-text and --ref-text-file are both given", hint="give the transcript once"
            )
        return Preparation(
            self.ref_start, self.ref_end, self.ref_auto, self.ref_trim, self.ref_normalise
        )

    def load(self, settings: UserSettings, language: str | None = None) -> Reference | None:
        """The recording, where one is given; its doubts go to stderr.

        Raises:
            UsageError, RecordingError, TextError: it cannot be used as asked.
        """
        preparation = self.check()
        if self.ref is None:
            return None
        text = self.ref_text
        if self.ref_text_file is not None:
            text = _read_transcript(self.ref_text_file)
        return load_reference(self.ref, text, preparation, settings, self.asr_model, language)


def load_reference(
    path: Path,
    text: str | None,
    preparation: Preparation | None,
    settings: UserSettings,
    asr_model: str,
    language: str | None,
) -> Reference:
    """Read, check and prepare a recording.

    Args:
        text: its transcript; None where there is none, "auto" to listen.

    Raises:
        UsageError, RecordingError: it cannot be used as asked.
    """
    from voxcli.audio.read import read_audio
    from voxcli.audio.reference import add_transcript, prepare_reference
    from voxcli.audio.transcribe import check_transcriber, transcribe

    if text is not None and not text.strip():
        raise UsageError(
            f"the transcript of {path} is empty", hint="give its words, or leave it out"
        )
    if text == AUTO:
        check_transcriber()
    recording, report = prepare_reference(
        read_audio(path), preparation, has_text=text not in (None, AUTO)
    )
    if text == AUTO:
        assert recording.samples is not None
        text = transcribe(
            recording.samples,
            recording.sample_rate,
            model=asr_model,
            language=language,
            cache_dir=settings.cache_dir,
        )
        output.note(f"heard in {path}: {text}")
    if text is not None:
        recording, report = add_transcript(recording, report, text)
    for action in report.actions:
        output.note(f"{path}: {action}")
    for warning in report.warnings:
        output.warn(f"{path}: {warning}")
    return Reference(recording, report)


def _read_transcript(path: Path) -> str:
    from voxcli.text import decode_text

    try:
        return decode_text(path.read_bytes(), source=str(path))
    except OSError as err:
        raise UsageError(
            f"cannot read {path}: {reason_of(err)}",
            hint=hint_for_file(path, "check --ref-text-file"),
        ) from err
