"""Errors as HTTP: a `VoxError` or a bad request to a status and a body in OpenAI's shape.

    {"error": {"message": "...", "type": "invalid_request_error", "param": "speed", "code": null}}

It knows no route.
"""

from __future__ import annotations

import os
import re
from typing import Any

from voxcli.config import data_dir
from voxcli.errors import (
    BusyError,
    DeviceError,
    EngineError,
    ModelError,
    OutputError,
    OutputExistsError,
    SynthesisError,
    TextError,
    UnavailableError,
    UsageError,
    VoiceFileError,
    VoiceNotFoundError,
    VoxError,
)
from voxcli.models import all_parameters
from voxcli.parameters import option_of
from voxcli.server.worker import RETRY_AFTER_S

# The first class that fits. What a user can cause is never a 5xx: a text that no attempt turned
# into good speech is one of those, hence 422.
_STATUS: tuple[tuple[type[VoxError], int, str, str], ...] = (
    (BusyError, 429, "rate_limit_error", "busy"),
    (UnavailableError, 503, "server_error", "unavailable"),
    (OutputExistsError, 409, "invalid_request_error", "exists"),
    (VoiceFileError, 400, "invalid_request_error", "voice_damaged"),
    (VoiceNotFoundError, 400, "invalid_request_error", "voice_not_found"),
    (UsageError, 400, "invalid_request_error", "invalid_value"),
    (OutputError, 507, "server_error", "storage"),
    (SynthesisError, 422, "synthesis_error", "refused"),
    (EngineError, 503, "server_error", "engine_failed"),
    (DeviceError, 503, "server_error", "engine_failed"),
    (ModelError, 503, "server_error", "engine_failed"),
)
_SAME_NAME = ("seed", "speed", "language", "retries", "max_seconds")  # as option and as field
# The parameter that an error is about where its message does not begin with one.
_PARAMS: tuple[tuple[type[VoxError], str], ...] = (
    (VoiceNotFoundError, "voice"),
    (VoiceFileError, "voice"),
    (TextError, "input"),
)
# Words of the command line -> what a client of the HTTP interface has in their place.
_WORDS = {
    "'voxcli voices list'": "GET /v1/audio/voices",
    "'voxcli models list'": "GET /v1/models",
    "write to a file": "leave 'stream' out",
}
# What only somebody at a shell can follow; a hint with any of it is left out.
_SHELL = re.compile(r"--?[a-z]|voxcli|stdin|\b(pip|run|upgrade|install)\b")


class ApiError(Exception):
    """A refusal that only HTTP knows: no key, no such model, a body that is too large."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, kind, param, code)


def refused(message: str, *, code: str = "invalid_value", param: str | None = None) -> ApiError:
    """For a request that cannot be followed as it is."""
    return ApiError(400, message, code=code, param=param)


def error_body(message: str, kind: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def explain(error: VoxError) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers."""
    status, kind, code = next(
        ((status, kind, code) for cls, status, kind, code in _STATUS if isinstance(error, cls)),
        (500, "server_error", "failed"),
    )
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
    param = _param(error)
    message = http_message(error, is_passing=status in (429, 503))
    if isinstance(error, OutputError):  # nothing that a client did, or could do about it
        message = "the server cannot write its files; see its log"
    return status, error_body(message, kind, param, code), headers


def _param(error: VoxError) -> str | None:
    """The field that an error is about: the option that it begins with, or what its class says, or
    the first parameter of a model that it names, as where no graph was captured for some."""
    by_option = _fields().get(error.message.partition(" ")[0])
    by_class = next((name for cls, name in _PARAMS if isinstance(error, cls)), None)
    if by_option or by_class or not isinstance(error, UsageError):
        return by_option or by_class
    parameters = {each.name for each in all_parameters()}
    return next((word for word in re.findall(r"\w+", error.message) if word in parameters), None)


def _fields() -> dict[str, str]:
    """Options of the command line -> the fields of a request."""
    names = (*_SAME_NAME, *(each.name for each in all_parameters()))
    return {"--style": "instructions", **{option_of(name): name for name in names}}


def http_message(error: VoxError, *, is_passing: bool = False) -> str:
    """Message and hint in words that an HTTP client can follow.

    Args:
        is_passing: the same request may succeed later.
    """
    message, hint = _in_http(error.message), _in_http(error.hint or "")
    if _SHELL.search(hint):
        hint = f"try again in {RETRY_AFTER_S} s" if is_passing else ""
    return f"{message}; {hint}" if hint else message


def _in_http(text: str) -> str:
    text = text.replace(f"{data_dir()}{os.sep}", "")  # where a user's files are is their business
    words = {**_WORDS, **{option: f"'{field}'" for option, field in _fields().items()}}
    longest_first = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return re.sub(rf"(?:{longest_first})(?![\w-])", lambda found: words[found[0]], text)


def explain_bytes(error: UnicodeDecodeError) -> dict[str, Any]:
    """A body that is no text."""
    what = f"byte 0x{error.object[error.start]:02x} at offset {error.start} is not"
    return error_body(
        f"the body must be JSON in UTF-8; {what}", "invalid_request_error", None, "json"
    )
