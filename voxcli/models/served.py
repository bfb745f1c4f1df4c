"""What a family's model is and how it is asked where another program serves it, known by its name.

No checkpoint is there to be read. The fields are those of vLLM-Omni's speech request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from voxcli.models.base import ModelFacts
from voxcli.parameters import Values
from voxcli.utterance import Utterance

Fields = dict[str, Any]


def _as_it_is(utterance: Utterance) -> Utterance:
    return utterance


@dataclass(frozen=True)
class ServedModel:
    """See the module.

    Attributes:
        facts: modes and parameters are those that a request can carry.
        frame_s: seconds of audio for each token of output.
        fields: a segment as fields of a request, all but model, voice, recording, length and seed;
            of the utterance, the text as the model gets it, its language and the parameters.
        whole_samples: a recording has to be a multiple of so many, at the reference rate.
        frames_together: the vocoder takes so many frames, and drops what is left where a limit
            ends the speech; a limit has to be a multiple.
        tokens_unspoken: tokens at the end of what a limit ends that become no frame.
        max_told_s: a longer recording goes without its transcript.
        seeds_since: version of vLLM-Omni from which a seed decides the samples.
        check: the utterance as it is to be spoken; raises UsageError.
    """

    facts: ModelFacts
    frame_s: float
    fields: Callable[[Utterance, str, str, Values], Fields]
    whole_samples: int = 1
    frames_together: int = 1
    tokens_unspoken: int = 0
    max_told_s: float = 30.0
    seeds_since: tuple[int, int] = (0, 0)
    check: Callable[[Utterance], Utterance] = _as_it_is

    def limit(self, max_frames: int) -> int:
        """The most tokens to ask for, so that as many frames become sound."""
        num_tokens = max_frames + self.tokens_unspoken
        return num_tokens + -num_tokens % self.frames_together
