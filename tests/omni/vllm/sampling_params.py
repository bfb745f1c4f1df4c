"""Parameters of a stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class RequestOutputKind(Enum):
    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass
class SamplingParams:
    max_tokens: int = 16
    seed: int | None = None
    temperature: float = 0.0
    top_k: int = -1
    top_p: float = 1.0
    stop_token_ids: list[int] = field(default_factory=lambda: [1])
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    extra_args: dict[str, Any] | None = None
