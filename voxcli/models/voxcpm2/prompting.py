"""What a loaded VoxCPM2 does before it computes anything: prompts and facts. No torch.

Letters: `A` audio positions, `P` latent vectors a patch, `D` latent width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from voxcli.errors import CheckpointError
from voxcli.models.data import Input, ModelInfo, PromptKind, PromptParts
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.family import Parameters, VoxCPM2Family
from voxcli.models.voxcpm2.prompt import AUDIO, TEXT, Prompt, lay_out, with_space
from voxcli.models.voxcpm2.tokenize import StandInTokenizer, TextTokenizer
from voxcli.utterance import Use

MIN_PATCHES = 4  # the official loop ignores the stop head for its first three patches
NUM_WARM_PATCHES = 3  # prompt patches the vocoder hears before it continues a prompt
CHUNK_PATCHES = 4  # 0.64 s: fewer, larger vocoder calls; more gains little
NOISE_BLOCK = 64  # steps of noise drawn at once: on CPU they take little longer than 16

GUIDANCE = Input("guidance_scale", "float32")
PROMPT_KINDS = (
    PromptKind(TEXT, (64, 128, 256, 384, 512, 768, 1024, 1536, 2048)),
    PromptKind(AUDIO, (128, 256)),
)


class Prompting(ABC):
    """The parts of `models.base.SpeechModel` that need no weights.

    Args:
        num_parameters: weights in all.
    """

    family = VoxCPM2Family()
    row_inputs = (GUIDANCE,)
    prompt_kinds = PROMPT_KINDS

    def __init__(
        self,
        config: VoxCPM2Config,
        tokenizer: TextTokenizer | StandInTokenizer | None,
        num_parameters: int,
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.patch_shape = (config.patch_size, config.feat_dim)
        self.info = ModelInfo(
            family=self.family.name,
            sample_rate=config.vae.out_sample_rate,
            reference_sample_rate=config.vae.sample_rate,
            hop_length=config.patch_size * config.vae.decoder_hop,
            max_positions=config.max_positions,
            min_frames=MIN_PATCHES,
            num_parameters=num_parameters,
            first_chunk=1,
            chunk=CHUNK_PATCHES,
        )

    # ------------------------------------------------------------ prompts

    def make_prompt(self, parts: PromptParts) -> Prompt:
        reference = None if parts.reference is None else parts.reference[Use.REFERENCE]
        continued = None if parts.prompt is None else parts.prompt[Use.PROMPT]
        style = parts.style.strip()
        return self.encode_prompt(
            f"({style}){parts.text}" if style else parts.text,
            reference=reference,
            prompt_text=with_space(parts.prompt_text),
            prompt_audio=continued,
        )

    def encode_prompt(
        self,
        text: str,
        *,
        reference: np.ndarray | None = None,
        prompt_text: str = "",
        prompt_audio: np.ndarray | None = None,
    ) -> Prompt:
        """Lay out a prompt.

        Args:
            reference: latents `[A, P, D]` of the voice to imitate.
            prompt_text, prompt_audio: transcript and latents `[A, P, D]` of speech to continue.
        """
        if self.tokenizer is None:
            raise CheckpointError("this model has no tokenizer files, so it cannot take a text")
        none = np.zeros((0, *self.patch_shape), np.float32)
        return lay_out(
            self.tokenizer.encode(prompt_text + text),
            none if reference is None else reference,
            none if prompt_audio is None else prompt_audio,
        )

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        return {str(use): self.encode_audio(samples, pad_left=use is Use.PROMPT)}

    def can_take(self, arrays: Mapping[str, np.ndarray], use: Use) -> bool:
        found = arrays.get(use)
        return (
            found is not None
            and found.ndim == 3
            and found.shape[1:] == self.patch_shape
            and found.dtype == np.float32
        )

    def encode_audio(self, samples: np.ndarray, *, pad_left: bool = False) -> np.ndarray:
        """Latents `[A, P, D]` of samples.

        Args:
            pad_left: complete the first patch instead of the last, as speech to continue needs.
        """
        P = self.config.patch_size
        missing = -len(samples) % (P * self.config.vae.encoder_hop)
        padded = np.pad(samples, (missing, 0) if pad_left else (0, missing))
        latents = self._encode(padded.astype(np.float32))
        return latents.reshape(-1, *self.patch_shape)

    @abstractmethod
    def _encode(self, samples: np.ndarray) -> np.ndarray:
        """Latents `[T, D]` of float32 `[S]`, S a multiple of the encoder's hop."""

    def can_say(self, character: str) -> bool:
        return self.tokenizer is not None and self.tokenizer.can_say(character)

    def kind_of(self, prompt: Prompt, start: int, end: int) -> str:
        has_audio = len(prompt.patches) and prompt.is_audio[start:end].any()
        return AUDIO if has_audio else TEXT

    def row_values(self, prompt: Prompt, parameters: Parameters, step: int) -> Sequence[float]:
        return (parameters.guidance_scale,)
