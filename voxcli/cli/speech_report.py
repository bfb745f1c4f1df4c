"""What is told of a speech: of one that is planned, and of one that was spoken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.cli import output

if TYPE_CHECKING:
    from voxcli.engine.base import EngineFacts, Setup, Speech, SpeechEngine
    from voxcli.plan import Plan


def describe_text(plan: Plan) -> str:
    """Segments, one a line, the silence between them that the text asks for, and every rewrite."""
    lines = _silence(plan.text.silence_s)
    for i, segment in enumerate(plan.text.segments, start=1):
        lines += (f"{i}: {segment.text}", *_silence(segment.silence_s))
    for change in plan.text.changes:
        lines.append(f"   {change.kind}: {change.before!r} -> {change.after!r}")
    return "\n".join(lines)


def _silence(seconds: float) -> list[str]:
    return [f"   {seconds:g} s of silence"] if seconds else []


def _plan_as_json(plan: Plan) -> dict[str, Any]:
    text = plan.text
    return {
        "text": text.text,
        "language": text.language,
        "silence_s": text.silence_s,
        "segments": [asdict(segment) for segment in text.segments],
        "changes": [asdict(change) for change in text.changes],
        "unspeakable": [asdict(lost) for lost in text.unspeakable],
        "estimated_audio_s": round(plan.estimated_audio_s, 2),
        "seed": plan.seed,
        "parameters": dict(plan.parameters),
        "mode": plan.utterance.mode,
        "voice": plan.utterance.voice,
        "style": plan.utterance.style,
    }


def show_plan(plan: Plan, add_facts: Callable[[dict[str, Any]], None], *, is_json: bool) -> None:
    if is_json:
        report = _plan_as_json(plan)
        add_facts(report)
        output.result_json(report)
    else:
        output.result(f"{describe_text(plan)}\nabout {plan.estimated_audio_s:.1f} s of speech")


def warn_unspeakable(plan: Plan) -> None:
    """What is left out of a text: what the model has no sound for, and directions to an engine."""
    for lost in plan.text.unspeakable:
        output.warn(f"the voice cannot say {lost}: left out {lost.count} time(s)")
    for direction in plan.text.directions:
        warn_direction(direction, is_raw=not plan.utterance.is_normalised)


def warn_direction(direction: str, *, is_raw: bool = False) -> None:
    """A direction to an engine that is left out, and why; arguments as of `reason`."""
    from voxcli.text.directions import reason  # compiles patterns that few texts need

    output.warn(f"'{direction}' is not followed and left out: {reason(direction, is_raw=is_raw)}")


def warn_unseen(voices: Iterable[str | None], facts: EngineFacts) -> None:
    """Voices of voxcli's that may stand in for the user's own, which cannot be read."""
    presets = {name.casefold() for name in facts.voices}
    names = [name for name in dict.fromkeys(voices) if name and name.casefold() not in presets]
    if names:
        from voxcli.voices import VoiceStore

        if doubt := VoiceStore().doubt(names):
            output.warn(doubt)


def warn_undescribed(style: str, facts: EngineFacts) -> None:
    """A model whose voice is made of words, and no words."""
    if facts.designs_voices and not style.strip():
        output.warn(
            f"'{facts.model}' makes its voice from --style, which is not given: each seed has "
            "another voice"
        )


def report_of(
    engine: SpeechEngine,
    plan: Plan,
    speech: Speech,
    path: Path | None,
    rate: int,
    peak: float | None,
) -> dict[str, Any]:
    """The report of a run; what is doubtful about a segment goes to stderr.

    Args:
        rate: of what was written, in Hz.
        peak: of what was written; None where nobody looked.
    """
    audio_s = speech.num_samples / engine.facts.sample_rate
    for segment in speech.reports:
        for warning in segment.warnings:
            output.warn(f"'{segment.text[:40]}': {warning}")
    return {
        "path": str(path) if path else None,
        "audio_s": audio_s,
        "sample_rate": rate,
        "model_sample_rate": engine.facts.sample_rate,
        "reference_sample_rate": engine.facts.reference_sample_rate,
        "peak": peak,
        "wall_s": speech.wall_s,
        "ttfa_s": speech.ttfa_s,
        "rtf": speech.wall_s / audio_s,
        "speed_x": audio_s / speech.wall_s,
        "seed": plan.seed,
        "parameters": dict(plan.parameters),
        "mode": plan.utterance.mode,
        "voice": plan.utterance.voice,
        "language": plan.text.language,
        "finish_reason": speech.finish_reason,
        "attempts": max(segment.attempts for segment in speech.reports),
        "segments": [asdict(segment) for segment in speech.reports],
        **setup_facts(engine.setup),
        **engine.voice_counts(),
    }


def setup_facts(setup: Setup) -> dict[str, Any]:
    """What the engine ran on, as `--json` names it."""
    return {
        "model": setup.model,
        "device": setup.device_type,
        "device_name": setup.device,
        "precision": setup.precision,
        "threads": setup.threads,
        "import_s": setup.import_s,
        "load_s": setup.load_s,
        "graph_captures": setup.num_captures,
        "capture_s": setup.capture_s,
    }


def summary(report: dict[str, Any]) -> str:
    return (
        f"{report['audio_s']:.1f} s of audio in {report['wall_s']:.2f} s "
        f"(TTFA {report['ttfa_s']:.2f} s, {report['speed_x']:.1f}x real time, "
        f"seed {report['seed']})"
    )
