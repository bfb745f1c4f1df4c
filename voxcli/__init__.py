"""voxcli: text to speech from a terminal, and the engine behind it.

Importing this package imports no torch; the public names load on first use.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

# Idle threads of the CPU engine sleep after a moment instead of spinning: a spinning thread that
# has to share its core stops every product. Read when torch is imported, so it stands here.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__version__ = "0.1.0"

_EXPORTS = {
    "AudioChunk": "voxcli.utterance",
    "EngineConfig": "voxcli.config",
    "FinishReason": "voxcli.utterance",
    "Plan": "voxcli.plan",
    "Recording": "voxcli.utterance",
    "Result": "voxcli.utterance",
    "SamplingParams": "voxcli.config",
    "SpeechEngine": "voxcli.engine.base",
    "Utterance": "voxcli.utterance",
    "VoiceEncoding": "voxcli.utterance",
    "VoxError": "voxcli.errors",
    "open_engine": "voxcli.engine.choose",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'voxcli' has no attribute '{name}'")
    return getattr(import_module(_EXPORTS[name]), name)
