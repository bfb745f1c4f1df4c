"""Regular expressions that are compiled when they are first used.

The rules have five hundred, which together take a tenth of a second to compile; an ordinary
sentence asks a tenth of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


class LatePattern:
    """Has the attributes of `re.Pattern`, from the first look at any of them on."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # found nowhere else, so once for each name
        if name.startswith("__"):  # copies and the like ask for what a pattern lacks
            raise AttributeError(name)
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def pattern_of(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile`, but late: what is wrong with the pattern shows at its first use."""
    return cast("re.Pattern[str]", LatePattern(pattern, flags))
