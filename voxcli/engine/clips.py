"""Plans and recordings for another program's model, which hears recordings and no encodings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import resample
from voxcli.engine.planning import PlannedModel, make_plan, one_recording
from voxcli.errors import RecordingError, UsageError, told_apart
from voxcli.models.served import ServedModel
from voxcli.plan import Plan
from voxcli.utterance import Recording, Use, Utterance

MIN_CLIP_S = 1.0  # vLLM-Omni refuses a shorter one
MAX_CLIP_S = 30.0  # vLLM-Omni refuses a longer one


def plan_heard(
    utterance: Utterance, model: PlannedModel, served: ServedModel | None, name: str
) -> Plan:
    """`make_plan` for who hears recordings.

    Args:
        served: what is known of such a model where another program has it.
        name: what messages call the program.

    Raises:
        UsageError: what it cannot do; a recording of which only an encoding is kept.
        RecordingError: one that is too short, or too long to be continued.
    """
    if utterance.continuity:
        raise UsageError(
            f"{name} cannot let a segment continue the one before", hint="drop --continuity"
        )
    if served is not None:
        utterance = served.check(utterance)
        utterance = one_recording(utterance, model.facts.modes, served.max_told_s)
    for recording in filter(None, (utterance.reference, utterance.prompt)):
        _check_heard(recording, name)
    plan = make_plan(utterance, model)
    if served is not None and plan.utterance.prompt is not None:
        _check_continued(plan.utterance.prompt, name, served.max_told_s)
    return plan


def _check_heard(recording: Recording, name: str) -> None:
    if recording.samples is None:
        raise UsageError(
            f"{name} needs the recording of this voice, but only an encoding is saved",
            hint="add the voice from its recording",
        )
    if (length := _duration_s(recording)) < MIN_CLIP_S:
        found, least = told_apart(length, MIN_CLIP_S)
        raise RecordingError(
            f"the recording has {found} s, {name} needs {least} s",
            hint="give a longer one",
        )


def _check_continued(recording: Recording, name: str, longest_s: float) -> None:
    if (length := _duration_s(recording)) > longest_s:
        found, most = told_apart(length, longest_s)
        raise RecordingError(
            f"speech to continue has {found} s, {name} takes up to {most} s",
            hint="give a shorter part of it",
        )


def _duration_s(recording: Recording) -> float:
    return 0.0 if recording.samples is None else len(recording.samples) / recording.sample_rate


def whole_clip(
    recording: Recording, use: Use, rate: int, whole_samples: int
) -> NDArray[np.float32]:
    """A recording at a model's rate, in whole frames.

    Args:
        rate: Hz that the model hears.
        whole_samples: the length is a multiple of so many, at that rate.

    Returns:
        float32 `[S]`, mono; silence is added where the speech does not join on.
    """
    assert recording.samples is not None
    samples = resample(recording.samples, recording.sample_rate, rate)
    longest = int(MAX_CLIP_S * rate)
    samples = samples[: longest - longest % whole_samples]
    missing = -len(samples) % whole_samples
    return np.pad(samples, (missing, 0) if use is Use.PROMPT else (0, missing))
