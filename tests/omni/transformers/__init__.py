"""A stand-in for the package transformers: a token for each character."""

from __future__ import annotations

from typing import Any


class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, folder: str, **given: Any) -> AutoTokenizer:
        return cls()

    def __call__(self, text: str, padding: bool = False) -> dict[str, list[int]]:
        return {"input_ids": [ord(char) for char in text]}
