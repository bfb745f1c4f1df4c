"""Text to ids: one token a character, as the exported `tokenizer.json` has it too."""

from __future__ import annotations

import string
from typing import Any

SPACE = "▁"  # before a text, and for each space
SPECIAL = {
    0: "<unk>", 1: "<s>", 2: "</s>", 101: "<|audio_start|>", 102: "<|audio_end|>",
    103: "<|audio_prompt_start|>", 104: "<|audio_prompt_end|>",
}  # fmt: skip
AUDIO_START, AUDIO_END, REFERENCE_START, REFERENCE_END = 101, 102, 103, 104
SPACE_ID = 3
ASCII = string.printable[:94]
TRAINED = (*sorted(ASCII), "—", "é")
FOLDED = {
    "–": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "…": ".", "è": "e", "ê": "e", "ë": "e",
    "à": "a", "â": "a", "ä": "a", "á": "a", "ã": "a", "å": "a", "ç": "c", "í": "i", "ì": "i",
    "î": "i", "ï": "i", "ñ": "n", "ó": "o", "ò": "o", "ô": "o", "ö": "o", "õ": "o", "ú": "u",
    "ù": "u", "û": "u", "ü": "u", "ý": "y", "ÿ": "y", "É": "E", "À": "A", "Ä": "A", "Ç": "C",
    "Ö": "O", "Ü": "U", "Ñ": "N", "ø": "o", "ß": "s", "«": '"', "»": '"',
}  # fmt: skip


def vocabulary(size: int) -> dict[str, int]:
    """Characters, special tokens and names for the ids that are left, in the order of ids."""
    ids = {SPACE: SPACE_ID} | {token: number for number, token in SPECIAL.items()}
    free = (number for number in range(SPACE_ID + 1, size) if number not in SPECIAL)
    for character in (*TRAINED, *FOLDED):
        ids[character] = next(free)
    ids |= {f"<|unused_{number}|>": number for number in free}
    return dict(sorted(ids.items(), key=lambda pair: pair[1]))


class Tokens:
    def __init__(self, size: int) -> None:
        self.ids = vocabulary(size)

    def __call__(self, text: str) -> list[int]:
        return [SPACE_ID, *(self.ids.get(each, 0) for each in text.replace(" ", SPACE))]


def tokenizer_json(size: int) -> dict[str, Any]:
    """What the `tokenizers` library reads."""
    added = [
        {
            "id": number, "content": token, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True,
        }
        for number, token in sorted(SPECIAL.items())
    ]  # fmt: skip
    prepend = {"type": "Prepend", "prepend": SPACE}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [prepend, replace]},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "Fuse"}, strip]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": SPECIAL[0],
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary(size),
            "merges": [],
        },
    }  # fmt: skip
