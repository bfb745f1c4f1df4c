"""Lengths of Qwen3-TTS prompts as vllm_omni 0.26 asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Qwen3TTSPromptEmbedsBuilder:
    @staticmethod
    def estimate_prompt_len_from_additional_information(
        additional_information: dict[str, Any] | None, *, task_type: str,
        tokenize_prompt: Callable[[str], list[int]], codec_language_id: Any, spk_is_dialect: Any,
        estimate_ref_code_len: Any = None,
    ) -> int:  # fmt: skip
        assert additional_information is not None
        assert all(isinstance(each, list) for each in additional_information.values())
        if "ref_text" in additional_information:
            assert "ref_code_length" in additional_information
        return len(tokenize_prompt(additional_information["text"][0]))
