"""What the fixture `models` gives: a loaded model by the name of its tiny checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from voxcli.models.qwen3_tts.model import Qwen3TTS

Models = Callable[[str], Qwen3TTS]
