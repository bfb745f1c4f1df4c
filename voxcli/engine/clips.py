"""A recording as another program's model hears it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import resample
from voxcli.utterance import Recording, Use

MAX_CLIP_S = 30.0  # vLLM-Omni refuses a longer one


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
