"""A checkpoint's JSON files, checked for types and ranges before anything is made of them.

A block of such a file is a frozen dataclass whose annotations say type and range; msgspec compares.
The ranges are wide: they stop what would take the machine's memory or divide by zero. Whether sizes
are those of the weights is seen where the weights are read. Knows no family, and no torch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from voxcli.errors import CheckpointError, reason_of

logger = logging.getLogger(__name__)

MAX_BYTES = 64 << 20  # of a JSON file; vocabularies take some 10 MB

MAX_SHOWN = 60  # characters of a foreign value in a message

Size = Annotated[int, Meta(ge=1, le=2**16)]  # width, heads, codebooks, entries of one codebook
NumLayers = Annotated[int, Meta(ge=1, le=1000)]
NumPositions = Annotated[int, Meta(ge=1, le=2**18)]
VocabularySize = Annotated[int, Meta(ge=1, le=2**22)]
TokenId = Annotated[int, Meta(ge=0, lt=2**22)]
Stride = Annotated[int, Meta(ge=1, le=1000)]  # of a convolution, or its kernel or dilation
Strides = Annotated[tuple[Stride, ...], Meta(min_length=1, max_length=12)]
SampleRate = Annotated[int, Meta(ge=1000, le=1_000_000)]  # Hz
Epsilon = Annotated[float, Meta(gt=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=1e12)]
NotNegative = Annotated[float, Meta(ge=0, le=1e12)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A block of a file.

    Attributes:
        fixed: fields whose default is the one value that is supported.
        ignored: keys that are read elsewhere, or of no effect at inference. Other keys that are no
            fields are logged.
    """

    fixed: ClassVar[tuple[str, ...]] = ()
    ignored: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for name in self.fixed:
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(f"{name} {getattr(self, name)!r} is not supported")

    @classmethod
    def read(cls, values: object, where: str) -> Self:
        """From parsed JSON.

        Args:
            where: what the file, or the block, is called in messages.

        Raises:
            CheckpointError: a field is missing, of another type, out of range or not supported.
        """
        try:
            found = msgspec.convert(values, cls)
        except msgspec.ValidationError as err:
            what, _, place = str(err).partition(" - at `$")
            field = place.strip(".`")
            raise CheckpointError(f"{where}: {field}{': ' if field else ''}{what}") from err
        except UnicodeEncodeError as err:  # JSON can say half of a surrogate pair
            assert isinstance(values, Mapping)
            names = [name for name, value in values.items() if not _is_text(value)]
            message = f"{where}: {', '.join(map(repr, names))}: {err.object!r} is no valid text"
            raise CheckpointError(message) from err
        _log_unknown(values, found, where)
        return found


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        CheckpointError: not there, no regular file, too large, or no JSON object.
    """
    try:
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path} is not a regular file")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise CheckpointError(f"{path} cannot be read: it has {size / 1e6:,.0f} MB")
        values = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as err:
        raise CheckpointError(f"{path} cannot be read: {reason_of(err)}") from err
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return values


@contextmanager
def read_by_library(files: str) -> Iterator[None]:
    """What a library raises at a damaged file is a CheckpointError that names it.

    Of tokenizers that is a bare Exception for most faults, and for some a panic of Rust, which is
    no Exception.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as err:
        raise CheckpointError(f"{files} cannot be read: {reason_of(err)}") from err


def shown(value: object) -> str:
    """A value of any kind in a message: in quotes, short, printable."""
    text = str(value)
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")


def require(is_right: bool, message: str) -> None:
    """Raise ValueError, which `Settings.read` turns into a message that names the block."""
    if not is_right:
        raise ValueError(message)


def _is_text(value: object) -> bool:
    try:
        return bool(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return False


def _log_unknown(values: Any, found: Settings, where: str) -> None:
    known = {each.name for each in fields(found)}
    if unknown := sorted(set(values) - known - found.ignored):
        logger.info("%s has keys voxcli does not use: %s", where, unknown)
    for name in known & set(values):
        block = getattr(found, name)
        if isinstance(block, Settings) and isinstance(values[name], Mapping):
            _log_unknown(values[name], block, f"{where}: {name}")
