"""Whether a row of letters is a word of a language, by the lists of pyspellchecker.

They hold inflected words and common names, and no acronyms. A list is read when it is first asked,
which takes a moment. Knows no grammar and no spelling beyond its lists.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

LANGUAGES = frozenset(["en", "es", "fr", "it", "pt", "ru"])
COMMON = 8000  # times in the English list, as hardly a family's name is: "ford" 861, "man" 1552515


def is_word(letters: str, language: str = "en") -> bool:
    """Whether the list of the language has it, in any case.

    Args:
        language: one of `LANGUAGES`.
    """
    return letters.lower() in _words_of(language)


def is_common(letters: str) -> bool:
    """Whether English texts have it so often, in any case, that it is no mere name."""
    return letters.lower() in _common_words()


@lru_cache(maxsize=1)
def _common_words() -> frozenset[str]:
    found: dict[str, int] = json.loads(_list_of("en"))
    return frozenset(word for word, count in found.items() if count >= COMMON)


@lru_cache(maxsize=len(LANGUAGES))
def _words_of(language: str) -> frozenset[str]:
    """The keys of the list's JSON, read as what stands between quotation marks.

    The package itself takes four times as long, to count words that nobody asks it for.
    """
    return frozenset(_list_of(language).split('"')[1::2])


def _list_of(language: str) -> str:
    """JSON: each word, and how often it was counted."""
    package = find_spec("spellchecker")
    assert package is not None, "pyspellchecker is a dependency"
    assert package.submodule_search_locations, package
    path = Path(package.submodule_search_locations[0]) / "resources" / f"{language}.json.gz"
    return gzip.decompress(path.read_bytes()).decode()
