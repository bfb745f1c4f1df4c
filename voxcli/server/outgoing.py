"""One utterance of the WebSocket on its way out: its pauses, its encoder, how much of it has left.

Knows no socket and no job.
"""

from __future__ import annotations

import math
from contextlib import AsyncExitStack

from voxcli.audio.joins import TextPauses
from voxcli.audio.resample import Samples
from voxcli.server.encode import Coding
from voxcli.server.strand import Strand
from voxcli.utterance import FinishReason


class Outgoing:
    """See the module. Its bytes are one stream of its format.

    Args:
        index: of the utterance in its session.
        rate: Hz of the samples.
        max_seconds: of all its speech; None for no bound.

    Attributes:
        num_samples: that were encoded.
        num_bytes: that have left.
        sent_s: of the audio, with which these were made.
        finish_reason: LENGTH where `max_seconds` ended it.
    """

    def __init__(self, index: int, coding: Coding, rate: int, max_seconds: float | None) -> None:
        self.index = index
        self.rate = rate
        self.pauses = TextPauses(rate)
        self.num_sentences = 0
        self.num_samples = 0
        self.num_bytes = 0
        self.sent_s = 0.0
        self.finish_reason = FinishReason.STOP
        self._encoder = coding.stream(rate)
        self._is_light = coding.is_light
        self._max_seconds = max_seconds
        self._strand: Strand | None = None
        self._stack = AsyncExitStack()

    @property
    def audio_s(self) -> float:
        return self.num_samples / self.rate

    @property
    def left_s(self) -> float | None:
        """How much longer it may become."""
        return None if self._max_seconds is None else self._max_seconds - self.audio_s

    async def encode(self, samples: Samples) -> bytes:
        """The bytes of more samples, as far as it may be as long."""
        if self._max_seconds is not None:
            samples = samples[: math.floor(self._max_seconds * self.rate) - self.num_samples]
        if not len(samples):
            return b""
        if self._strand is None:
            strand = Strand(self._encoder.close, is_light=self._is_light)
            self._strand = await self._stack.enter_async_context(strand)
        data = await self._strand.call(self._encoder.encode, samples)
        self.num_samples += len(samples)
        return data

    def count_sent(self, num_bytes: int) -> None:
        """What was encoded last has left."""
        self.num_bytes += num_bytes
        self.sent_s = self.audio_s

    async def finish(self) -> bytes:
        """The bytes that end its stream."""
        return b"" if self._strand is None else await self._strand.call(self._encoder.finish)

    async def close(self) -> None:
        """Let go of the encoder; always safe."""
        await self._stack.aclose()
