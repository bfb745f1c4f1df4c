"""Text to token ids: byte BPE from `vocab.json` and `merges.txt`, in the model's chat template.

Control strings are of no effect in a text: the special tokens are not given to the tokenizer, so
that "<|im_end|>" is spelled out in plain tokens. The official package turns it into the id that
ends a text; otherwise the ids are the same.

Source: the Qwen2 tokenizer of transformers 4.57.3 (Apache-2.0): NFC, its split pattern, bytes; the
templates of QwenLM/Qwen3-TTS@022e286b `qwen_tts/inference/qwen3_tts_model.py`. NOTE: the official
package may replace the split pattern by Mistral's where it loads a local folder; this is the
model's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from voxcli.errors import CheckpointError
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.settings import read_by_library

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPEAKER, DIRECTOR = "assistant", "user"  # roles: who speaks, who says how
TOKENS_PER_CHARACTER = 0.25  # of a large vocabulary, in English
NUM_BYTES = 256  # tokens that no merge makes
MAX_ADDED = 0.01  # of the vocabulary: tokens that are added to it and that no text becomes

Encode = Callable[[str], list[int]]


class TextTokenizer:
    """Texts and instructions to ids.

    Args:
        encode: plain text to ids; a role and the line end after it are two.

    Attributes:
        opening: ids that every text begins with.

    Raises:
        CheckpointError: the vocabulary is another model's.
    """

    def __init__(self, config: Qwen3TTSConfig, encode: Encode) -> None:
        self._config, self._encode = config, encode
        role = encode(f"{SPEAKER}\n")
        if len(role) != 2 or role[0] != config.assistant_token_id:
            raise CheckpointError(
                f"vocab.json and config.json do not match: '{SPEAKER}' has the ids {role[:-1]}, "
                f"assistant_token_id is {config.assistant_token_id}"
            )
        self.opening = [config.im_start_token_id, *role]
        self._newline = role[1]

    def body(self, text: str) -> list[int]:
        """A text's own ids, without what the template has around them."""
        # NOTE: encoded behind the role, since a line end joins those before it to one token
        return self._encode(f"{SPEAKER}\n{text}")[2:]

    def instruction(self, style: str) -> list[int]:
        """How it should sound, in words: the template's ids as well."""
        config, ids = self._config, self._encode(f"{DIRECTOR}\n{style}")
        return [config.im_start_token_id, *ids, config.im_end_token_id, self._newline]

    def can_say(self, character: str) -> bool:
        """Any character: there is a token for each byte."""
        return True


def load_tokenizer(folder: Path, config: Qwen3TTSConfig) -> TextTokenizer:
    """The checkpoint's.

    Raises:
        CheckpointError: a file is missing or damaged, or of another model.
    """
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    with read_by_library(f"{vocabulary} or {merges.name}"):
        model = models.BPE.from_file(str(vocabulary), str(merges))
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    size, rows = tokenizer.get_vocab_size(), config.talker.text_vocab_size
    if size > rows:
        raise CheckpointError(f"{vocabulary} has {size:,} entries, the model has {rows:,}")
    _check_merges(merges, size)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return TextTokenizer(config, encode)


def _check_merges(merges: Path, vocabulary_size: int) -> None:
    """Refuse a file that was cut: each token but the 256 bytes is made by a merge, and without it
    texts would become other tokens than the model was trained on."""
    lines = merges.read_bytes().splitlines()
    found = sum(bool(line) and not line.startswith(b"#version") for line in lines)
    needed = vocabulary_size - NUM_BYTES
    if found < needed - MAX_ADDED * vocabulary_size:
        raise CheckpointError(
            f"{merges} has {found:,} merges, its vocabulary needs {needed:,}: a part is missing",
            hint="download it again",
        )


def tokenizer_for_random(folder: Path, config: Qwen3TTSConfig) -> TextTokenizer:
    """The folder's tokenizer, else one whose ids are as many as real ones and mean nothing."""
    if (folder / "vocab.json").is_file():
        return load_tokenizer(folder, config)
    plain = min(config.im_start_token_id, config.assistant_token_id, config.talker.text_vocab_size)

    def encode(text: str) -> list[int]:
        _, _, rest = text.partition("\n")
        count = math.ceil(TOKENS_PER_CHARACTER * len(rest))
        return [config.assistant_token_id, 0, *(ord(char) % plain for char in rest[:count])]

    return TextTokenizer(config, encode)
