"""What will be spoken, and how: plain data that every engine makes and takes. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxcli.audio.pace import speaking_time
from voxcli.parameters import Values
from voxcli.text.prepared import PreparedText
from voxcli.utterance import Utterance


@dataclass(frozen=True)
class Plan:
    """An utterance with everything settled.

    Attributes:
        seed: as given, else chosen.
        parameters: all that the model has, each with its value.
        prompt_text: transcript of the speech to continue, written out like the text.
    """

    utterance: Utterance
    text: PreparedText
    seed: int
    parameters: Values = field(default_factory=dict)
    prompt_text: str = ""

    @property
    def estimated_audio_s(self) -> float:
        """Seconds of audio at an ordinary pace, the geometric mean of slowest and fastest."""
        total = 0.0
        for segment in self.text.segments:
            pace = speaking_time(segment.text, self.text.language)
            total += (pace.slowest_s * max(pace.fastest_s, 0.05)) ** 0.5
            total += 0.0 if segment.silence_s else segment.pause_s
        return total / self.utterance.speed + self.text.silences_s
