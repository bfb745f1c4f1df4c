"""Files, kinds of checkpoints and languages of Qwen3-TTS, by name."""

from __future__ import annotations

CONFIG = "config.json"
GENERATION = "generation_config.json"
SPEECH_TOKENIZER = "speech_tokenizer/config.json"

CUSTOM_VOICE, VOICE_DESIGN, BASE = "custom_voice", "voice_design", "base"

# ISO 639-1 to the name that the checkpoint's table has, the most trained first
LANGUAGES = {
    "en": "english", "zh": "chinese", "ja": "japanese", "ko": "korean", "fr": "french",
    "de": "german", "es": "spanish", "it": "italian", "pt": "portuguese", "ru": "russian",
}  # fmt: skip
