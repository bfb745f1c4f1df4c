"""VoxCPM2 as vLLM-Omni serves it: what a request can carry there. No torch.

Solver steps and guidance are fixed in its code. It takes one recording, to imitate or, with a
transcript, to continue; the length of a prompt has to be right to the sample, so recordings come in
whole patches.
"""

from __future__ import annotations

from voxcli.models.base import ModelFacts
from voxcli.models.served import Fields, ServedModel
from voxcli.parameters import Values
from voxcli.utterance import Mode, Utterance

SAMPLE_RATE, REFERENCE_RATE = 48_000, 16_000  # Hz
PATCH_S = 0.16
FRAMES_TOGETHER = 3  # `vae_decode_every` of its deploy file; seen with 0.26.0
MODES = (Mode.ZERO_SHOT, Mode.REFERENCE, Mode.CONTINUATION, Mode.STYLE)
# NOTE: recording and transcript share one timeline with the speech; a longer one cuts it short
MAX_TOLD_S = 10.0


def served(family: str) -> ServedModel:
    """The one model of this family."""
    return ServedModel(
        ModelFacts(family, SAMPLE_RATE, REFERENCE_RATE, modes=MODES),
        PATCH_S,
        _fields,
        whole_samples=round(PATCH_S * REFERENCE_RATE),
        frames_together=FRAMES_TOGETHER,
        max_told_s=MAX_TOLD_S,
        seeds_since=(0, 30),
    )


def _fields(utterance: Utterance, text: str, language: str, parameters: Values) -> Fields:
    style = utterance.style.strip()
    return {"input": f"({style}){text}" if style else text}
