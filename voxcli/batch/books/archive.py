"""The files in an EPUB's zip archive, read with bounds on their size.

Nothing is unpacked onto the disk, so no name in the archive can lead out of a folder. What a file
takes is counted while it is unpacked: sizes in the archive's own tables may be wrong.
"""

from __future__ import annotations

import lzma
import posixpath
import unicodedata
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from voxcli.closing import Closing
from voxcli.errors import UsageError, hint_for_file, reason_of

MAX_FILE = 64 << 20  # bytes; the longest novels are 5 MB in all
MAX_TOTAL = 512 << 20  # of all files that are read
MAX_FILES = 50_000
_BLOCK = 1 << 20
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError),  # kinds of packing, passwords, bad headers
    MemoryError,  # a dictionary of 4 GiB
)


class Target(NamedTuple):
    """What a link leads to: the name of a file, empty for none, and a place in the file."""

    name: str
    fragment: str


class Archive(Closing):
    """An EPUB's archive, open.

    Raises:
        UsageError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = MAX_TOTAL
        try:
            self._zip = zipfile.ZipFile(path)
        except _BROKEN as err:
            if isinstance(err, OSError) and err.strerror:  # says nothing of what is in it
                raise UsageError(
                    f"cannot read {path}: {reason_of(err)}", hint=hint_for_file(path, "check INPUT")
                ) from err
            hint = "get the book again; a book in another format can be converted by Calibre"
            raise UsageError(
                f"{path} cannot be read as an EPUB: {reason_of(err)}", hint=hint
            ) from err
        names = self._zip.namelist()
        if len(names) > MAX_FILES:
            self.close()
            raise UsageError(
                f"{path} has {len(names)} files; an EPUB may have {MAX_FILES}",
                hint="check what it is",
            )
        self._names = {_folded(name): name for name in reversed(names) if not name.endswith("/")}

    def close(self) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """In the order of the archive."""
        return list(reversed(self._names.values()))

    def __contains__(self, name: str) -> bool:
        return _folded(name) in self._names

    def target(self, base: str, link: str) -> Target:
        """What a link in the file `base` leads to."""
        address, _, fragment = link.strip().partition("#")
        fragment = unquote(fragment)
        if not address:
            return Target(base, fragment)
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(address)))
        return Target(self._names.get(_folded(joined.lstrip("/")), ""), fragment)

    def read(self, name: str) -> bytes:
        """A file's bytes.

        Raises:
            UsageError: it is missing, broken, locked by a password, or larger than it may be.
        """
        known = self._names.get(_folded(name))
        if known is None:
            raise UsageError(f"{self.path} has no file {name}", hint="get the book again")
        parts: list[bytes] = []
        size = 0
        try:
            with self._zip.open(known) as file:
                while block := file.read(_BLOCK):
                    size += len(block)
                    self._left -= len(block)
                    if size > MAX_FILE or self._left < 0:
                        raise self._too_large(known)
                    parts.append(block)
        except _BROKEN as err:
            raise UsageError(
                f"{self.path}: {known} cannot be unpacked: {reason_of(err)}",
                hint="get the book again",
            ) from err
        return b"".join(parts)

    def _too_large(self, name: str) -> UsageError:
        return UsageError(
            f"{self.path}: {name} is larger than a book may be: {MAX_FILE >> 20} MiB a file, "
            f"{MAX_TOTAL >> 20} MiB in all",
            hint="check what it is",
        )


def _folded(name: str) -> str:
    """What makes two names the same: archives are also made where case does not matter."""
    return unicodedata.normalize("NFC", name).casefold()
