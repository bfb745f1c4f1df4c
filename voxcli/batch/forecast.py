"""What a run would do: the words of each row, and how much audio, time and disk it needs."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from voxcli.audio.formats import resolve_format
from voxcli.audio.placing import Cue, place
from voxcli.batch.casting import Casting
from voxcli.batch.jobs import Standing, Status
from voxcli.batch.names import suffix_of
from voxcli.batch.report import JSON_NAME
from voxcli.batch.timeline import Timeline, timeline_s
from voxcli.engine.base import SpeechEngine
from voxcli.errors import VoxError
from voxcli.plan import Plan

PACKED_BYTES_S = 16_000  # a second of mp3, ogg and the like; 128 kbit/s is more than they take
FLAC_SHARE = 0.7  # of the same samples unpacked


@dataclass(frozen=True)
class Disk:
    """One that files go to.

    Attributes:
        folder: of the first of them.
        num_bytes: that they need.
    """

    folder: str
    num_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Forecast:
    """What is left of a batch.

    Attributes:
        wall_s: by the speed of the folder's last run with this model; None before a first one.
        num_bytes: of the rows, and of the timeline's mix and stems.
        free_bytes: where the output folder is or will be.
        disks: that the files go to, the output folder's first.
    """

    num_rows: int
    audio_s: float
    wall_s: float | None
    num_bytes: int
    free_bytes: int
    disks: tuple[Disk, ...]


def forecast(
    standings: Sequence[Standing],
    folder: Path,
    *,
    model: str,
    rate: int,
    bits: str | None,
    timeline: Timeline | None = None,
) -> Forecast:
    """Sum up the rows that are to do, and what is made of all rows.

    Args:
        rate: of the files in Hz.
    """
    todo = [standing.job for standing in standings if standing.status is Status.PENDING]
    seconds: defaultdict[str, float] = defaultdict(float)  # by suffix
    for job in todo:
        seconds[suffix_of(job.name)] += job.estimated_audio_s
    audio_s = sum(seconds.values())
    speed_x = _last_speed(folder, model)
    files = [(folder, sum(_rows_bytes(seconds[suffix], suffix, rate, bits) for suffix in seconds))]
    if timeline is not None:
        files += _timeline_files(standings, timeline, rate)
    disks = _disks(files)
    return Forecast(
        num_rows=len(todo),
        audio_s=audio_s,
        wall_s=audio_s / speed_x if speed_x else None,
        num_bytes=sum(disk.num_bytes for disk in disks),
        free_bytes=disks[0].free_bytes,
        disks=disks,
    )


def _disks(files: Iterable[tuple[Path, int]]) -> tuple[Disk, ...]:
    """Of folders and the bytes that each is to hold."""
    found: dict[int, Disk] = {}
    for folder, num_bytes in files:
        there = _existing(folder)
        number = there.stat().st_dev
        if number not in found:
            found[number] = Disk(str(folder), 0, shutil.disk_usage(there).free)
        disk = found[number]
        found[number] = replace(disk, num_bytes=disk.num_bytes + num_bytes)
    return tuple(found.values())


def _rows_bytes(audio_s: float, suffix: str, rate: int, bits: str | None) -> int:
    try:
        return _num_bytes(audio_s, PurePosixPath(f"x{suffix}"), rate, bits)
    except VoxError:  # such a row is not run
        return 0


def _timeline_files(
    standings: Sequence[Standing], timeline: Timeline, rate: int
) -> list[tuple[Path, int]]:
    jobs = [each.job for each in standings if each.status in (Status.PENDING, Status.KEPT)]
    cues = [Cue(job.estimated_audio_s, job.row.start, job.row.end) for job in jobs]
    slots = [{"end": each.job.row.end} for each in standings]
    length_s = timeline_s(slots, place(cues, timeline.policy, timeline.gap_s))
    rate = timeline.rate or rate
    return [
        (path.parent, _num_bytes(length_s, path, rate, timeline.stored_bits))
        for path in timeline.audio_paths(job.row.speaker for job in jobs)
    ]


def _num_bytes(audio_s: float, path: PurePath, rate: int, bits: str | None) -> int:
    """Of a file of that name; raises `UsageError` for a format that cannot be."""
    chosen = resolve_format(path, bits)
    if chosen.bits is None:
        return round(audio_s * PACKED_BYTES_S)
    plain = audio_s * rate * int(chosen.bits.removesuffix("f")) / 8
    return round(plain * (FLAC_SHARE if chosen.name == "flac" else 1.0))


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _last_speed(folder: Path, model: str) -> float | None:
    """Audio seconds a second in the folder's last run, if it spoke with this model."""
    try:
        report = json.loads((folder / JSON_NAME).read_text("utf-8"))
        return float(report["speed_x"]) if report["model"] == model else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def plans(
    standings: Iterable[Standing], casting: Casting, engine: SpeechEngine
) -> Iterator[tuple[Standing, Plan | None]]:
    """Each row with what will be spoken; None for those that are not to do."""
    for standing in standings:
        plan = None
        if standing.status is Status.PENDING:
            job = standing.job
            plan = engine.plan(casting.fill(job.row, job.utterance, job.language))
        yield standing, plan


def status_of(standing: Standing) -> str:
    """As a plan shows it."""
    return "to do" if standing.status is Status.PENDING else standing.status


def describe(
    standings: Iterable[Standing], casting: Casting, engine: SpeechEngine
) -> Iterator[dict[str, Any]]:
    """Each row with its normalised text and segments; those that are not to do say why."""
    for standing, plan in plans(standings, casting, engine):
        job, part = standing.job, casting.part_of(standing.job.row)
        shown: dict[str, Any] = {
            "number": job.row.number,
            "line": job.row.line,
            "output": job.name,
            "status": status_of(standing),
            "reason": standing.reason,
            "speaker": job.row.speaker,
            "voice": part.voice,
            "ref": part.ref,
            "start": job.row.start,
            "end": job.row.end,
        }
        if plan is not None:
            shown |= {
                "text": plan.text.text,
                "language": plan.text.language,
                "segments": [segment.text for segment in plan.text.segments],
                "unspeakable": [str(lost) for lost in plan.text.unspeakable],
                "directions": list(plan.text.directions),
                "estimated_audio_s": round(plan.estimated_audio_s, 2),
                "seed": plan.seed,
                "parameters": dict(plan.parameters),
            }
        yield shown
