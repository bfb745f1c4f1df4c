"""When each word of a speech sounds, measured: forced alignment with PocketSphinx.

    timer = WordTimer(rate, "en")
    for chunk in stream:
        timer.push(chunk.samples)
        timer.catch_up(stream.speech.reports)
    segments = timer.finish(stream.speech.reports)  # as times.py takes them

English alone, where the extra `align` is installed; other segments, and those whose sound is not
what the text says, are left without words, which are estimated then. The aligner gets the audio in
blocks, so that other threads go on: it holds Python's lock while it works.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.pcm import to_integers
from voxcli.audio.resample import EMPTY, Resampler, Samples
from voxcli.text.phones import phones_of
from voxcli.times import Timed
from voxcli.utterance import FinishReason, Pcm, SegmentReport

if TYPE_CHECKING:
    from pocketsphinx import Decoder

PACKAGE = "pocketsphinx"
LANGUAGE = "en"
RATE = 16_000  # Hz that the acoustic model hears
FRAME_S = 0.01  # of the times it finds
EDGE_S = 0.1  # of near silence before and after a segment, in which it can begin and end
EDGE_LEVEL = 3e-4
BLOCK = RATE // 5  # samples at once; a few milliseconds of work
LEVEL = 0.08  # RMS that a segment is brought to
# The mean cepstrum of synthetic speech at that level, from which each segment starts: what came
# before has no influence. Measured on 60 sentences.
MEAN_CEPSTRUM = "53.23,6.09,-0.15,6.73,-4.57,-1.45,-4.52,9.02,-0.67,-2.04,-2.27,0.03,-0.08"
# Where the aligner finds a silence that is louder than this, against the whole segment, the speech
# has something else than the text. Right ones are below 0.15, those of lost words above 0.8.
MAX_SILENCE_LEVEL = 0.3
MIN_SILENCE_S = 0.15  # shorter ones are often the hold of a stop
MAX_ADDED = 10_000  # pronunciations, before the aligner starts again with its own

_SPOKEN_SIGNS = frozenset("%&@#*/\\")
_LETTERS = re.compile(r"[a-z]+(?:'[a-z]+)*")


def can_align(language: str) -> bool:
    """Whether words in a language can be measured here."""
    return language == LANGUAGE and find_spec(PACKAGE) is not None


def prepare() -> None:
    """Load the aligner, where it is installed, so that nobody waits for it later."""
    if can_align(LANGUAGE):
        _aligner()


class WordTimer:
    """Measures the words of one speech while it leaves; holds what is not yet aligned.

    Args:
        rate: of the samples, Hz.
        language: ISO 639-1, of the text.

    Attributes:
        segments: those that are done; those that could be aligned have their words.
    """

    def __init__(self, rate: int, language: str) -> None:
        self._can_align = can_align(language)
        self._resampler = Resampler(rate, RATE)
        self._held: list[NDArray[np.int16]] = []
        self._num_held = self._num_gone = 0  # samples; those that are gone came before
        self.segments: list[Timed] = []

    def push(self, samples: Samples | Pcm) -> None:
        """The next samples of the audio, float32 `[S]`."""
        if self._can_align:
            self._hold(self._resampler.push(_as_floats(samples)))

    def catch_up(self, reports: Sequence[SegmentReport]) -> None:
        """Align the segments whose sound is here whole; the rest waits."""
        length_s = (self._num_gone + self._num_held) / RATE
        for report in reports[len(self.segments) :]:
            if not 0 < report.end_s < length_s:
                return
            self._align(report)

    def finish(self, reports: Sequence[SegmentReport]) -> list[Timed]:
        """All segments, when the last samples were pushed."""
        if self._can_align:
            self._hold(self._resampler.flush())
        for report in reports[len(self.segments) :]:
            self._align(report)
        return self.segments

    def _hold(self, samples: Samples) -> None:
        self._held.append(_as_integers(samples))
        self._num_held += len(samples)

    def _align(self, report: SegmentReport) -> None:
        segment = Timed(report.text, report.start_s, report.end_s)
        if self._can_align:
            heard = self._take(report.start_s, report.end_s)
            if report.finish_reason is FinishReason.STOP:
                segment = with_words(segment, heard)
        self.segments.append(segment)

    def _take(self, start_s: float, end_s: float) -> Samples:
        """What sounds in a time; it and all before it are let go of."""
        first, last = (max(round(at_s * RATE) - self._num_gone, 0) for at_s in (start_s, end_s))
        held = np.concatenate(self._held) if self._held else _as_integers(EMPTY)
        rest = held[last:].copy()  # a view would hold all of it
        self._num_gone += len(held) - len(rest)
        self._held, self._num_held = [rest], len(rest)
        return _as_floats(held[first:last])


def with_words(segment: Timed, samples: Samples) -> Timed:
    """The segment with the times of its words, or as it is where they are not found.

    Args:
        samples: float32 `[S]` at `RATE`, from the segment's start to its end; in English.
    """
    words = segment.text.split()
    spans = _aligner().align(words, samples) if len(words) > 1 else None
    if spans is None:
        return segment
    start_s, end_s = segment.start_s, segment.end_s

    def inside(at_s: float) -> float:
        return min(max(start_s + at_s, start_s), end_s)

    timed = (
        Timed(word, inside(first_s), inside(last_s))
        for word, (first_s, last_s) in zip(words, spans, strict=True)
    )
    return replace(segment, words=tuple(timed))


class Aligner:
    """PocketSphinx with its American English model; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decoder = self._new_decoder()

    def align(self, words: Sequence[str], samples: Samples) -> list[tuple[float, float]] | None:
        """From when to when each word sounds, in seconds from the first sample; in order and
        without overlap. None where they are not found.

        Args:
            words: as they are said.
            samples: float32 `[S]` at `RATE`.
        """
        parts = [parts_of(word) for word in words]
        loudness = float(np.sqrt(np.mean(np.square(samples)))) if len(samples) else 0.0
        if not any(parts) or None in parts or loudness == 0.0:
            return None
        edge = EDGE_LEVEL * np.random.default_rng(0).standard_normal(round(EDGE_S * RATE))
        heard = np.concatenate((edge, samples * (LEVEL / loudness), edge)).astype(np.float32)
        with self._lock:
            found = self._search([part for each in parts for part in each or ()], heard)
        if found is None or _is_lost(found, heard):
            return None
        spoken = iter([span for name, span in found if not _is_filler(name)])
        spans: list[tuple[float, float]] = []
        for each in parts:
            said = [next(spoken) for _ in each or ()]
            end_s = spans[-1][1] if spans else 0.0
            spans.append((said[0][0], said[-1][1]) if said else (end_s, end_s))
        return spans

    def _search(
        self, parts: Sequence[str], samples: Samples
    ) -> list[tuple[str, tuple[float, float]]] | None:
        """What sounds when, silences too, in seconds from the end of the first edge."""
        decoder = self._decoder
        if self._num_added > MAX_ADDED:
            decoder = self._new_decoder()
        data = _as_integers(samples)
        try:
            names = [self._name(part) for part in parts]
            decoder.reinit_feat()
            decoder.set_cmn(MEAN_CEPSTRUM)
            decoder.set_align_text(" ".join(names))
            decoder.start_utt()
            for start in range(0, len(data), BLOCK):
                decoder.process_raw(data[start : start + BLOCK].tobytes())
            decoder.end_utt()
            found = [
                (each.word, (each.start_frame, each.end_frame + 1)) for each in decoder.seg() or ()
            ]
        except RuntimeError:  # its search found no path
            self._decoder = self._new_decoder()
            return None
        if sum(not _is_filler(name) for name, _ in found) != len(names):
            return None
        return [(name, (a * FRAME_S - EDGE_S, b * FRAME_S - EDGE_S)) for name, (a, b) in found]

    def _name(self, part: str) -> str:
        """A part of a word as the dictionary has it, with a pronunciation where it has none."""
        if self._decoder.lookup_word(part) is not None:
            return part
        name = f"+{part}"
        if self._decoder.lookup_word(name) is None:
            self._decoder.add_word(name, phones_of(part.replace("'", "")), False)
            self._num_added += 1
        return name

    def _new_decoder(self) -> Decoder:
        from pocketsphinx import Decoder

        self._num_added = 0
        self._decoder = Decoder(lm=None, loglevel="FATAL", cmn="live")
        return self._decoder


@lru_cache(1)
def _aligner() -> Aligner:
    return Aligner()


def parts_of(word: str) -> list[str] | None:
    """The parts of a word that sound, in small letters of ASCII: "Well-known," has two. None where
    it has a digit or sign of which nobody knows how it is read."""
    if any(char in _SPOKEN_SIGNS or unicodedata.category(char)[0] in "NS" for char in word):
        return None
    from anyascii import anyascii

    return _LETTERS.findall(anyascii(word).lower())


def _is_filler(name: str) -> bool:
    return name[0] in "<["


def _is_lost(found: Sequence[tuple[str, tuple[float, float]]], samples: Samples) -> bool:
    """Whether a silence between words is none.

    Args:
        samples: at `LEVEL`, with both edges.
    """
    for name, (start_s, end_s) in found:
        if not _is_filler(name) or end_s - start_s < MIN_SILENCE_S:
            continue
        first, last = (round((at_s + EDGE_S) * RATE) for at_s in (start_s, end_s))
        silence: Any = samples[first:last]
        if len(silence) and np.sqrt(np.mean(np.square(silence))) > MAX_SILENCE_LEVEL * LEVEL:
            return True
    return False


def _as_integers(samples: Samples) -> NDArray[np.int16]:
    """Half the memory, as the aligner takes it."""
    return to_integers(samples, 16).astype("<i2")


def _as_floats(samples: Samples | Pcm | NDArray[np.int16]) -> Samples:
    found: NDArray[Any] = (
        np.frombuffer(samples.data, "<i2") if isinstance(samples, Pcm) else samples
    )
    if found.dtype == np.float32:
        return found
    return found.astype(np.float32) / np.float32(32768)
