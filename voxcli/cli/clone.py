"""`voxcli clone`: a text in the voice of a recording."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from voxcli.cli import output, speaking
from voxcli.cli.engine_options import SizedEngineOptions, WarmOptions
from voxcli.cli.options import SpeechOptions, TextSource, grouped
from voxcli.cli.parameter_options import ParameterOptions
from voxcli.cli.references import RECORDING, Reference, ReferenceOptions, load_reference
from voxcli.cli.speaking import ShowOptions, TargetOptions
from voxcli.config import UserSettings
from voxcli.errors import UsageError, told_apart

if TYPE_CHECKING:
    from voxcli.utterance import Recording

EXAMPLES = (
    'voxcli speak "I read every morning before work, and in the evening I walk." --voice mia '
    "-o me.wav && "
    'voxcli clone "See you at the harbour." --ref me.wav -o harbour.wav',
    'voxcli speak "I read every morning before work, and in the evening I walk." --voice hugo '
    '-o he.wav && voxcli clone "See you there." --ref he.wav --ref-text "I read every morning '
    'before work, and in the evening I walk." -o there.flac',
)


@dataclass(frozen=True)
class CloneOptions:
    """What the speech continues."""

    panel: ClassVar[str] = RECORDING

    prompt_audio: Annotated[
        Path | None,
        typer.Option("--prompt-audio", metavar="FILE", help="Recording that the speech continues."),
    ] = None
    prompt_text: Annotated[
        str | None,
        typer.Option("--prompt-text", metavar="TEXT|auto", help="Transcript of --prompt-audio."),
    ] = None
    continuity: Annotated[
        bool,
        typer.Option(
            "--continuity", help="Let each segment of a long text continue the segment before."
        ),
    ] = False
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Compare the voice of the result with that of the recording."
        ),
    ] = False


@dataclass(frozen=True)
class MannerOptions(SpeechOptions):
    """How a text is spoken in the voice of a recording."""

    left_out: ClassVar[tuple[str, ...]] = ("voice",)


@grouped
def clone(
    source: TextSource,
    reference: ReferenceOptions,
    clone: CloneOptions,
    targets: TargetOptions,
    speech: MannerOptions,
    parameters: ParameterOptions,
    engine: SizedEngineOptions,
    show: ShowOptions,
    warm: WarmOptions,
) -> None:
    """Speak a text in the voice of a recording."""
    _check(reference, clone, targets)
    settings = engine.settings()
    utterance = replace(
        speech.utterance(source.read(), settings, parameters.given()),
        voice=None,
        continuity=clone.continuity,
    )
    heard, prompt = _recordings(reference, clone, settings, speech.language)
    utterance = replace(
        utterance,
        reference=heard.recording if heard else None,
        prompt=prompt.recording if prompt else None,
    )
    judged = heard or prompt
    assert judged is not None, "_check lets no command without a recording pass"

    def add_facts(report: dict[str, Any]) -> None:
        rate = report.pop("reference_sample_rate", None)
        for name, recording in (("reference", heard), ("prompt", prompt)):
            report[name] = recording.as_json() if recording else None
            if recording and rate:
                report[name] |= {"used_rate": rate, "used_channels": 1}
        if clone.verify and report.get("path"):
            report["similarity"] = _similarity(report["path"], judged.recording)

    speaking.run(utterance, targets, engine, settings, show, warm, add_facts)


def _check(reference: ReferenceOptions, clone: CloneOptions, targets: TargetOptions) -> None:
    """Refuse what contradicts itself, before anything is read."""
    reference.check()
    if clone.prompt_text is not None and clone.prompt_audio is None:
        raise UsageError(
            "--prompt-text is the transcript of a recording, but --prompt-audio is not given",
            hint="add --prompt-audio FILE",
        )
    if clone.prompt_audio is not None and clone.prompt_text is None:
        raise UsageError(
            "--prompt-audio needs its transcript",
            hint="add --prompt-text, or use --ref, which needs none",
        )
    if reference.ref is None and clone.prompt_audio is None:
        raise UsageError(
            "no recording was given", hint="add --ref FILE, or use 'voxcli speak' for other voices"
        )
    has_ref_text = reference.ref_text is not None or reference.ref_text_file is not None
    if has_ref_text and clone.prompt_audio is not None:
        raise UsageError(
            "the transcript of --ref makes it the speech to continue, and so does --prompt-audio",
            hint="drop one of them",
        )
    heard = {os.path.realpath(path) for path in (reference.ref, clone.prompt_audio) if path}
    if targets.out is not None and os.path.realpath(targets.out) in heard:
        hint = "choose another name for one of them"
        raise UsageError(f"-o would write {targets.out}, which is the recording", hint=hint)
    if clone.verify and targets.out == speaking.STDOUT:
        raise UsageError("--verify needs a file to listen to", hint="write to a file with -o")


def _recordings(
    reference: ReferenceOptions, clone: CloneOptions, settings: UserSettings, language: str | None
) -> tuple[Reference | None, Reference | None]:
    """The voice to imitate and the speech to continue; one recording with a transcript is both."""
    heard = reference.load(settings, language)
    if clone.prompt_audio is not None:
        model = reference.asr_model
        prompt = load_reference(
            clone.prompt_audio, clone.prompt_text, None, settings, model, language
        )
        return heard, prompt
    return heard, heard if heard and heard.recording.text else None


def _similarity(path: str, recording: Recording) -> float:
    """How near the voice of the written file is to the recording's: 1 is the same."""
    from voxcli.audio.read import read_audio
    from voxcli.voices.likeness import LOW_SIMILARITY, similarity

    spoken = read_audio(path)
    assert recording.samples is not None, "a recording from a file has samples"
    score = similarity(spoken.samples, spoken.sample_rate, recording.samples, recording.sample_rate)
    output.note(f"likeness of the voices: {score:.2f}")
    if score < LOW_SIMILARITY:
        found, wanted = told_apart(score, LOW_SIMILARITY, 2)
        output.warn(f"the voice differs from the recording: likeness {found}, below {wanted}")
    return score
