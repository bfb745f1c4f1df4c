"""Voice profiles: a recording that was checked once, its encodings for models, and where they lie.

Nothing here encodes or knows a model; models are told apart by a checksum that the caller gives.
Imports no torch, but for `likeness`, which nothing else here does.
"""

from voxcli.voices.file import MAX_TEXT_CHARS, SUFFIX, read_voice, voice_bytes
from voxcli.voices.profile import Voice, check_name
from voxcli.voices.store import VoiceStore

__all__ = [
    "MAX_TEXT_CHARS",
    "SUFFIX",
    "Voice",
    "VoiceStore",
    "check_name",
    "read_voice",
    "voice_bytes",
]
