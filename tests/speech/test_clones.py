"""A clone of the bundled voice is nearer to its own reference than to the others, and understood.

The references are the model's own voice, five of a kind that training heard, and two natural ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from voxcli import Recording, SamplingParams, SpeechEngine, Utterance

if TYPE_CHECKING:
    from scorer import Scorer

pytestmark = [pytest.mark.speech, pytest.mark.slow, pytest.mark.timeout(900)]

FOLDER = Path(__file__).parents[2] / "samples" / "voices"
NAMES = ("heart", "oscar", "bruno", "felix", "nora", "clara", "george", "hugo")
TEXTS = (
    "The baker closes his shop at noon and walks home along the river.",
    "My sister found an old letter under the floor of the attic.",
)


def test_seven_of_eight_clones_are_nearest_to_their_own_reference(
    engine: SpeechEngine, scorer: Scorer
) -> None:
    from wording import compare

    references = [
        Recording(*soundfile.read(FOLDER / f"{name}.flac", dtype="float32")) for name in NAMES
    ]
    results = engine.synthesize(
        [
            Utterance(text, reference=reference, sampling=SamplingParams(seed=71_001 + seed))
            for seed, reference in enumerate(references)
            for text in TEXTS
        ]
    )
    wanted = np.stack([scorer.voice(each.samples, each.sample_rate) for each in references])
    clips = np.stack([scorer.voice(each.samples, each.sample_rate) for each in results])
    scores = clips.reshape(len(NAMES), len(TEXTS), -1).mean(axis=1) @ wanted.T  # [8, 8]
    nearest = [NAMES[index] for index in scores.argmax(axis=1)]
    words = [
        compare(result.utterance.text, scorer.hear(result.samples, result.sample_rate))
        for result in results
    ]
    errors, total = sum(each.errors for each in words), sum(each.words for each in words)
    figures = (
        f"nearest {nearest}, own {scores.diagonal().mean():.3f}, {errors} of {total} words wrong"
    )
    print(figures, np.round(scores, 2), sep="\n", file=sys.stderr)
    assert sum(map(str.__eq__, nearest, NAMES)) >= 7, nearest
    assert errors <= 0.05 * total
