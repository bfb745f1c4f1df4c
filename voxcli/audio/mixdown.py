"""Clips on disk to one timeline on disk, each at its own start, exact to the sample.

Only the clips that sound at a moment are open, and of each a piece is held: memory grows with how
many overlap, not with how long the timeline is. What needs to know the whole (loudness) reads the
clips again, a pass over small files.

    mix = Mix(clips, 24_000, bed=..., target_lufs=-16.0)
    written = write_mix(mix, "timeline.wav")

Knows nothing about rows, texts or speakers. Letters: `S` samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from voxcli.audio.clips import ClipReader
from voxcli.audio.ducking import BedGain, Ducking
from voxcli.audio.joins import FADE_S, fade
from voxcli.audio.level import Level, LevelMeter
from voxcli.audio.levelling import gain_to, limited
from voxcli.audio.limiter import CEILING_DB, Limiter
from voxcli.audio.loudness import LoudnessMeter
from voxcli.audio.resample import BLOCK, Samples
from voxcli.audio.tags import Tags
from voxcli.audio.write import AudioWriter, WrittenAudio

# Told a stage and which share of it is done; more than 1 under a bed that goes on after the clips.
Tell = Callable[[Literal["level", "write", "check"], float], None]


@dataclass(frozen=True)
class Clip:
    """A file and its place.

    Attributes:
        start: sample of the timeline at which it begins.
        length: samples that sound; the file's rest is cut off.
        is_cut: whether its end is faded out.
    """

    path: Path
    start: int
    length: int
    is_cut: bool = False

    @property
    def stop(self) -> int:
        return self.start + self.length


@dataclass(frozen=True)
class Bed:
    """Sound under the speech, from the timeline's beginning."""

    path: Path
    ducking: Ducking


@dataclass(frozen=True)
class Mix:
    """What sounds when; nothing is read before it is asked.

    Attributes:
        rate: of the timeline in Hz; clips at other rates are resampled.
        length: samples that it has at least.
        target_lufs: integrated loudness of the result; None leaves it as it comes.
        target_rms_db: its level over all samples, in place of the loudness.
        ceiling_db: what no peak is above, also none between samples.
        is_bed_alone: the clips only turn the bed down and are not heard.
    """

    clips: Sequence[Clip]
    rate: int
    bed: Bed | None = None
    target_lufs: float | None = None
    is_bed_alone: bool = False
    length: int = 0
    target_rms_db: float | None = None
    ceiling_db: float = CEILING_DB

    def stem(self, clips: Sequence[Clip]) -> Mix:
        """Some of the clips alone. All stems add up to `blocks`, the bed's with them."""
        return Mix(clips, self.rate, length=self.length)

    def bed_stem(self) -> Mix:
        """The bed alone, turned down where the clips sound."""
        return Mix(self.clips, self.rate, self.bed, is_bed_alone=True, length=self.length)

    def blocks(self) -> Iterator[Samples]:
        """The sum of all, before loudness and limiter, float32 `[<= BLOCK]` each."""
        bed_gain = BedGain(self._spans, self.bed.ducking) if self.bed else None
        with ExitStack() as stack:
            playing = _Playing(() if self.is_bed_alone else self.clips, self.rate, stack)
            bed = stack.enter_context(ClipReader(self.bed.path, self.rate)) if self.bed else None
            at = 0
            while True:
                block = np.zeros(BLOCK, np.float32)
                end = playing.add_to(block, at)
                if bed is not None and bed_gain is not None:
                    piece = bed.read(BLOCK)
                    block[: len(piece)] += piece * bed_gain.at(at, len(piece), self.rate)
                    end = max(end, at + len(piece))
                end = max(end, min(self.length, at + BLOCK))
                if end < at + BLOCK and not playing.is_more:
                    yield block[: max(0, end - at)]
                    return
                yield block
                at += BLOCK

    @property
    def end(self) -> int:
        """Where the last clip ends, or the length it has at least; a bed may go on."""
        return max([self.length, *(clip.stop for clip in self.clips)])

    def gain_db(self, tell: Tell = lambda stage, share: None) -> float:
        """What brings the limited sum to its target; 0.0 without one, or for silence.

        Args:
            tell: how far each look at the whole is.
        """
        is_rms = self.target_rms_db is not None
        target = self.target_rms_db if is_rms else self.target_lufs
        if target is None:
            return 0.0

        def look(gain_db: float | None) -> float:
            blocks = self.blocks() if gain_db is None else self.limited(gain_db)
            blocks = watched(blocks, lambda count: tell("level", count / max(self.end, 1)))
            return overall((LevelMeter if is_rms else LoudnessMeter)(self.rate), blocks)

        return gain_to(target, look)

    def limited(self, gain_db: float, limiter: Limiter | None = None) -> Iterator[Samples]:
        """The sum with a gain, no peak above the ceiling."""
        return limited(self.blocks(), gain_db, limiter or self.limiter())

    def limiter(self) -> Limiter:
        """A new one."""
        return Limiter(self.rate, 10 ** (self.ceiling_db / 20))

    @property
    def _spans(self) -> list[tuple[float, float]]:
        return [(clip.start / self.rate, clip.stop / self.rate) for clip in self.clips]


class _Playing:
    """The clips that sound, opened when their time comes and closed after it."""

    def __init__(self, clips: Sequence[Clip], rate: int, stack: ExitStack) -> None:
        self._waiting = deque(sorted(clips, key=lambda clip: clip.start))
        self._open: list[tuple[Clip, ClipReader]] = []
        self._rate = rate
        stack.callback(self._close_all)

    @property
    def is_more(self) -> bool:
        return bool(self._waiting or self._open)

    def add_to(self, block: Samples, at: int) -> int:
        """Add what sounds from sample `at` on; returns where the last of it ends."""
        stop = at + len(block)
        while self._waiting and self._waiting[0].start < stop:
            clip = self._waiting.popleft()
            self._open.append((clip, ClipReader(clip.path, self._rate)))
        end = at
        for clip, reader in self._open:
            first, last = max(clip.start, at), min(clip.stop, stop)
            piece = reader.read(last - first)
            if clip.is_cut:
                piece = _faded(piece, first, clip, self._rate)
            block[first - at :][: len(piece)] += piece
            end = max(end, last)
        for clip, reader in self._open:
            if clip.stop <= stop:
                reader.close()
        self._open = [entry for entry in self._open if entry[0].stop > stop]
        return end

    def _close_all(self) -> None:
        for _, reader in self._open:
            reader.close()


def _faded(piece: Samples, first: int, clip: Clip, rate: int) -> Samples:
    """The part of a piece that lies in the fade at the clip's end, turned down."""
    length = min(round(FADE_S * rate), clip.length)
    begin = clip.stop - length
    if first + len(piece) <= begin:
        return piece
    ramp = fade(np.ones(length, np.float32), rate, in_s=0.0, out_s=length / rate)
    gain = np.ones(len(piece), np.float32)
    inside = np.arange(max(begin, first), first + len(piece))
    gain[inside - first] = ramp[inside - begin]
    return piece * gain


def watched(blocks: Iterable[Samples], tell: Callable[[int], None]) -> Iterator[Samples]:
    """The blocks, telling how many samples there were so far."""
    count = 0
    for block in blocks:
        yield block
        count += len(block)
        tell(count)


def overall(meter: LevelMeter | LoudnessMeter, blocks: Iterable[Samples]) -> float:
    """What a meter finds of all blocks."""
    for block in blocks:
        meter.push(block)
    return meter.overall()


@dataclass(frozen=True)
class WrittenMix:
    """A mix that was written.

    Attributes:
        lufs: its loudness; -inf for silence.
    """

    audio: WrittenAudio
    lufs: float
    level: Level


def write_mix(
    mix: Mix,
    path: Path,
    *,
    bits: str | None = None,
    overwrite: bool = False,
    tags: Tags | None = None,
    token: str = "",
    tell: Tell = lambda stage, share: None,
) -> WrittenMix:
    """Write the timeline to `path`, in the format of its suffix, whole or not at all.

    Args:
        token: as of `AudioWriter`.
        tell: how far it is; always called by this thread.

    The mix's rate must be one that the format stores, since resampling would lift peaks again.

    Raises:
        OutputError, OutputExistsError, SynthesisError: see `AudioWriter`.
        RecordingError: a clip or the bed cannot be read.
    """
    limiter, meter, levels = mix.limiter(), LoudnessMeter(mix.rate), LevelMeter(mix.rate)
    with AudioWriter(
        path,
        mix.rate,
        bits=bits,
        overwrite=overwrite,
        is_mostly_silent=True,
        tags=tags,
        token=token,
    ) as writer:
        assert writer.sample_rate == mix.rate, f"{path.suffix} cannot store {mix.rate} Hz"
        gain_db = mix.gain_db(tell)
        blocks = mix.limited(gain_db, limiter)
        for block in watched(blocks, lambda count: tell("write", count / max(mix.end, 1))):
            writer.write(block)
            meter.push(block)
            levels.push(block)
        audio = writer.commit(lambda share: tell("check", share))
    level = Level(levels.noise_floor_db(), gain_db, limiter.reduced_db)
    return WrittenMix(audio, meter.overall(), level)
