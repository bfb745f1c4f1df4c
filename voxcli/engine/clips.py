"""A recording as another program's model hears it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import resample
from voxcli.errors import RecordingError, UsageError, told_apart
from voxcli.utterance import Recording, Use

MIN_CLIP_S = 1.0  # vLLM-Omni refuses a shorter one
MAX_CLIP_S = 30.0  # vLLM-Omni refuses a longer one


def check_heard(recording: Recording, name: str) -> None:
    """Refuse a recording that cannot be given to another program.

    Args:
        name: what messages call who hears it.

    Raises:
        UsageError: only an encoding is kept of it.
        RecordingError: it is too short.
    """
    if recording.samples is None:
        raise UsageError(
            f"{name} has to hear a recording, and only an encoding of it is kept",
            hint="add the voice from its recording",
        )
    if (length := _duration_s(recording)) < MIN_CLIP_S:
        found, least = told_apart(length, MIN_CLIP_S)
        raise RecordingError(
            f"the recording has {found} s, {name} needs {least} s",
            hint="give a longer one",
        )


def check_continued(recording: Recording, name: str, longest_s: float) -> None:
    """Refuse speech to continue that is longer than it may be.

    Raises:
        RecordingError: it is.
    """
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
