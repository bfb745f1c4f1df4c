"""What is left to do: each job against the manifest and the files that are there.

A row is done when its content hash and its file's own checksum both agree. A file that the manifest
does not know is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from voxcli.audio.formats import resolve_format
from voxcli.batch.folder import file_matches
from voxcli.batch.jobs import Job, Standing, Status
from voxcli.batch.manifest import DONE, FAILED, Manifest
from voxcli.batch.names import file_exists


def take_stock(
    jobs: Iterable[Job],
    manifest: Manifest,
    folder: Path,
    *,
    overwrite: bool = False,
    force: bool = False,
    is_going_on: bool = False,
) -> list[Standing]:
    """How each job stands, in the order given.

    Args:
        overwrite: replace files that are not from this batch.
        force: do again what is done.
        is_going_on: another process began this run; what it ended is ended.
    """
    ended = manifest.of_run if is_going_on else set()
    is_new = not file_exists(folder)
    return [_stand(job, manifest, folder, overwrite, force, ended, is_new) for job in jobs]


def _stand(
    job: Job,
    manifest: Manifest,
    folder: Path,
    overwrite: bool,
    force: bool,
    ended: Set[str],
    is_new: bool,
) -> Standing:
    if job.row.skipped:
        return Standing(job, Status.SKIPPED, job.row.skipped)
    if job.problems:
        reasons = "; ".join(f"{problem.column}: {problem.message}" for problem in job.problems)
        return Standing(job, Status.INVALID, reasons)
    entry = manifest.rows.get(job.name)
    is_ours = entry is not None and "sha256" in entry
    if entry is not None and job.name in ended and entry.get("key") == job.key:
        if entry["status"] == FAILED:
            return Standing(job, Status.FAILED, entry.get("reason", ""))
        if entry["status"] == DONE and file_matches(folder / job.name, entry):
            return Standing(job, Status.OK, entry.get("reason", ""))
    if is_new or not file_exists(f"{folder}/{job.name}"):
        is_lost = entry is not None and entry["status"] == DONE
        return Standing(job, Status.PENDING, "the file was missing" if is_lost else "", overwrite)
    if entry is None or not is_ours:
        if overwrite:
            return Standing(job, Status.PENDING, "replaces a file that was there", True)
        return Standing(job, Status.SKIPPED, "the file exists; --overwrite replaces it")
    if force:
        return Standing(job, Status.PENDING, "forced", True)
    if entry["status"] != DONE:
        return Standing(job, Status.PENDING, "failed before", True)
    if awaits_level(job, entry) and file_matches(folder / job.name, entry):
        return Standing(job, Status.KEPT, "its level will be set")
    if entry.get("key") != job.key:
        return Standing(job, Status.PENDING, "the row was edited", True)
    if not file_matches(folder / job.name, entry):
        return Standing(job, Status.PENDING, "the file was damaged", True)
    return Standing(job, Status.KEPT)


def awaits_level(job: Job, entry: Mapping[str, Any]) -> bool:
    """Whether the file that a line is about lacks nothing but its level.

    A lossy format would lose quality when it is written a second time: such a row is spoken again.
    """
    is_spoken = bool(job.spoken_key) and entry.get("key") == job.spoken_key
    return is_spoken and entry["status"] == DONE and bool(resolve_format(job.name).depths)
