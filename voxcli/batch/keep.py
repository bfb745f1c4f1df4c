"""What becomes of a row's takes: judged, then written, recorded and published, or spoken again.

Runs on writer threads, so that the engine need not wait for it, and knows nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from voxcli.audio.formats import resolve_format
from voxcli.audio.level import Standard
from voxcli.audio.resample import Samples, resampled_blocks
from voxcli.audio.write import AudioWriter
from voxcli.batch.folder import OutputFolder
from voxcli.batch.jobs import Job, Standing, Status
from voxcli.batch.manifest import DONE, FAILED, Manifest
from voxcli.batch.takes import Judge, Outcome, Take, Verdict
from voxcli.errors import OutputExistsError, SynthesisError, VoxError
from voxcli.hub import file_sha256
from voxcli.utterance import SegmentReport, Utterance, finish_of


@dataclass(frozen=True)
class Storage:
    """How files are written, see `AudioWriter`.

    Attributes:
        standard: the level of each file; None leaves it as it was spoken.
    """

    bits: str | None = None
    rate: int | None = None
    standard: Standard | None = None

    def write(
        self, path: Path, open_blocks: Callable[[int], Iterable[Samples]], source_rate: int
    ) -> dict[str, Any]:
        """Write a file of a row; returns what the report says of it.

        Args:
            open_blocks: the samples from the start, float32 `[S]` each, at a rate.
            source_rate: that they have.

        Raises:
            SynthesisError, OutputError: see `AudioWriter`.
        """
        rate = resolve_format(path, self.bits).choose_rate(source_rate, self.rate)
        found: dict[str, Any] = {}
        with AudioWriter(path, rate, bits=self.bits) as writer:
            if self.standard is None:
                for block in open_blocks(rate):
                    writer.write(block)
                written = writer.commit()
            else:
                from voxcli.audio.levelling import write_levelled

                level = write_levelled(lambda: open_blocks(rate), rate, self.standard, writer.write)
                written = writer.commit()
                lacks = self.standard.shortfalls(
                    written.rms_dbfs, written.peak, level.noise_floor_db, written.audio_s
                )
                found = {**level.told(), "shortfalls": lacks}
        return {
            "audio_s": round(written.audio_s, 6),
            "sample_rate": written.sample_rate,
            "num_frames": written.num_frames,
            "peak": round(written.peak, 4),
            "rms_db": round(written.rms_dbfs, 2),
            **found,
            "bytes": path.stat().st_size,
            "sha256": file_sha256(path),
        }


@dataclass(frozen=True)
class Kept:
    """A take that may become the file, and how much is wrong with it."""

    take: Take
    facts: dict[str, Any]
    excess: float


@dataclass(eq=False)
class RowInWork:
    """A row on its way.

    Attributes:
        facts: what judges found about the last take.
        refused: why takes were not the last.
        best: what becomes the file when no take is better.
    """

    standing: Standing
    utterance: Utterance = field(init=False)
    num_takes: int = 1
    parts: list[Samples] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    best: Kept | None = None

    def __post_init__(self) -> None:
        self.utterance = self.standing.job.utterance

    @property
    def job(self) -> Job:
        return self.standing.job


@dataclass(frozen=True)
class Keeper:
    """Judges takes and makes files of them.

    Attributes:
        values_of: the values in effect for a job, for its line in the manifest.
        judges: looked at in order; they may change the samples, and may ask for another take, which
            those after it then hear.
    """

    folder: OutputFolder
    manifest: Manifest
    storage: Storage
    values_of: Callable[[Job], Mapping[str, Any]]
    judges: Sequence[Judge]

    def finish(self, row: RowInWork, take: Take) -> Outcome | Utterance:
        """Judge a take and keep it, or the best so far; an utterance where it is spoken again."""
        try:
            again = self._judge(row, take)
        except SynthesisError as err:  # it was the last take; an earlier one may do
            if row.best is None:
                raise
            row.refused.append(str(err))
            again = None
        return self.keep(row) if again is None else again

    def _judge(self, row: RowInWork, take: Take) -> Utterance | None:
        """Ask every judge; what may be kept and is the best so far becomes `row.best`."""
        row.facts = {}
        verdict = Verdict(take.samples)
        for judge in self.judges:
            verdict = judge(take)
            row.facts |= verdict.facts
            segments = take.segments if verdict.segments is None else verdict.segments
            take = replace(take, samples=verdict.samples, segments=segments)
            if verdict.again is not None:
                row.refused.append(verdict.reason)
                break
        excess = verdict.excess or 0.0
        is_usable = verdict.again is None or verdict.excess is not None
        if is_usable and (row.best is None or excess < row.best.excess):
            row.best = Kept(take, row.facts, excess)
        return verdict.again

    def keep(self, row: RowInWork) -> Outcome:
        """Write, record and publish the best take."""
        assert row.best is not None, "a take that is not spoken again may be kept"
        job, name, take = row.job, row.job.name, row.best.take
        staged = self.folder.staged(name, job.row.number)
        facts = self.storage.write(
            staged, partial(resampled_blocks, take.samples, take.sample_rate), take.sample_rate
        )
        self.folder.make_parent(name)
        facts |= {
            "takes": row.num_takes,
            **({"server": take.server} if take.server else {}),
            "finish_reason": finish_of(take.segments),
            "attempts": max(segment.attempts for segment in take.segments),
            "seeds": [segment.seed for segment in take.segments],
            "spoken_text": take.text,
            "spoken_language": take.language,
            "segments": [_timed(segment) for segment in take.segments],
            "warnings": [warning for segment in take.segments for warning in segment.warnings],
            "refused": [
                *row.refused,
                *(reason for segment in take.segments for reason in segment.refused),
            ],
            **row.best.facts,
        }
        reason = row.standing.reason
        self.manifest.append({
            **self.values_of(job), "output": name, "status": DONE, "key": job.key,
            "reason": reason, **facts,
        })  # fmt: skip
        try:
            self.folder.publish(staged, name, overwrite=row.standing.replaces)
        except OutputExistsError as err:  # somebody was faster: the file is not ours
            self.manifest.append(
                {"output": name, "status": "skipped", "key": job.key, "reason": str(err)}
            )
            return Outcome(job, Status.SKIPPED, str(err))
        return Outcome(job, Status.OK, reason, facts)

    def failed(self, row: RowInWork, error: VoxError) -> Outcome:
        """Record that a row could not be spoken; a file it had before stays ours."""
        facts: dict[str, Any] = {"takes": row.num_takes, "refused": row.refused, **row.facts}
        if isinstance(error, SynthesisError):
            facts |= {"finish_reason": error.finish_reason, "attempts": error.attempts}
        before = self.manifest.rows.get(row.job.name, {})
        names = ("sha256", "bytes")
        owned: dict[str, Any] = {name: before[name] for name in names if name in before}
        self.manifest.append({
            "output": row.job.name, "status": FAILED, "key": row.job.key,
            "number": row.job.row.number, "reason": str(error), **facts, **owned,
        })  # fmt: skip
        return Outcome(row.job, Status.FAILED, str(error), facts)


def _timed(segment: SegmentReport) -> dict[str, Any]:
    """What was said and where in the row's file."""
    times = {"start_s": round(segment.start_s, 4), "end_s": round(segment.end_s, 4)}
    return {"text": segment.text, **times}
