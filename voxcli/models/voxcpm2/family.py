"""VoxCPM2 as the engine sees it before a model is loaded: facts, files, parameters. No torch.

Also what the family cannot combine: it takes a style as words in brackets before the text, so a
style and speech to continue cannot be used together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.errors import UsageError
from voxcli.models.base import ArrayLoader, GraphKey, ModelFacts, ModelFamily, SpeechModel
from voxcli.parameters import parameter
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    import torch

    from voxcli.models.served import ServedModel

UNGUIDED = 1.0


@dataclass(frozen=True)
class Parameters:
    """What VoxCPM2 can be told; defaults are the official package's."""

    steps: int = parameter(10, "Steps that refine each piece of audio", minimum=2, maximum=100)
    guidance_scale: float = parameter(
        2.0,
        "Strength of the guidance by text and voice",
        minimum=0,
        maximum=10,
        note="1 is unguided and fastest",
        aliases=("cfg",),
    )

    @property
    def is_guided(self) -> bool:
        """Whether the unconditional half is computed."""
        return self.guidance_scale != UNGUIDED


class VoxCPM2Family(ModelFamily):
    """See `ModelFamily` for the contract of each method."""

    name = "voxcpm2"
    parameters = Parameters
    parts = {  # noqa: RUF012
        "weights": ("model.safetensors", "pytorch_model.bin"),
        "vae": ("audiovae.safetensors", "audiovae.pth"),
        "tokenizer": ("tokenizer.json",),
    }
    extras = ("tokenizer_config.json", "special_tokens_map.json")
    encoder_parts = ("config.json", "vae")

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return str(config.get("architecture", "")).lower() == self.name

    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        from voxcli.models.voxcpm2.config import VoxCPM2Config

        vae = VoxCPM2Config.from_dict(config).vae
        return ModelFacts(self.name, vae.out_sample_rate, vae.sample_rate, self.declaration)

    def can_say(self, folder: Path) -> Callable[[str], bool]:
        from voxcli.models.voxcpm2.tokenize import TextTokenizer

        return TextTokenizer(folder).can_say

    def served(self, name: str) -> ServedModel | None:
        if not name.lower().replace("-", "").startswith(self.name):
            return None
        from voxcli.models.voxcpm2.served import served

        return replace(served(self.name), check=self.check)

    def check(self, utterance: Utterance) -> Utterance:
        style = utterance.style.strip()
        if not style:
            return utterance
        if any(char in style for char in "()（）"):
            raise UsageError(f"the style '{style}' has parentheses", hint="write it without them")
        if utterance.continuity:
            raise UsageError(
                "a style in words and continuity cannot be used together",
                hint="drop --style or --continuity",
            )
        if utterance.prompt is None:
            return utterance
        if utterance.voice not in (None, "default"):  # a saved voice: the reference alone will do
            return replace(utterance, prompt=None)
        raise UsageError(
            "--style and speech to continue cannot be used together",
            hint="drop --style, or the transcript and the audio to continue",
        )

    def graph_key(self, parameters: Parameters) -> GraphKey:
        return parameters.steps, parameters.is_guided

    def cheapest(self, parameters: Parameters) -> Parameters:
        # two solver steps are one evaluation of the velocity, and all evaluations are alike
        return Parameters(steps=2) if parameters.is_guided else Parameters(2, UNGUIDED)

    def load(
        self, folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
    ) -> SpeechModel:
        from voxcli.models.voxcpm2.loading import load

        return load(folder, device, dtype, is_native=is_native)

    def array_loader(self) -> ArrayLoader:
        from voxcli.models.voxcpm2.array_model import load

        return load

    def load_shapes(self, folder: Path, dtype: torch.dtype) -> SpeechModel:
        from voxcli.models.voxcpm2.loading import load_shapes

        return load_shapes(folder, dtype)

    def load_random(
        self, config: Mapping[str, Any], folder: Path, device: torch.device, dtype: torch.dtype,
        *, is_native: bool = True,
    ) -> SpeechModel:  # fmt: skip
        from voxcli.models.voxcpm2.config import VoxCPM2Config
        from voxcli.models.voxcpm2.loading import random_model
        from voxcli.models.voxcpm2.tokenize import tokenizer_for_random

        sizes = VoxCPM2Config.from_dict(config)
        tokenizer = tokenizer_for_random(folder, sizes.lm.vocab_size)
        return random_model(sizes, device, dtype, tokenizer=tokenizer, is_native=is_native)
