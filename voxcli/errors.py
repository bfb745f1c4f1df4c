"""Every error a user can cause, with the exit code it ends the process with.

`raise` one of these for what a user, a file, a checkpoint or a device can cause; `assert` is for
voxcli's own invariants. The command line turns a `VoxError` into one line on stderr and its exit
code; any other exception is a bug and keeps its traceback. The codes: `docs/exit-codes.md`.

This module knows nothing about the command line, audio or torch.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

EXIT_OK = 0
EXIT_ITEM_FAILED = 1
EXIT_USAGE = 2
EXIT_MODEL = 3
EXIT_DEVICE = 4
EXIT_OUTPUT = 5
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_SHORTEST_INSIDE = 4  # letters of a name that is looked for inside of another
_NEAR_FILE = 0.81  # suffixes make all file names alike


class VoxError(Exception):
    """Base of all expected failures.

    Args:
        message: what failed, with the value that was given.
        hint: what to do or type next; shown after the message.
    """

    exit_code = EXIT_ITEM_FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class SynthesisError(VoxError):
    """Speech was generated but refused: silent, NaN, runaway, no end; after all retries.

    Args:
        finish_reason: of the last attempt, where one was made.
        attempts: tries in all.
    """

    exit_code = EXIT_ITEM_FAILED

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        finish_reason: str | None = None,
        attempts: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.finish_reason = finish_reason
        self.attempts = attempts


class UsageError(VoxError):
    """An option, an argument or an input that cannot work as given."""

    exit_code = EXIT_USAGE


class NotServedError(UsageError):
    """A server takes nothing of this kind from us: its key, its address or its model is another."""


class TextError(UsageError):
    """The text is empty, undecodable, or in a language the model does not speak."""


class RecordingError(UsageError):
    """A reference recording that cannot be used (too short, silent, not audio)."""


class VoiceNotFoundError(UsageError):
    """No voice of that name for this model."""


class ModelError(VoxError):
    """Model or assets: missing, damaged, of an unknown architecture, wrong checksum."""

    exit_code = EXIT_MODEL


class ModelNotFoundError(ModelError):
    """The model's files are not on this machine."""


class CheckpointError(ModelError):
    """The files are there but do not form a usable checkpoint."""


class VoiceFileError(ModelError):
    """A voice profile's file is missing, damaged or of a later version."""


class DeviceError(VoxError):
    """The asked device is not there or not usable (compute or sound)."""

    exit_code = EXIT_DEVICE


class MissingPackageError(DeviceError):
    """A Python package is not installed; the hint says what to type."""


class EngineError(VoxError):
    """The engine failed while running: out of memory, a device fault, a broken promise."""

    exit_code = EXIT_DEVICE


class EngineFaultError(EngineError):
    """The engine failed in the middle of a step: only a fresh process can run anything more."""


class UnavailableError(EngineFaultError):
    """A server's engine, to those who ask it: not loaded yet, stopping, failed, or gone.

    Args:
        had_begun: whether it was at work on what it was asked; None where it was asked, and nothing
            is known of it.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, had_begun: bool | None = True
    ) -> None:
        super().__init__(message, hint=hint)
        self.had_begun = had_begun


class BusyError(EngineError):
    """A server has no room for more now; the same may be asked again in a moment.

    Args:
        retry_after_s: when, where the server says so.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class AdmissionError(UsageError):
    """A request that cannot fit the engine's static state; the message has the numbers."""


class OutputError(VoxError):
    """The result could not be written."""

    exit_code = EXIT_OUTPUT


class OutputExistsError(UsageError):
    """The output file exists and `--overwrite` was not given."""


def kind_of(exit_code: int) -> type[VoxError]:
    """What a voxcli that ended with a code had met; an EngineError where it does not tell."""
    kinds = (UsageError, ModelError, OutputError)
    return next((kind for kind in kinds if kind.exit_code == exit_code), EngineError)


def reason_of(err: BaseException) -> str:
    """Why the system or a library refused, to stand behind a colon: it begins in small letters."""
    if isinstance(err, OSError) and err.strerror:
        return str(err.strerror).lower()
    text = str(err) or type(err).__name__
    is_word = text[1:2].islower() or not text[1:2].isalpha()
    return text[:1].lower() + text[1:] if is_word else text


def told_apart(value: float, limit: float, digits: int = 1) -> tuple[str, str]:
    """Both as text, with the digits that show which of them is greater: 5.14 and 5.12, not 5.1."""
    is_short = float(f"{limit:g}") == limit
    for count in range(digits, 10):
        texts = f"{value:.{count}f}", f"{limit:g}" if is_short else f"{limit:.{count}f}"
        is_seen = float(texts[0]) != 0 or value == 0
        if is_seen and (value == limit or float(texts[0]) != float(texts[1])):
            break
    return texts


def nearest(name: str, known: Iterable[str]) -> str:
    """`"did you mean 'alba'? "` for the nearest known name, or an empty string.

    Upper and lower case are the same; a name that holds a known one is near: "en-US-AlbaNeural".
    """
    typed, names = name.casefold(), {each.casefold(): each for each in reversed([*known])}
    matches = difflib.get_close_matches(typed, names, n=1, cutoff=0.5)
    matches += [each for each in names if len(each) >= _SHORTEST_INSIDE and each in typed]
    return f"did you mean '{names[matches[0]]}'? " if matches else ""


def hint_for_file(path: Path, otherwise: str) -> str:
    """What to do about a file that cannot be read: the one beside it that is called nearly so.

    Args:
        otherwise: where there is none.
    """
    if re.match(r"\w+:/", str(path)):  # pathlib makes one slash of two
        return "download it first, and give the file"
    try:
        names = {} if path.exists() else {each.casefold(): each for each in os.listdir(path.parent)}
    except (OSError, ValueError):
        names = {}
    typed = path.name.casefold()
    same_stem = [each for each in names if os.path.splitext(each)[0] == typed]
    found = [*same_stem, *difflib.get_close_matches(typed, names, n=1, cutoff=_NEAR_FILE)]
    return f"did you mean '{path.parent / names[found[0]]}'?" if found else otherwise
