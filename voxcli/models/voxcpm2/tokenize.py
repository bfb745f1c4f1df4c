"""Text to token ids as VoxCPM2 was trained: no start or end token, Chinese one character a token.

Source: OpenBMB/VoxCPM `model/utils.py` (Apache-2.0): a vocabulary entry of two or more Chinese
characters is replaced by its single characters; the word-start mark before it is dropped.
"""

from __future__ import annotations

import math
from pathlib import Path

from tokenizers import Tokenizer

from voxcli.errors import CheckpointError
from voxcli.models.settings import read_by_library

WORD_START = "▁"
AUDIO_START = 101  # the text is over, speech begins
REFERENCE_START = 103
REFERENCE_END = 104
TOKENS_PER_CHARACTER = 0.3  # of a large English vocabulary


def _is_chinese(token: str) -> bool:
    return all("\u4e00" <= character <= "\u9fff" for character in token)


class TextTokenizer:
    """The checkpoint's tokenizer with the Chinese split.

    Attributes:
        num_ids: one more than the largest id.

    Raises:
        CheckpointError: tokenizer.json is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        path = self._path = folder / "tokenizer.json"
        with read_by_library(str(path)):
            self._tokenizer = Tokenizer.from_file(str(path))
        vocabulary = self._tokenizer.get_vocab()
        self.num_ids = 1 + max(vocabulary.values(), default=0)
        self._unknown = vocabulary.get("<unk>", 0)
        self._split: dict[int, list[int]] = {}
        for token, token_id in vocabulary.items():
            clean = token.replace(WORD_START, "")
            if len(clean) >= 2 and _is_chinese(clean) and clean in vocabulary:
                self._split[token_id] = [vocabulary.get(char, self._unknown) for char in clean]

    def require_room(self, vocab_size: int) -> None:
        """Raise CheckpointError where the model has fewer ids than the tokenizer."""
        wanted = max(self.num_ids, REFERENCE_END + 1)
        if wanted > vocab_size:
            raise CheckpointError(
                f"{self._path} has {wanted:,} ids, config.json says vocab_size {vocab_size:,}"
            )

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for token_id in self._tokenizer.encode(text, add_special_tokens=False).ids:
            ids.extend(self._split.get(token_id, (token_id,)))
        return ids

    def can_say(self, character: str) -> bool:
        """Whether the character has a token of its own, or bytes to fall back to."""
        return self._unknown not in self.encode(character)


class StandInTokenizer:
    """Ids within the vocabulary, as many as a real tokenizer would make; they mean nothing."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        count = max(1, math.ceil(TOKENS_PER_CHARACTER * len(text)))
        return [ord(char) % self._vocab_size for char in text[:count]]

    def can_say(self, character: str) -> bool:
        return True


def tokenizer_for_random(folder: Path, vocab_size: int) -> TextTokenizer | StandInTokenizer:
    """The folder's tokenizer, else the stand-in."""
    if (folder / "tokenizer.json").is_file():
        return TextTokenizer(folder)
    return StandInTokenizer(vocab_size)
