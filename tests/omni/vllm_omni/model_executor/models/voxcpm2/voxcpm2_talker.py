"""Prompts of VoxCPM2 as vllm_omni 0.26 counts them."""

from __future__ import annotations

import math
from typing import Any

PATCH = 2560


def build_cjk_split_map(tokenizer: Any) -> dict[int, list[int]]:
    return {}


def build_voxcpm2_prompt(
    hf_config: Any, tokenizer: Any, split_map: dict[int, list[int]], text: str,
    ref_audio: list[float] | None = None, ref_sr: int | None = None,
    ref_text: str | None = None, voice_profile: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    length = len(text) + 1
    information: dict[str, Any] = {"text_token_ids": [list(range(len(text)))], "text": text}
    if ref_audio is not None:
        assert isinstance(ref_audio, list), "crosses processes"
        assert ref_sr == 16_000
        assert len(ref_audio) % PATCH == 0, "another length would end the engine"
        assert ref_text != "", "an empty transcript would end the engine"
        length += math.ceil(len(ref_audio) / PATCH)
        if ref_text is None:
            information["reference_audio"] = [[ref_audio, ref_sr]]
        else:
            information |= {"prompt_audio": [[ref_audio, ref_sr]], "prompt_text": [ref_text]}
    return {"prompt_token_ids": [1] * length, "additional_information": information}
