"""A prompt of VoxCPM2: text ids and patches of audio, one entry a position.

A reference voice comes first, between two marks; the text follows, and speech to continue is last.

Letters: `N` positions, `A` audio positions, `P` latent vectors a patch, `D` latent width.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from voxcli.models.voxcpm2.tokenize import AUDIO_START, REFERENCE_END, REFERENCE_START

TEXT, AUDIO = "text", "audio"  # kinds of spans


@dataclass(frozen=True, eq=False)
class Prompt:
    """What a request starts from.

    Attributes:
        token_ids: int64 `[N]`; 0 where the position is audio.
        is_audio: bool `[N]`.
        patches: float32 `[A, P, D]`, the audio positions in order.
        is_continuation: the last position is audio that the new speech continues.
        prefix_len: positions at the start that hold a reference voice alone, so that prompts with
            the same `prefix_key` share their keys and values.
    """

    token_ids: np.ndarray
    is_audio: np.ndarray
    patches: np.ndarray
    is_continuation: bool = False
    prefix_len: int = 0
    prefix_key: str = ""

    def __len__(self) -> int:
        return len(self.token_ids)

    def patches_of(self, start: int, end: int) -> np.ndarray:
        """Patches `[A, P, D]` of positions `start .. end`."""
        first, stop = (int(self.is_audio[:place].sum()) for place in (start, end))
        return self.patches[first:stop]


def lay_out(text_ids: Sequence[int], reference: np.ndarray, prompt_audio: np.ndarray) -> Prompt:
    """The prompt of a text.

    Args:
        text_ids: the transcript of the speech to continue, if any, then the text.
        reference, prompt_audio: latents `[A, P, D]` of the voice to imitate and of the speech to
            continue; without patches where there is none.
    """
    ids: list[int] = []
    if len(reference):
        ids += [REFERENCE_START, *[-1] * len(reference), REFERENCE_END]
    ids += [*text_ids, AUDIO_START, *[-1] * len(prompt_audio)]
    token_ids = np.array(ids, np.int64)
    return Prompt(
        token_ids=np.maximum(token_ids, 0),
        is_audio=token_ids < 0,
        patches=np.concatenate((reference, prompt_audio)),
        is_continuation=len(prompt_audio) > 0,
        prefix_len=len(reference) + 2 if len(reference) else 0,
        prefix_key=hashlib.sha256(reference.tobytes()).hexdigest() if len(reference) else "",
    )


def with_space(prompt_text: str) -> str:
    """A transcript as the text after it needs it: the two are joined as they are."""
    is_spaced = prompt_text and unicodedata.east_asian_width(prompt_text[-1]) not in "WF"
    return f"{prompt_text} " if is_spaced else prompt_text
