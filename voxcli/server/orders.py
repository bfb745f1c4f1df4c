"""What clients of the WebSocket say, read from its frames.

The names are those of vLLM-Omni's speech stream, `response.cancel` that of OpenAI's realtime API.
Knows no speech.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from voxcli.server.failures import ApiError, refused
from voxcli.server.schema import MAX_CHARACTERS

OVERHEAD = 100  # what a message weighs besides its text
MAX_SHOWN = 40  # characters of what a client sent, in a message to it


class Kind(StrEnum):
    """The `type` of a message."""

    CONFIG = "session.config"
    TEXT = "input.text"
    FLUSH = "input.flush"
    DONE = "input.done"
    CANCEL = "response.cancel"
    CLOSE = "session.close"


OF_SPEECH = (Kind.TEXT, Kind.FLUSH, Kind.DONE)  # what `CANCEL` undoes


@dataclass
class Order:
    """One message.

    Attributes:
        kind: None where it means nothing, which `error` explains.
        texts: of `TEXT`, as they came; of `CANCEL`, what it took back before it was spoken.
        fields: of `CONFIG`.
        weight: for an `Backlog`: characters; 0 for text without any.
    """

    kind: Kind | None
    texts: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    error: ApiError | None = None
    weight: int = OVERHEAD

    def join(self, newest: Order) -> bool:
        """Let text go with the text before it."""
        if not self.kind is newest.kind is Kind.TEXT:
            return False
        newest.texts += self.texts
        return True


def order_of(text: str | None) -> Order:
    """What a frame says.

    Args:
        text: None for a frame of bytes.
    """
    try:
        return _read(text)
    except ApiError as err:
        return Order(None, error=err)


def _read(text: str | None) -> Order:
    if text is None:
        raise refused("a message is JSON in a text frame; this frame is binary", code="json")
    try:
        fields = json.loads(text)  # NOTE: msgspec refuses half of a surrogate pair
    except (ValueError, RecursionError) as err:
        raise refused(f"the message is not JSON: {str(err)[:200]}", code="json") from err
    if not isinstance(fields, dict):
        raise refused("the message is no JSON object", code="json")
    name = fields.pop("type", None)
    if name not in tuple(Kind):
        known = ", ".join(Kind)
        shown = repr(name)[:MAX_SHOWN]
        raise refused(f"the message's type is {shown}; there are {known}", param="type")
    kind = Kind(name)
    if kind is Kind.TEXT:
        said = fields.get("text")
        if not isinstance(said, str):
            raise refused("'text' is missing, or no string", param="text")
        if len(said) > MAX_CHARACTERS:
            raise refused(
                f"'text' has {len(said):,} characters, {MAX_CHARACTERS:,} are allowed at once",
                param="text",
            )
        return Order(kind, [said], weight=len(said))
    if kind is Kind.CONFIG:
        return Order(kind, fields=fields, weight=max(OVERHEAD, len(text)))
    return Order(kind)
