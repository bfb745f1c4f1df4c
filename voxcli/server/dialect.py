"""How requests are read whose client was written for another server: by the names it uses, and
without the fields that mean nothing here.

Such a field is named in a header of the answer, and once in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from voxcli.config import UserSettings

logger = logging.getLogger(__name__)

IGNORED = "X-Ignored-Fields"
MAX_NAMED = 20  # fields in one header
MAX_CHARS = 64  # of a field's name
MAX_LOGGED = 100  # names, in the life of a server


@dataclass(frozen=True)
class Dialect:
    """See the module.

    Attributes:
        models: other names of the served model.
        voices: other names of voices, and what each stands for; a voice that has such a name itself
            goes before.
        is_strict: fields that mean nothing here are refused.
    """

    models: tuple[str, ...] = UserSettings.model_aliases
    voices: Mapping[str, str] = field(default_factory=lambda: UserSettings().voice_aliases)
    is_strict: bool = False
    _logged: set[str] = field(init=False, repr=False, compare=False, default_factory=set)

    def voice(self, name: str) -> str | None:
        """What a name stands for, whatever its case; None where it is no other name."""
        by_name = {other.casefold(): target for other, target in self.voices.items()}
        return by_name.get(name.casefold())

    def names_of(self, voice: str) -> list[str]:
        """The other names of a voice."""
        wanted = voice.casefold()
        return sorted(name for name, target in self.voices.items() if target.casefold() == wanted)

    def headers(self, ignored: Iterable[str]) -> dict[str, str]:
        """The header about fields that were ignored; those that are new are logged too."""
        names = [in_header(name[:MAX_CHARS]) for name in ignored]
        for name in names[:MAX_NAMED]:
            if name not in self._logged and len(self._logged) < MAX_LOGGED:
                self._logged.add(name)
                logger.warning(
                    "the field '%s' of a speech request is ignored, which is logged once; "
                    "--strict-fields refuses the field",
                    name,
                )
        if len(names) > MAX_NAMED:
            names[MAX_NAMED:] = ["..."]
        return {IGNORED: ", ".join(names)} if names else {}


def in_header(text: str) -> str:
    """A name as a header can have it: what is no ASCII, or means something there, is escaped."""
    return quote(text, safe="/ ()[]'")
