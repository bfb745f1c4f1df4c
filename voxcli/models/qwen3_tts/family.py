"""Qwen3-TTS as the engine sees it before a model is loaded: facts, files, parameters. No torch.

A checkpoint is of one of three kinds, and can do what its kind can: preset voices, voices designed
in words, or cloning. Only the models of 12 frames a second; those of 25 are refused by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.models.base import GraphKey, ModelFacts, ModelFamily, Published, SpeechModel
from voxcli.models.qwen3_tts.names import (
    BASE,
    CUSTOM_VOICE,
    GENERATION,
    LANGUAGES,
    SPEECH_TOKENIZER,
    VOICE_DESIGN,
)
from voxcli.parameters import Parameter, Value, parameter
from voxcli.utterance import Mode

if TYPE_CHECKING:
    import torch

    from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
    from voxcli.models.qwen3_tts.sizes import GenerationConfig
    from voxcli.models.served import ServedModel

logger = logging.getLogger(__name__)

MODES = {
    CUSTOM_VOICE: (Mode.ZERO_SHOT,),
    VOICE_DESIGN: (Mode.ZERO_SHOT,),
    BASE: (Mode.REFERENCE, Mode.CONTINUATION, Mode.BOTH),
}


# Of the CustomVoice checkpoints, as their model cards have them
PRESETS = ("vivian", "serena", "uncle_fu", "dylan", "eric", "ryan", "aiden", "ono_anna", "sohee")
NAME = "Qwen/Qwen3-TTS-12Hz-"


_SPEECH_TOKENIZER_GB = 0.68  # in every checkpoint, beside its own weights


def _published(
    tail: str, modes: tuple[Mode, ...], what: str, size_gb: float, voices: tuple[str, ...] = ()
) -> Published:
    size, languages = round((size_gb + _SPEECH_TOKENIZER_GB) * 1e9), tuple(LANGUAGES)
    title = f"Qwen3-TTS, {tail.partition('B-')[0]} billion parameters, {what}"
    return Published(f"{NAME}{tail}", modes, title, "Apache-2.0", size, languages, voices)


@dataclass(frozen=True)
class Parameters:
    """What Qwen3-TTS can be told; defaults are the official package's.

    A frame is 16 codes: the talker draws the first, the code predictor the others.
    """

    temperature: float = parameter(
        0.9,
        "Sampling temperature of the first code of a frame",
        minimum=0.05,
        maximum=2,
        note="lower is steadier",
    )
    top_k: int = parameter(
        50, "Number of the most likely first codes to sample from", minimum=1, maximum=1000
    )
    top_p: float = parameter(
        1.0, "Total probability of the first codes to sample from", minimum=0.05, maximum=1
    )
    repetition_penalty: float = parameter(
        1.05,
        "Penalty for first codes that were sampled before",
        minimum=1,
        maximum=2,
        note="1 is off",
    )
    predictor_temperature: float = parameter(
        0.9,
        "Sampling temperature of the other codes of a frame",
        minimum=0.05,
        maximum=2,
        aliases=("subtalker_temperature",),
    )
    predictor_top_k: int = parameter(
        50,
        "Number of the most likely other codes to sample from",
        minimum=1,
        maximum=1000,
        aliases=("subtalker_top_k",),
    )
    predictor_top_p: float = parameter(
        1.0,
        "Total probability of the other codes to sample from",
        minimum=0.05,
        maximum=1,
        aliases=("subtalker_top_p",),
    )
    is_greedy: bool = parameter(False, "Always take the most likely code")
    is_text_streamed: bool = parameter(
        False, "Give the text to the model one token a frame, instead of whole before the speech"
    )


class Qwen3TTSFamily(ModelFamily):
    """See `ModelFamily` for the contract of each method."""

    name = "qwen3_tts"
    parameters = Parameters
    # NOTE: of paths, since base names stand for two files each
    parts = {  # noqa: RUF012
        "weights": ("model.safetensors", "model.safetensors.index.json"),
        "vocabulary": ("vocab.json",),
        "merges": ("merges.txt",),
        "speech_tokenizer_config": (SPEECH_TOKENIZER,),
        "speech_tokenizer": (
            "speech_tokenizer/model.safetensors",
            "speech_tokenizer/model.safetensors.index.json",
        ),
    }
    extras = (GENERATION, "model-*.safetensors", "speech_tokenizer/model-*.safetensors")
    published = (
        _published("0.6B-CustomVoice", MODES[CUSTOM_VOICE], "preset voices", 1.81, PRESETS),
        _published(
            "1.7B-CustomVoice",
            (*MODES[CUSTOM_VOICE], Mode.STYLE),
            "preset voices, styles",
            3.83,
            PRESETS,
        ),
        _published("1.7B-VoiceDesign", (*MODES[VOICE_DESIGN], Mode.STYLE), "voice design", 3.83),
        _published("0.6B-Base", MODES[BASE], "cloning", 1.83),
        _published("1.7B-Base", MODES[BASE], "cloning", 3.86),
    )
    # the vector of a voice is made by weights of the main file
    encoder_parts = ("config.json", "weights", "speech_tokenizer_config", "speech_tokenizer")

    def instead_of(self, name: str) -> str | None:
        if "qwen3-tts-25hz" not in name.lower():
            return None
        tail = name.lower().rpartition("25hz")[2]
        twins = [each.name for each in self.published if each.name.lower().endswith(tail)]
        return (twins or [each.name for each in self.published])[0]

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return config.get("model_type") == self.name

    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        sizes = _sizes(folder, config)
        return ModelFacts(
            family=self.name,
            sample_rate=sizes.sample_rate,
            reference_sample_rate=sizes.sample_rate,
            parameters=self._declaration_of(sizes),
            languages=tuple(code for code, name in LANGUAGES.items() if name in sizes.languages),
            modes=(*MODES[sizes.kind], *((Mode.STYLE,) if sizes.has_style else ())),
            voices=tuple(sizes.speakers),
        )

    def served_here(self, folder: Path, config: Mapping[str, Any]) -> ServedModel | None:
        from voxcli.models.qwen3_tts.served import TASKS

        sizes = _sizes(folder, config)
        size = sizes.size.replace("b", ".")  # "0b6"
        return self.served(f"qwen3-tts-{size}b-{TASKS[sizes.kind]}")

    def can_say(self, folder: Path) -> Callable[[str], bool]:
        return lambda character: True  # there is a token for each byte

    def served(self, name: str) -> ServedModel | None:
        if not name.lower().replace("_", "-").startswith("qwen3-tts"):
            return None
        from voxcli.models.qwen3_tts.served import served

        return served(name, self.name, self.declaration)

    def graph_key(self, parameters: Parameters) -> GraphKey:
        return parameters.is_greedy, parameters.is_greedy  # of talker, of code predictor

    def cheapest(self, parameters: Parameters) -> Parameters:
        return Parameters(is_greedy=parameters.is_greedy)  # the others are row inputs

    def load(
        self, folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
    ) -> SpeechModel:
        from voxcli.models.qwen3_tts.loading import load

        return load(folder, device, dtype, is_native=is_native)

    def load_shapes(self, folder: Path, dtype: torch.dtype) -> SpeechModel:
        from voxcli.models.qwen3_tts.loading import load_shapes

        return load_shapes(folder, dtype)

    def load_random(
        self, config: Mapping[str, Any], folder: Path, device: torch.device, dtype: torch.dtype,
        *, is_native: bool = True,
    ) -> SpeechModel:  # fmt: skip
        from voxcli.models.qwen3_tts.loading import random_model
        from voxcli.models.qwen3_tts.tokenize import tokenizer_for_random

        sizes = _sizes(folder, config)
        tokenizer = tokenizer_for_random(folder, sizes)
        return random_model(sizes, device, dtype, tokenizer=tokenizer, is_native=is_native)

    def _declaration_of(self, config: Qwen3TTSConfig) -> tuple[Parameter, ...]:
        """The parameters with the checkpoint's defaults."""
        defaults = _defaults(config.generation, is_text_streamed=config.kind == BASE)
        return tuple(_with_default(each, defaults[each.name]) for each in self.declaration)


def _sizes(folder: Path, config: Mapping[str, Any]) -> Qwen3TTSConfig:
    from voxcli.models.qwen3_tts.config import Qwen3TTSConfig  # takes 25 ms

    return Qwen3TTSConfig.beside(folder, config)


def _defaults(generation: GenerationConfig, *, is_text_streamed: bool) -> dict[str, Value]:
    """What the official package does with a checkpoint: it clones with the text streamed."""
    return {
        "temperature": generation.temperature,
        "top_k": generation.top_k,
        "top_p": generation.top_p,
        "repetition_penalty": generation.repetition_penalty,
        "predictor_temperature": generation.subtalker_temperature,
        "predictor_top_k": generation.subtalker_top_k,
        "predictor_top_p": generation.subtalker_top_p,
        "is_greedy": not (generation.do_sample or generation.subtalker_dosample),
        "is_text_streamed": is_text_streamed,
    }


def _with_default(declared: Parameter, value: Value) -> Parameter:
    """The parameter with a file's default, or with the nearest in its range."""
    if declared.minimum is None or declared.maximum is None:
        return replace(declared, default=bool(value))
    # NOTE: 0 is how transformers writes "as many as there are"
    wanted = declared.maximum if declared.type is int and value == 0 else value
    nearest = declared.type(min(max(wanted, declared.minimum), declared.maximum))
    if nearest != value:
        logger.warning("%s: %s is %s, used as %s", GENERATION, declared.name, value, nearest)
    return replace(declared, default=nearest)
