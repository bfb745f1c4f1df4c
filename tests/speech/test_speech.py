"""The bundled voice is understood, sounds clean, and is one and the same voice.

CI hears fixed sentences with fixed seeds; `slow` hears all. Seeds make a run repeatable on one
machine, but rounding differs between machines and can change a word, so bounds allow for luck.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from listening import (
    Heard,
    Listen,
    longest,
    mean_overall,
    mean_p808,
    mean_similarity,
    read_lines,
    report,
    word_error_rate,
    wrong,
)

from voxcli import FinishReason, SamplingParams, SpeechEngine, Utterance
from voxcli.audio.pace import max_audio_seconds, min_speech_seconds

if TYPE_CHECKING:
    from scorer import Scorer

pytestmark = [pytest.mark.speech, pytest.mark.timeout(1800)]

HELLO = Path(__file__).parents[2] / "samples" / "hello.txt"
HELDOUT_IN_CI = range(0, 100, 8)  # 13, not picked by how well they go
EVERYDAY_IN_CI = range(0, 20, 3)  # 7
ONE_WORD = ("A", "7", "No.", "Yes", "Hello")

# Of the checkpoint's README, 6 steps, cfg 1.0, n = 16.
README_OVERALL, README_P808 = 2.76, 3.37


@pytest.fixture(scope="module")
def spoken(listen: Listen) -> list[Heard]:
    heldout, everyday = read_lines("heldout_en.txt"), read_lines("everyday_en.txt")
    found = listen(
        [
            HELLO.read_text("utf-8").strip(),
            *(heldout[index] for index in HELDOUT_IN_CI),
            *(everyday[index] for index in EVERYDAY_IN_CI),
        ]
    )
    report("fixed sentences", found)
    return found


def test_what_is_said_is_understood(spoken: list[Heard]) -> None:
    """At most 4 % of 200 words, that is 8; "voxcli" itself, always misheard, is one of them.

    Drawing 21 sentences from 220 that were heard gives 3.7 wrong words on average, and 9 or more
    once in 55 draws. Sentences and seeds are fixed, so only another rounding can draw again.
    """
    assert word_error_rate(spoken) <= 0.04, wrong(spoken)


def test_each_sentence_is_mostly_right(spoken: list[Heard]) -> None:
    missed = [each for each in spoken if each.words.rate > 0.34]
    assert not missed, wrong(missed)


def test_the_hello_sentence_is_heard_right(spoken: list[Heard]) -> None:
    """ "voxcli" is no word of the recogniser's, so it may be spelled in any way."""
    hello = spoken[0]
    assert "and I can read any text to you" in hello.heard, hello.heard
    assert hello.heard.startswith("Hello"), hello.heard


def test_it_sounds_as_clean_as_the_checkpoint_does(spoken: list[Heard]) -> None:
    """Sentences spread by 0.24, the mean of 21 by 0.05: 0.1 below is two standard errors."""
    assert mean_overall(spoken) >= README_OVERALL - 0.1
    assert mean_p808(spoken) >= README_P808 - 0.1


def test_samples_are_plausible(spoken: list[Heard]) -> None:
    for each in spoken:
        result = each.result
        peak, level = float(np.abs(result.samples).max()), dbfs(result.samples)
        said = " ".join(segment.text for segment in result.segments)
        assert result.finish_reason is FinishReason.STOP, each.text
        assert min_speech_seconds(said) <= result.audio_s <= max_audio_seconds(said), each.text
        assert 0.05 < peak < 0.999, f"{each.text}: peak {peak:.3f}"
        assert -40 < level < -10, f"{each.text}: {level:.1f} dBFS"


def test_two_utterances_have_one_voice(spoken: list[Heard], scorer: Scorer) -> None:
    """A cosine over 0.82 is one speaker; this voice has 0.90 to itself on average."""
    assert mean_similarity(longest(spoken, 6), scorer) > 0.82


@pytest.mark.parametrize("text", ONE_WORD)
def test_one_word_is_short_and_not_silent(engine: SpeechEngine, text: str) -> None:
    for seed in range(3):
        utterance = Utterance(text, sampling=SamplingParams(seed=seed))
        (result,) = engine.synthesize([utterance])
        assert result.finish_reason is FinishReason.STOP
        assert 0.15 <= result.audio_s <= 3.0, f"seed {seed}: {result.audio_s:.2f} s"
        assert dbfs(result.samples) > -50, f"seed {seed}"


@pytest.mark.slow
def test_all_held_out_sentences_are_understood_and_clean(listen: Listen, scorer: Scorer) -> None:
    """At most 2 %: these seeds give 1.6 %, another set 1.2 %.

    Drawing 100 sentences anew from those 200 passes 2 % once in eight draws: a failure on another
    machine by one or two words is luck, and a look at the list of mistakes decides.
    """
    spoken = listen(read_lines("heldout_en.txt"))
    report("held-out", spoken)
    print(f"similarity {mean_similarity(longest(spoken, 12), scorer):.3f}", file=sys.stderr)
    assert word_error_rate(spoken) <= 0.02, wrong(spoken)
    assert mean_overall(spoken) >= README_OVERALL - 0.1
    assert mean_p808(spoken) >= README_P808 - 0.1


@pytest.mark.slow
def test_all_everyday_sentences_are_understood(listen: Listen) -> None:
    """At most 5 % of 228 words; these seeds give 1.3 %. Numbers are harder than prose."""
    spoken = listen(read_lines("everyday_en.txt"))
    report("everyday", spoken)
    assert word_error_rate(spoken) <= 0.05, wrong(spoken)
    assert mean_overall(spoken) >= README_OVERALL - 0.1


def dbfs(samples: np.ndarray) -> float:
    """RMS in dB relative to full scale."""
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))
