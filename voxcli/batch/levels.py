"""Files of earlier runs brought to a level that is asked for now, without being spoken again.

A file is written beside, recorded and renamed, as one that was just spoken: the line that the
manifest has for its checksum says whether it has its level. So it gets that once, whatever ends a
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from voxcli.audio.clips import PIECE, ClipReader
from voxcli.audio.resample import Samples
from voxcli.batch.folder import OutputFolder, file_matches
from voxcli.batch.jobs import Job
from voxcli.batch.keep import Storage
from voxcli.batch.manifest import Manifest
from voxcli.batch.resume import awaits_level


def set_levels(
    jobs: Iterable[Job],
    manifest: Manifest,
    folder: OutputFolder,
    storage: Storage,
    tell: Callable[[int, int], None],
) -> None:
    """Give each file that lacks nothing but its level that level.

    Args:
        tell: how many of how many are done.

    Raises:
        RecordingError: a file cannot be read.
        SynthesisError, OutputError: see `AudioWriter`.
    """
    entries = manifest.rows
    waiting = [
        job for job in jobs
        if (entry := entries.get(job.name)) and awaits_level(job, entry)
        and file_matches(folder.root / job.name, entry)
    ]  # fmt: skip
    for number, job in enumerate(waiting):
        tell(number, len(waiting))
        entry = entries[job.name]
        path, staged = folder.root / job.name, folder.staged(job.name, job.row.number)
        facts = storage.write(staged, partial(_blocks, path), entry["sample_rate"])
        manifest.append({**entry, "key": job.key, **facts})
        folder.publish(staged, job.name, overwrite=True)


def _blocks(path: Path, rate: int) -> Iterator[Samples]:
    with ClipReader(path, rate) as reader:
        while len(block := reader.read(PIECE)):
            yield block
