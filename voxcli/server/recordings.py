"""Recordings that clients send: checked, and heard once where several requests bring the same.

Nothing is fetched and no file is opened for a client.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from collections import OrderedDict
from dataclasses import asdict
from datetime import UTC, datetime

from voxcli.errors import RecordingError
from voxcli.voices import Voice

MAX_UPLOAD_S = 60.0  # of a recording; of one that is too long to be used whole the best part is
MAX_KEPT = 8  # recordings that came with requests, up to 6 MB of samples each
SCHEME = "data:"
MAX_HEAD = 200  # characters before the data itself


def hear(data: bytes, text: str, *, name: str = "", consent: str = "") -> Voice:
    """A recording that passed its checks, as a voice without encodings.

    Args:
        text: its transcript; empty where it is not known.

    Raises:
        RecordingError: no model can use it.
    """
    from voxcli.audio.read import decode_audio
    from voxcli.audio.reference import add_transcript, prepare_reference

    has_text = bool(text.strip())
    recording, report = prepare_reference(
        decode_audio(data, "the recording", max_s=MAX_UPLOAD_S), has_text=has_text
    )
    if has_text:
        recording, report = add_transcript(recording, report, text)
    return Voice(
        name=name,
        recording=recording,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        consent=consent.strip(),
        facts={**asdict(report), "transcript": recording.text},
    )


def data_of(uri: str) -> bytes:
    """What a `data:` URI carries; its media type is not looked at, since the bytes say it.

    Raises:
        RecordingError: it is not in base64.
    """
    head, comma, encoded = uri.partition(",")
    if not comma or len(head) > MAX_HEAD or not head.lower().endswith(";base64"):
        raise RecordingError(
            "the recording is not a base64 data URI", hint="send data:audio/wav;base64,…"
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as err:
        raise RecordingError(f"the recording is not base64: {err}") from err


def key_of(uri: str, text: str) -> str:
    """What makes two recordings of requests the same."""
    return hashlib.sha256(f"{len(text)} {text} {uri}".encode("utf-8", "surrogatepass")).hexdigest()


class Heard:
    """The voices of the last recordings that came with requests. Any thread may use it."""

    def __init__(self) -> None:
        self._voices: OrderedDict[str, Voice] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Voice | None:
        """The voice of a recording that was kept; it is the newest again."""
        with self._lock:
            if key in self._voices:
                self._voices.move_to_end(key)
            return self._voices.get(key)

    def keep(self, key: str, voice: Voice) -> None:
        """Keep one, and let go of the oldest."""
        with self._lock:
            self._voices[key] = voice
            self._voices.move_to_end(key)
            while len(self._voices) > MAX_KEPT:
                self._voices.popitem(last=False)
