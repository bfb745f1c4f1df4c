"""No words are lost where a text has marks inside: told by the length of what is said.

A voice may take a mark inside a line for its end. Then an utterance is much shorter than others of
the same text. The model's own voice never was in 240. Of 800 clones two were, both of "Why? Because
I said so. Is that enough?" as george, of which three in 25 are: so some clones of each kind may be.
A voice that was not taken over ended six of 48 at an ellipsis.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxcli import FinishReason, Recording, Result, SamplingParams, SpeechEngine, Utterance

pytestmark = [pytest.mark.speech, pytest.mark.timeout(900)]

FOLDER = Path(__file__).parents[2] / "samples" / "voices"
TEXTS = {
    "ellipsis": (
        "I wanted to say... never mind... it does not matter now.",
        "Well... I think... maybe we should go home.",
        "...and then, out of nowhere, the lights came back.",
        "She opened the door... and there was nobody there.",
        "Wait... what did you just say to her...",
    ),
    "exclamation": (
        "Stop! Do not touch that! It is still hot.",
        "No! That was my seat! You took it!",
        "Oh! the poor thing! she never had a chance.",
    ),
    "question": (
        "Why? Because I said so. Is that enough?",
        "What? you mean the blue one? or the green one?",
        "Really?! You walked all the way?! In this rain?!",
    ),
    "quotation": (
        '"Stop!" he said. "Where are you going?" she asked.',
        'He said "no" and then "maybe" and then nothing at all.',
        '"Is it far?" asked Anna, "or can we walk?"',
    ),
    "dash": (
        "My brother - the older one - lives by the sea.",
        "It was - how can I say it - not what we had hoped for.",
        "I thought — no, I was sure — that we had met before.",
    ),
    "others": (
        "One thing is certain: it will rain; bring a coat.",
        "First, the keys; then, the door; and last, the light.",
        "The list (which is long) begins with bread, milk, and eggs.",
    ),
}
SEEDS = range(8)
VOICES = ("", *(pytest.param(name, marks=pytest.mark.slow) for name in ("george", "sarah")))
SHORTEST, LONGEST = 0.7, 1.5  # of the median of all seeds: what is longer said words twice
FASTEST_S = 0.035  # a character; voices take 0.037 to 0.095


def spoken(engine: SpeechEngine, kind: str, voice: str) -> list[tuple[str, list[Result]]]:
    """Each text of a kind with its utterances."""
    reference = recording(voice) if voice else None
    return [
        (
            text,
            engine.synthesize(
                [
                    Utterance(text, reference=reference, sampling=SamplingParams(seed=seed))
                    for seed in SEEDS
                ]
            ),
        )
        for text in TEXTS[kind]
    ]


def recording(name: str) -> Recording:
    return Recording(*soundfile.read(FOLDER / f"{name}.flac", dtype="float32"))


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("kind", TEXTS)
def test_marks_inside_end_no_utterance(engine: SpeechEngine, kind: str, voice: str) -> None:
    wrong = []
    for text, results in spoken(engine, kind, voice):
        assert all(each.finish_reason is FinishReason.STOP for each in results), text
        seconds = np.array([each.audio_s for each in results])
        print(f"{text}: {seconds.min():.2f} to {seconds.max():.2f} s", file=sys.stderr)
        least, most = SHORTEST * np.median(seconds), LONGEST * np.median(seconds)
        wrong += [(text, seed) for seed, s in enumerate(seconds) if not least <= s <= most]
        assert np.median(seconds) >= FASTEST_S * len(text), text
    assert len(wrong) <= (3 if voice else 1), wrong
