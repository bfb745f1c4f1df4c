"""What an answer without speech means: the one table from HTTP to errors.

| answer | error |
|---|---|
| 429; 503 with Retry-After or a full queue | `BusyError` |
| 5xx, 408; 400 "Speech generation failed: …" of vLLM-Omni before 0.30 | `UnavailableError` |
| 401, 403 | `NotServedError` that names `VOXCLI_API_KEY` |
| 404, 405, redirects | `NotServedError` with the server's own words |
| every other 4xx | `UsageError` with the server's own words |

Words of a server are shown in one line, without control characters, and not at any length.
"""

from __future__ import annotations

import email.utils
import json
import math
import time
from collections.abc import Mapping

from voxcli.errors import BusyError, NotServedError, UnavailableError, UsageError, VoxError

MAX_SHOWN = 300  # characters of a server's words
MAX_RETRY_S = 600.0
KEY_HINT = "set VOXCLI_API_KEY to the server's"

_INTERNAL = "Speech generation failed"
_NO_AUDIO = "did not produce audio"
_FULL = ("queue is full", "overloaded", "at capacity")


def in_one_line(text: str) -> str:
    """Words of a server, as a message may show them."""
    words = " ".join(text[: 4 * MAX_SHOWN].split())
    shown = "".join(char if char.isprintable() else "?" for char in words)
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…"


def message_in(body: bytes) -> str:
    """What a body of JSON, or of a few words, says went wrong; empty where it says nothing."""
    try:
        found = json.loads(body)
        for key in ("error", "detail", "message"):
            if isinstance(found, dict) and found.get(key):
                found = found[key]
        said = found if isinstance(found, str) else json.dumps(found) if found else ""
    except (ValueError, RecursionError):
        said = body[: 4 * MAX_SHOWN].decode("utf-8", "replace")
        if said.lstrip().startswith("<"):  # a page for people
            return ""
    return in_one_line(said)


def is_without_audio(status: int, body: bytes) -> bool:
    """Whether the model made no sound, which another seed may."""
    return status == 400 and _NO_AUDIO in message_in(body)


def failure(status: int, headers: Mapping[str, str], body: bytes, name: str) -> VoxError:
    """The error that an answer is.

    Args:
        body: its beginning.
        name: what messages call the server.
    """
    said = message_in(body)
    shown = f"{status}: {said}" if said else str(status)
    if status in (401, 403):
        return NotServedError(f"{name} refuses the key ({shown})", hint=KEY_HINT)
    retry_s = _retry_after_s(headers.get("retry-after", ""))
    is_full = status == 503 and (retry_s is not None or any(w in said.lower() for w in _FULL))
    if status == 429 or is_full:
        return BusyError(f"{name} has no room now ({shown})", retry_after_s=retry_s)
    if status >= 500 or status == 408 or (status == 400 and said.startswith(_INTERNAL)):
        return UnavailableError(f"{name} failed ({shown})")
    if 300 <= status < 400:
        where = in_one_line(headers.get("location", "elsewhere"))
        return NotServedError(f"{name} sends its clients to {where}", hint="give that address")
    kind = NotServedError if status in (404, 405) else UsageError
    return kind(f"{name} refuses it ({shown})")


def _retry_after_s(value: str) -> float | None:
    """Seconds, or a date, to seconds from now."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_S) if math.isfinite(seconds) else None
