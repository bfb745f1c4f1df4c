"""The families that the contract is proved for, each with a checkpoint in its own layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import TINY, write_random_checkpoint
from otherfamily import ChimesFamily, write_checkpoint
from qwen3_tts import tiny

from voxcli.models.base import ModelFamily
from voxcli.models.data import PromptParts
from voxcli.models.qwen3_tts.family import Qwen3TTSFamily
from voxcli.models.voxcpm2.family import VoxCPM2Family
from voxcli.utterance import Use


def _write_voxcpm2(folder: Path) -> Path:
    write_random_checkpoint(folder, TINY, 11)
    return folder


def _write_qwen3_tts(folder: Path) -> Path:
    return tiny.write(folder, "base_1b7")  # the kind that imitates recordings


WRITERS: dict[str, Callable[[Path], Path]] = {
    "voxcpm2": _write_voxcpm2, "chimes": write_checkpoint, "qwen3_tts": _write_qwen3_tts
}  # fmt: skip
FAMILIES: dict[str, ModelFamily] = {
    "voxcpm2": VoxCPM2Family(), "chimes": ChimesFamily(), "qwen3_tts": Qwen3TTSFamily()
}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A family under test.

    Attributes:
        model: loaded from `folder`, in fp32 on the CPU, in torch's own operations.
    """

    family: ModelFamily
    folder: Path
    model: Any

    def prompt_of(self, num_words: int, drawn: np.random.Generator) -> Any:
        """A text of so many words, half of them in a voice."""
        reference = None
        if drawn.random() < 0.5:
            rate = self.model.info.reference_sample_rate
            samples = drawn.normal(scale=0.1, size=rate // int(drawn.integers(5, 12)))
            reference = self.model.encode_recording(samples.astype(np.float32), Use.REFERENCE)
        text = " ".join(drawn.choice(["at", "nine", "I"], num_words))
        return self.model.make_prompt(PromptParts(text, "en", reference=reference))

    def prompts(self) -> list[Any]:
        """Two texts, the same two in a voice, and one in another voice."""
        info, model = self.model.info, self.model
        arrays = []
        for pitch in (100, 180):
            time = np.arange(info.reference_sample_rate // 10) / info.reference_sample_rate
            samples = (0.3 * np.sin(2 * np.pi * pitch * time)).astype(np.float32)
            arrays.append(model.encode_recording(samples, Use.REFERENCE))
        texts = ("Hello there.", "The tide turns at nine.")
        return [
            *(model.make_prompt(PromptParts(text, "en")) for text in texts),
            *(model.make_prompt(PromptParts(text, "en", reference=arrays[0])) for text in texts),
            model.make_prompt(PromptParts(texts[0], "en", reference=arrays[1])),
        ]
