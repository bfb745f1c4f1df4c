"""What becomes of a row: a job with everything settled, and how it stands.

Plain data, shared by all parts of a batch after the table was read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from voxcli.audio.fit import SpeedLimits
from voxcli.audio.pace import speaking_time
from voxcli.batch.rows import Problem, Row
from voxcli.utterance import Utterance


@dataclass(frozen=True, slots=True)
class Job:
    """A row with everything settled but its recordings.

    Attributes:
        name: path below the output folder, with `/`; empty where the row gets no file.
        utterance: without the voice, see `Casting.fill`.
        key: SHA-256 of all that decides the file's samples.
        spoken_key: of the same at the level at which it was spoken; empty where `key` is that.
        language: that its text was found to be in; empty where that was not asked.
        problems: what must be corrected; such a job is not run.
        fit: how it is fitted into its slot; None where it is not.
    """

    row: Row
    name: str
    utterance: Utterance
    key: str = ""
    language: str = ""
    problems: tuple[Problem, ...] = ()
    fit: SpeedLimits | None = None
    spoken_key: str = ""

    @property
    def estimated_audio_s(self) -> float:
        """Seconds at an ordinary pace, from the text as written."""
        pace = speaking_time(self.utterance.text, self.utterance.language)
        return math.sqrt(pace.slowest_s * max(pace.fastest_s, 0.05)) / self.utterance.speed


class Status(StrEnum):
    """How a row stands."""

    OK = "ok"  # spoken in this run, perhaps by a process of it that has ended
    KEPT = "kept"  # done before, and unchanged
    FAILED = "failed"  # could not be spoken
    SKIPPED = "skipped"  # not to be spoken, or the file is somebody else's
    INVALID = "invalid"  # must be corrected in the table
    PENDING = "pending"  # the run ended before it


@dataclass(frozen=True, slots=True)
class Standing:
    """A job and what is to become of it.

    Attributes:
        status: PENDING means to do.
        reason: why it failed, is skipped, invalid, or done again; empty for a row that is new.
        replaces: whether a file of that name may be replaced.
    """

    job: Job
    status: Status
    reason: str = ""
    replaces: bool = False
