"""What the speech tests look at: `Heard`, one utterance spoken and judged, and figures over many.

Imports none of the scorer's packages, so that tests can be collected without them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from voxcli import Result

if TYPE_CHECKING:
    from scorer import Quality, Scorer
    from wording import WordErrors

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Heard:
    """One utterance, spoken and judged."""

    text: str
    result: Result
    heard: str
    words: WordErrors
    quality: Quality


Listen = Callable[[Sequence[str]], list[Heard]]


def read_lines(name: str) -> list[str]:
    """The sentences of a file in this folder."""
    return (HERE / name).read_text("utf-8").splitlines()


def word_error_rate(spoken: Sequence[Heard]) -> float:
    """Errors by words of the whole set, so that long texts count more."""
    return sum(each.words.errors for each in spoken) / sum(each.words.words for each in spoken)


def mean_overall(spoken: Sequence[Heard]) -> float:
    return float(np.mean([each.quality.overall for each in spoken]))


def mean_p808(spoken: Sequence[Heard]) -> float:
    return float(np.mean([each.quality.p808 for each in spoken]))


def mean_similarity(spoken: Sequence[Heard], scorer: Scorer) -> float:
    """Mean cosine of all pairs."""
    voices = [scorer.voice(each.result.samples, each.result.sample_rate) for each in spoken]
    return float(np.mean([one @ other for one, other in combinations(voices, 2)]))


def longest(spoken: Sequence[Heard], count: int) -> list[Heard]:
    """The longest ones: a speaker is not known from one word."""
    return sorted(spoken, key=lambda each: each.result.audio_s, reverse=True)[:count]


def wrong(spoken: Sequence[Heard]) -> str:
    """The mistakes, for messages."""
    return "".join(
        f"\n  {each.words.errors} of {each.words.words}: '{each.text}' heard as '{each.heard}'"
        for each in spoken
        if each.words.errors
    )


def report(title: str, spoken: Sequence[Heard]) -> None:
    """The figures on stderr, which pytest shows with -s or when a test fails."""
    audio_s = sum(each.result.audio_s for each in spoken)
    print(
        f"{title}: {len(spoken)} texts, {audio_s:.0f} s, WER {word_error_rate(spoken):.2%}, "
        f"DNSMOS {mean_overall(spoken):.2f}, P.808 {mean_p808(spoken):.2f}{wrong(spoken)}",
        file=sys.stderr,
    )
