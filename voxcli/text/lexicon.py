"""Whether a row of letters is a word of a language, by the lists of pyspellchecker.

They hold inflected words and common names, and no acronyms. A list is read when it is first asked,
which takes a moment. Knows no grammar and no spelling beyond its lists.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

LANGUAGES = frozenset(["en", "es", "fr", "it", "pt", "ru"])


def is_word(letters: str, language: str = "en") -> bool:
    """Whether the list of the language has it, in any case.

    Args:
        language: one of `LANGUAGES`.
    """
    return letters.lower() in _words_of(language)


@lru_cache(maxsize=len(LANGUAGES))
def _words_of(language: str) -> frozenset[str]:
    """The keys of the list's JSON, read as what stands between quotation marks.

    The package itself takes four times as long, to count words that nobody asks it for.
    """
    package = find_spec("spellchecker")
    assert package is not None, "pyspellchecker is a dependency"
    assert package.submodule_search_locations, package
    path = Path(package.submodule_search_locations[0]) / "resources" / f"{language}.json.gz"
    return frozenset(gzip.decompress(path.read_bytes()).decode().split('"')[1::2])
