"""A segment as vLLM-Omni's engine takes it: a prompt of exactly the right length.

The length is a promise: a VoxCPM2 prompt of another one ends vLLM-Omni's engine, a Qwen3-TTS prompt
gives bad audio. Both are counted by the package's own functions, over recordings in whole frames.
Forms: vllm_omni 0.26.0, `voxcpm2_talker.build_voxcpm2_prompt` and
`serving_speech._build_qwen3_tts_request`, the same in 0.30.0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from voxcli.engine.calls import SegmentCall
from voxcli.engine.clips import whole_clip
from voxcli.models.served import ServedModel
from voxcli.utterance import Mode, Recording, Use

Prompt = dict[str, Any]
MAX_CLIPS = 8  # recordings that are kept as lists, 15 MB for 30 s


class Prompts(ABC):
    """Prompts of one model.

    Args:
        served: how it is asked.
        hf_config: the model's configuration, as the package reads it.
        tokenizer: of the checkpoint.
    """

    def __init__(self, served: ServedModel, hf_config: Any, tokenizer: Any) -> None:
        self._served = served
        self._hf_config = hf_config
        self._tokenizer = tokenizer
        self._clips: dict[tuple[str, Use], list[float]] = {}

    @abstractmethod
    def __call__(self, call: SegmentCall) -> Prompt:
        """The prompt of a segment."""

    def _fields(self, call: SegmentCall) -> dict[str, Any]:
        plan = call.plan
        return self._served.fields(plan.utterance, call.text, plan.text.language, plan.parameters)

    def _samples(self, recording: Recording, use: Use) -> list[float]:
        """A recording at the model's rate, in whole frames, as a list that crosses processes."""
        key = recording.key, use
        if key not in self._clips:
            if len(self._clips) == MAX_CLIPS:
                self._clips.pop(next(iter(self._clips)))
            rate = self._served.facts.reference_sample_rate
            clip = whole_clip(recording, use, rate, self._served.whole_samples)
            self._clips[key] = clip.tolist()
        return self._clips[key]


class VoxCPM2Prompts(Prompts):
    """Prompts of VoxCPM2."""

    def __init__(self, served: ServedModel, hf_config: Any, tokenizer: Any) -> None:
        from vllm_omni.model_executor.models.voxcpm2.voxcpm2_talker import (
            build_cjk_split_map,
            build_voxcpm2_prompt,
        )

        super().__init__(served, hf_config, tokenizer)
        self._build: Callable[..., Prompt] = build_voxcpm2_prompt
        self._split_map = build_cjk_split_map(tokenizer)

    def __call__(self, call: SegmentCall) -> Prompt:
        utterance, text = call.plan.utterance, self._fields(call)["input"]
        rate = self._served.facts.reference_sample_rate
        given: dict[str, Any] = {}
        if utterance.prompt is not None:
            given = {
                "ref_audio": self._samples(utterance.prompt, Use.PROMPT),
                "ref_sr": rate,
                "ref_text": call.plan.prompt_text,
            }
        elif utterance.reference is not None:
            given = {"ref_audio": self._samples(utterance.reference, Use.REFERENCE), "ref_sr": rate}
        prompt = self._build(self._hf_config, self._tokenizer, self._split_map, text, **given)
        if utterance.prompt is None and utterance.reference is not None:
            # by this name the model remembers what it heard; with a transcript it would hear other
            # features under the same name
            prompt["additional_information"]["voice_name"] = utterance.reference.key
        return prompt


class Qwen3TTSPrompts(Prompts):
    """Prompts of Qwen3-TTS; every value stands in a list of its own."""

    def __init__(self, served: ServedModel, hf_config: Any, tokenizer: Any) -> None:
        from vllm.inputs import tokens_input
        from vllm_omni.model_executor.models.qwen3_tts.prompt_embeds_builder import (
            Qwen3TTSPromptEmbedsBuilder,
        )

        super().__init__(served, hf_config, tokenizer)
        self._tokens_input: Callable[..., Prompt] = tokens_input
        builder = Qwen3TTSPromptEmbedsBuilder
        self._length: Callable[..., int] = builder.estimate_prompt_len_from_additional_information

    def __call__(self, call: SegmentCall) -> Prompt:
        utterance, fields = call.plan.utterance, self._fields(call)
        told: dict[str, Any] = {
            "text": fields["input"],
            "task_type": fields["task_type"],
            "language": fields.get("language", "Auto"),
            "instruct": fields.get("instructions", ""),
            "max_new_tokens": self._served.limit(call.max_frames),
        }
        if utterance.mode is Mode.ZERO_SHOT and utterance.voice not in (None, "default"):
            told["speaker"] = str(utterance.voice).lower()
        use = Use.PROMPT if utterance.prompt is not None else Use.REFERENCE
        recording = utterance.prompt or utterance.reference
        if recording is not None:
            rate = self._served.facts.reference_sample_rate
            samples = self._samples(recording, use)
            told["ref_audio"] = [samples, rate]
            told["ref_code_length"] = math.ceil(len(samples) / rate / self._served.frame_s)
            told["x_vector_only_mode"] = use is Use.REFERENCE
            if use is Use.PROMPT:
                told["ref_text"] = call.plan.prompt_text
        information = {name: [value] for name, value in told.items()}
        talker = self._hf_config.talker_config
        length = self._length(
            information,
            task_type=fields["task_type"],
            tokenize_prompt=lambda text: self._tokenizer(text, padding=False)["input_ids"],
            codec_language_id=getattr(talker, "codec_language_id", None),
            spk_is_dialect=getattr(talker, "spk_is_dialect", None),
        )
        prompt = self._tokens_input(prompt_token_ids=[1] * length)
        prompt["additional_information"] = information
        return prompt


PROMPTS: dict[str, type[Prompts]] = {"voxcpm2": VoxCPM2Prompts, "qwen3_tts": Qwen3TTSPrompts}
