"""How much speech to make before it is played, so that it does not run dry.

Pure arithmetic on measured numbers; knows no device, no thread and no clock. RTF is wall time by
audio time: below 1 speech is made faster than it is played.
"""

from __future__ import annotations

from collections import deque

LARGEST_CHUNK_S = 0.64  # chunks double from one patch to four; see `speech.CHUNK_PATCHES`
MARGIN = 1.25  # machines slow down for a while: other programs, heat
NUM_RECENT = 12  # chunks that the measured RTF looks back on; some 6 s of speech
MAX_PREBUFFER_S = 120.0  # of waiting samples; more than that is not worth the silence


class Pace:
    """Measures how fast speech is made, from the time spent on each chunk."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=NUM_RECENT)

    def record(self, wall_s: float, audio_s: float, *, is_first: bool) -> None:
        """Take one chunk's numbers. The first of a text is left out: its prompt is in the time."""
        if not is_first:
            self._recent.append((wall_s, audio_s))

    @property
    def rtf(self) -> float | None:
        """Of the chunks seen lately; None before the second chunk."""
        audio_s = sum(audio for _, audio in self._recent)
        return sum(wall for wall, _ in self._recent) / audio_s if audio_s > 0 else None


class Prebuffer:
    """Decides when playing may begin, and says why.

    Args:
        fixed_s: what the user asked for in place of a decision, or None.
    """

    def __init__(self, fixed_s: float | None = None) -> None:
        self.fixed_s = fixed_s
        self.pace = Pace()

    def needed_s(self, made_s: float, remaining_s: float) -> float:
        """Seconds that must wait in the buffer before playing begins.

        What is made later than it is played has to be there already, and so has as much as is
        played while the next chunk is made.

        Args:
            made_s: speech of this text that exists.
            remaining_s: estimate of the speech of this text that does not exist yet.
        """
        if self.fixed_s is not None:
            return self.fixed_s
        if self.pace.rtf is None:
            return MAX_PREBUFFER_S
        rtf = MARGIN * self.pace.rtf
        next_chunk_s = min(2 * made_s, LARGEST_CHUNK_S)
        late_s = max(0.0, rtf - 1.0) * remaining_s
        return min(late_s + rtf * next_chunk_s, MAX_PREBUFFER_S)

    def explain(self, buffered_s: float) -> str:
        """One sentence for the user on why playing began with `buffered_s` in the buffer."""
        begun = f"playing began with {buffered_s:.2f} s in the buffer"
        if self.fixed_s is not None:
            return f"{begun}, as set by --buffer-ms"
        rtf = self.pace.rtf
        if rtf is None:
            return f"{begun}, the whole text"
        speed = f"speech is made at {1 / rtf:.1f}x real time"
        if rtf * MARGIN <= 1.0:
            return f"{begun}: {speed}"
        return f"{begun}: {speed}, so the part that would come too late was made first"
