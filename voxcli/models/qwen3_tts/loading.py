"""A checkpoint folder, or a configuration alone, to a loaded model.

Keys of the main file have their own names here; those of the speech tokenizer's file have the
prefix `speech_tokenizer.`. What turns recordings and codes into samples and back is fp32 whatever
the dtype: the official package's is that of the talker only where it is told so.
"""

from __future__ import annotations

from pathlib import Path

import torch

from voxcli.models.qwen3_tts import code2wav, encoder, speaker
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.family import Qwen3TTSFamily
from voxcli.models.qwen3_tts.model import Qwen3TTS
from voxcli.models.qwen3_tts.names import BASE
from voxcli.models.qwen3_tts.tokenize import TextTokenizer, load_tokenizer
from voxcli.models.sources import CheckpointSource, RandomSource, ShapeSource

SPEECH_TOKENIZER = "speech_tokenizer."
FILES = {
    "": Qwen3TTSFamily.parts["weights"],
    SPEECH_TOKENIZER: Qwen3TTSFamily.parts["speech_tokenizer"],
}
FP32 = (SPEECH_TOKENIZER, speaker.PREFIX)
UNUSED = (*code2wav.UNUSED, *encoder.UNUSED, *speaker.UNUSED)
UNHEARD = (f"{encoder.PREFIX}*",)  # of a checkpoint that takes no recordings
# scales of random weights, so that nothing vanishes or overflows
NEAR_ONE = ("*norm*", "*cluster_usage", "*scale", "*gamma")
NEVER = 2**40  # codes 0 before the end: more than there will be


def load(
    folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
) -> Qwen3TTS:
    """Load the official files; every weight is used or the load fails.

    Args:
        is_native: use compiled kernels on a CPU where there are any.

    Raises:
        CheckpointError: missing, damaged or surplus parts, by name.
    """
    config = Qwen3TTSConfig.load(folder)
    tokenizer = load_tokenizer(folder, config)
    unused = UNUSED if config.kind == BASE else (*UNUSED, *UNHEARD)
    with torch.inference_mode():
        source = CheckpointSource(folder, FILES, device, dtype, fp32=FP32, unused=unused)
        source.is_native = is_native
        model = Qwen3TTS(config, source, tokenizer)
        source.finish()
    return model


def load_shapes(folder: Path, dtype: torch.dtype) -> Qwen3TTS:
    """A model without weights, to learn which kernels the model of a folder needs."""
    with torch.inference_mode():
        config = Qwen3TTSConfig.load(folder).shortened()
        return Qwen3TTS(config, ShapeSource(dtype, fp32=FP32), None)


def random_model(
    config: Qwen3TTSConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    tokenizer: TextTokenizer | None = None,
    seed: int = 0,
    is_native: bool = True,
) -> Qwen3TTS:
    """A model of that size with random weights: for speed and for tests, never for sound.

    It never ends its speech.
    """
    with torch.inference_mode():
        source = RandomSource(device, dtype, seed, fp32=FP32, ones=NEAR_ONE)
        source.is_native = is_native
        model = Qwen3TTS(config, source, tokenizer)
        model.talker.min_tokens = NEVER
        return model
