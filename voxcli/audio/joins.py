"""What goes between segments and at their ends: pauses, fades, and silence cut to a kept margin.

Pure functions on float32 samples. Knows nothing about texts or models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from voxcli.audio.resample import EMPTY, Samples

FADE_S = 0.020  # one period of 50 Hz: long enough for no click, too short to hear as a fade
FRAME_S = 0.010  # step of the level measurement
# Quieter than this counts as silence: 45 dB under the segment's loudest frame keeps breaths and
# soft final consonants (about -35 dB), and -60 dBFS is the floor for segments quiet throughout.
SILENCE_BELOW_PEAK_DB = 45.0
SILENCE_FLOOR_DBFS = -60.0
QUIET = 1e-3  # |x| below which a sample is silence (-60 dBFS)


def silence(pause_s: float, rate: int) -> Samples:
    """A pause of digital silence."""
    return np.zeros(round(pause_s * rate), np.float32)


def silences(num_samples: int, rate: int) -> Iterator[Samples]:
    """So many samples of digital silence, a second at a time."""
    for done in range(0, num_samples, rate):
        yield np.zeros(min(rate, num_samples - done), np.float32)


def frame_levels(samples: Samples, rate: int, frame_s: float = FRAME_S) -> Samples:
    """RMS of each whole or partial frame in dBFS, float32 `[ceil(S / frame)]`."""
    size = max(1, round(frame_s * rate))
    starts = np.arange(0, len(samples), size)
    if len(starts) == 0:
        return EMPTY
    energy = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    counts = np.minimum(size, len(samples) - starts)
    levels: Samples = (10 * np.log10(energy / counts + 1e-12)).astype(np.float32)
    return levels


def sounding(samples: Samples, rate: int) -> tuple[int, int]:
    """First and one-past-last sample that is not silence; (0, 0) when all is."""
    levels = frame_levels(samples, rate)
    if len(levels) == 0:
        return 0, 0
    threshold = max(float(levels.max()) - SILENCE_BELOW_PEAK_DB, SILENCE_FLOOR_DBFS)
    loud = np.flatnonzero(levels > threshold)
    if len(loud) == 0:
        return 0, 0
    size = max(1, round(FRAME_S * rate))
    return int(loud[0]) * size, min((int(loud[-1]) + 1) * size, len(samples))


def kept_range(samples: Samples, rate: int, keep_s: float) -> tuple[int, int]:
    """First and one-past-last sample that `trim_silence` keeps; (0, 0) when all is silence."""
    first, last = sounding(samples, rate)
    if last == 0:
        return 0, 0
    margin = round(keep_s * rate)
    return max(first - margin, 0), min(last + margin, len(samples))


def trim_silence(
    samples: Samples, rate: int, *, keep_s: float = 0.05, fade_s: float = FADE_S
) -> Samples:
    """Cut silence at both ends down to `keep_s`, and fade the ends that were cut.

    All-silent input gives an empty array. Ends that were not cut are returned bit for bit.
    """
    first, last = sounding(samples, rate)
    if last == 0:
        return EMPTY
    start, stop = kept_range(samples, rate, keep_s)
    # the fade stays inside the kept silence, so that it never eats speech
    return fade(
        samples[start:stop],
        rate,
        in_s=min(fade_s, (first - start) / rate) if start else 0.0,
        out_s=min(fade_s, (stop - last) / rate) if stop < len(samples) else 0.0,
    )


def fade(samples: Samples, rate: int, *, in_s: float = FADE_S, out_s: float = FADE_S) -> Samples:
    """A copy whose ends rise from and fall to zero along a raised cosine."""
    result = samples.astype(np.float32, copy=True)
    length = min(round(in_s * rate), len(result))
    result[:length] *= _rise(length)
    length = min(round(out_s * rate), len(result))
    result[len(result) - length :] *= _rise(length)[::-1]
    return result


def join(segments: Sequence[Samples], rate: int, *, pause_s: float) -> Samples:
    """Segments with the same pause between each two; empty segments add no pause."""
    pieces: list[Samples] = []
    for segment in segments:
        if len(segment) == 0:
            continue
        if pieces:
            pieces.append(silence(pause_s, rate))
        pieces.append(segment)
    return np.concatenate(pieces) if pieces else EMPTY


def _rise(length: int) -> Samples:
    ramp: Samples = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / max(length, 1))).astype(
        np.float32
    )
    return ramp


class PauseFitter:
    """Gives the silence after each segment of a stream the length the text asks for.

    Quiet samples at the end of what was pushed wait until it is known whether sound follows, so
    the result does not depend on how a segment was cut into chunks.
    """

    def __init__(self) -> None:
        self._held: Samples = np.zeros(0, np.float32)
        self._is_exact = False

    def after_exact(self) -> None:
        """The silence that came last is as long as it may be: what is quiet after it is dropped."""
        self._is_exact = True

    def push(self, samples: Samples) -> Samples:
        """Take new samples; returns those that may leave: all up to the last audible one."""
        audible = np.flatnonzero(np.abs(samples) >= QUIET)
        if self._is_exact and len(audible):
            samples = samples[audible[0] :]
            audible = audible - audible[0]
            self._held = self._held[:0]
            self._is_exact = False
        joined = np.concatenate((self._held, samples))
        end = len(self._held) + int(audible[-1]) + 1 if len(audible) else 0
        self._held = joined[end:]
        return joined[:end]

    def end_segment(self, length: int | None) -> Samples:
        """The segment is over: its silence, cut or filled to `length` samples; None keeps it."""
        held, self._held = self._held, np.zeros(0, np.float32)
        if length is None:
            return held
        return np.pad(held[:length], (0, max(0, length - len(held))))


class TextPauses:
    """The silence between texts that are spoken one after the other.

    It is as long as the caller says, and where a text asks for exact silence, as long as that.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._fitter = PauseFitter()
        self._num_natural = 0  # samples of the pause that came last, where no text asked for it
        self._num_passed = 0  # samples of the text's beginning that do not leave
        self._can_grow = False

    def begin_text(self, silence_s: float) -> int:
        """A text begins with exact silence, which stands for the pause before it.

        Returns:
            how many of its samples do not leave for that.
        """
        self._num_passed = min(self._num_natural, round(silence_s * self._rate))
        return self._num_passed

    def push(self, samples: Samples) -> Samples:
        """Samples of the text that may leave; its last silence waits until its length is known."""
        fresh = samples[self._num_passed :]
        self._num_passed -= len(samples) - len(fresh)
        return self._fitter.push(fresh)

    def end_text(self, pause_s: float, *, is_asked: bool) -> Samples:
        """The silence after a text.

        Args:
            is_asked: the text asked for what it ended with, which is kept.
        """
        self._num_natural = 0 if is_asked else round(pause_s * self._rate)
        self._can_grow = not is_asked
        return self._fitter.end_segment(None if is_asked else self._num_natural)

    def lengthen(self, by_s: float, *, is_last: bool = False) -> Samples:
        """More of the pause that came last; nothing after silence that was asked for.

        Args:
            is_last: it grows no more.
        """
        if not self._can_grow:
            return EMPTY
        self._can_grow = not is_last
        longer = silence(by_s, self._rate)
        self._num_natural += len(longer)
        return longer

    def rest(self, seconds: float) -> int:
        """Samples of silence that are still to come where a text is nothing but silence, which
        stands for the pause before it."""
        num_left = max(0, round(seconds * self._rate) - self._num_natural)
        self._num_natural, self._can_grow = 0, False
        return num_left
