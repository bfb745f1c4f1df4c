"""Whether a row of letters is a word of a language, by the lists of pyspellchecker.

They hold inflected words and common names, and no acronyms. A list is read when it is first asked,
which takes a moment. Knows no grammar and no spelling beyond its lists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spellchecker import SpellChecker

LANGUAGES = frozenset(["en", "es", "fr", "it", "pt", "ru"])


def is_word(letters: str, language: str = "en") -> bool:
    """Whether the list of the language has it, in any case.

    Args:
        language: one of `LANGUAGES`.
    """
    return letters in _list_of(language)


@lru_cache(maxsize=len(LANGUAGES))
def _list_of(language: str) -> SpellChecker:
    from spellchecker import SpellChecker  # 0.1 s to read a list, which few texts need

    return SpellChecker(language=language)
