"""The rows of a batch as one timeline: mix, stems and subtitles, made from the files in the folder.

Each run makes them anew from all rows that have a file, whichever run spoke them. The manifest
remembers which of these files are ours and may be replaced.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.audio.ducking import Ducking
from voxcli.audio.files import (
    check_folder,
    check_makeable,
    clear,
    create,
    exists_error,
    hidden_name,
    is_to_come,
    output_error,
    probe_folder,
    publish,
)
from voxcli.audio.formats import AudioFormat, resolve_format
from voxcli.audio.level import Standard
from voxcli.audio.names import slug
from voxcli.audio.placing import GAP_S, Cue, Placement, Policy, overlaps, place
from voxcli.audio.tags import Mark, Tags
from voxcli.audio.write import check_output
from voxcli.batch.folder import file_matches
from voxcli.batch.jobs import Status
from voxcli.batch.manifest import DONE, Manifest
from voxcli.batch.rows import Row
from voxcli.batch.spoken_cues import subtitles_of
from voxcli.batch.subtitles import check_suffix
from voxcli.errors import SynthesisError, UsageError
from voxcli.extras import require
from voxcli.hub import file_sha256

if TYPE_CHECKING:
    from voxcli.audio.mixdown import Clip, Mix, Tell

LOWEST_LUFS, HIGHEST_LUFS = -40.0, -5.0
MAX_GAP_S = 60.0
SHOWN_OVERLAPS = 10
UNNAMED, BED = "speech", "bed"  # stems of rows without a speaker, and of the bed


@dataclass(frozen=True)
class Timeline:
    """What to make of the rows.

    Attributes:
        policy: what happens to cues that would sound at once.
        mix, stems, subtitles: a file, a folder, a file; None is not made.
        bed: sound under the speech; a recording or a video.
        lufs: integrated loudness of the mix; None leaves it as it comes.
        standard: what a shop asks of the mix, in place of the loudness; the files of the rows have
            it already.
        gap_s: silence before a row without a start.
        title, artist, cover: of the whole, for a mix that can say it.
        bits, rate: of the mix and the stems, where their format has a choice.
        overwrite: replace files that are not from this batch.
        token: of the hidden names of files on their way, so that the next run of this batch
            removes what a killed one left.
        tell: how far the mix, or a stem, is.
    """

    policy: Policy
    mix: Path | None = None
    stems: Path | None = None
    subtitles: Path | None = None
    bed: Path | None = None
    ducking: Ducking = field(default_factory=Ducking)
    lufs: float | None = None
    standard: Standard | None = None
    gap_s: float = GAP_S
    title: str = ""
    artist: str = ""
    cover: bytes | None = None
    bits: str | None = None
    rate: int | None = None
    overwrite: bool = False
    token: str = ""
    tell: Tell = lambda stage, share: None

    def check(self, rows: Sequence[Row], manifest: Manifest, folder: Path) -> None:
        """Refuse before a model loads what could not be made after it.

        Args:
            folder: of the rows' files, which will be made.

        Raises:
            UsageError: cues that overlap where that is refused, a bed or a value that cannot be.
            OutputExistsError: a file is there that is not from this batch.
            OutputError: a file could not be written.
        """
        if self.policy is Policy.FAIL:
            _refuse_overlaps(rows)
        if self.lufs is not None and not LOWEST_LUFS <= self.lufs <= HIGHEST_LUFS:
            hint = f"give {LOWEST_LUFS:g} to {HIGHEST_LUFS:g}, such as -16"
            raise UsageError(f"--lufs is {self.lufs:g}", hint=hint)
        if not 0 <= self.gap_s <= MAX_GAP_S:
            raise UsageError(f"--gap is {self.gap_s:g}", hint=f"give 0 to {MAX_GAP_S:g} seconds")
        if self.bed is not None:
            from voxcli.audio.clips import ClipReader

            ClipReader(self.bed, 48_000).close()
        if self.mix is not None or self.stems is not None:
            require("'--mix'" if self.mix else "'--stems'", "scipy", "pyloudnorm")
        if self.mix is not None:
            check_output(
                self.mix, overwrite=self._may_replace(self.mix, manifest),
                rate=self.rate, made=folder,
            )  # fmt: skip
        if self.stems is not None:
            check_makeable(self.stems)
            for path in self._stem_paths(row.speaker for row in rows):
                self._check_free(path, manifest)
        if self.subtitles is not None:
            check_suffix(self.subtitles)
            self._check_free(self.subtitles, manifest)
            try:
                if not is_to_come(self.subtitles.parent, folder):
                    check_folder(self.subtitles.parent)
                    probe_folder(self.subtitles)
            except OSError as err:
                raise output_error(err, self.subtitles) from err

    def make(
        self, rows: Sequence[dict[str, Any]], folder: Path, manifest: Manifest
    ) -> dict[str, Any]:
        """Place the rows that have a file, write what was asked, and tell each row its place.

        Args:
            rows: of the report; placements are added to them.

        Returns:
            what was made, for the report.

        Raises:
            SynthesisError: no row has a file, or cues overlap where that is refused.
            OutputError, OutputExistsError: a file could not be written.
        """
        spoken = [row for row in rows if row["status"] in (Status.OK, Status.KEPT)]
        if not spoken:
            raise SynthesisError("no row has a file, so there is no timeline")
        placements = place([_cue(row) for row in spoken], self.policy, self.gap_s)
        for row, placed in zip(spoken, placements, strict=True):
            row |= _told(placed)
        if self.policy is Policy.FAIL and (number := sum(p.overlap_s > 0 for p in placements)):
            raise SynthesisError(
                f"{number} rows overlap the next row, so no timeline is made",
                hint="see overlap_s in report.csv; add --fit, or --overlap shift, cut or mix",
            )
        made: dict[str, Any] = {
            "policy": self.policy.value,
            "rows": len(spoken),
            "length_s": round(timeline_s(rows, placements), 6),
            "overlapping": sum(placed.overlap_s > 0 for placed in placements),
            "shifted": sum(placed.shift_s > 0 for placed in placements),
            "cut": sum(placed.cut_s > 0 for placed in placements),
        }
        if self.mix is not None or self.stems is not None:
            made |= self._write_audio(spoken, placements, made["length_s"], folder, manifest)
        if self.subtitles is not None:
            self._write_subtitles(spoken, placements, folder, self.subtitles, manifest)
            made["subtitles"] = str(self.subtitles)
        return made

    # ------------------------------------------------------------ audio

    def _write_audio(
        self,
        rows: Sequence[Mapping[str, Any]],
        placements: Sequence[Placement],
        length_s: float,
        folder: Path,
        manifest: Manifest,
    ) -> dict[str, Any]:
        from voxcli.audio.mixdown import Bed, Mix

        source_rate = max(row["sample_rate"] for row in rows)
        rate = self._audio_format.choose_rate(source_rate, self.rate)
        clips = [
            _clip(row, placed, folder, rate) for row, placed in zip(rows, placements, strict=True)
        ]
        bed = Bed(self.bed, self.ducking) if self.bed is not None else None
        mix = Mix(clips, rate, bed, self.lufs, length=round(length_s * rate))
        if self.standard is not None:
            mix = replace(
                mix, target_rms_db=self.standard.target_db, ceiling_db=self.standard.ceiling_db
            )
        made: dict[str, Any] = {"sample_rate": rate, "bed": str(self.bed) if self.bed else None}
        if self.mix is not None:
            marks = _marks(rows, clips, mix.length)
            tags = Tags(self.title, self.artist, self.cover, marks)
            made |= {"mix": str(self.mix), **self._write(mix, self.mix, manifest, tags)}
            made |= {"chapters": [mark._asdict() for mark in marks]} if marks else {}
        if self.stems is not None:
            made["stems"] = list(self._write_stems(mix, rows, self.stems, manifest))
        return made

    def _write_stems(
        self,
        mix: Mix,
        rows: Sequence[Mapping[str, Any]],
        folder: Path,
        manifest: Manifest,
    ) -> Iterator[str]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise output_error(err, folder) from err
        names = stem_names(row["speaker"] for row in rows)
        stems = {
            name: mix.stem([
                clip for clip, row in zip(mix.clips, rows, strict=True) if row["speaker"] == speaker
            ])
            for speaker, name in names.items()
        }  # fmt: skip
        if mix.bed is not None:
            stems[BED] = mix.bed_stem()
        for name, stem in stems.items():
            path = self._stem_path(name)
            self._write(stem, path, manifest)
            yield str(path)

    def _write(
        self, mix: Mix, path: Path, manifest: Manifest, tags: Tags | None = None
    ) -> dict[str, Any]:
        from voxcli.audio.mixdown import write_mix

        may_replace = self._may_replace(path, manifest)
        written = write_mix(
            mix, path, bits=self.stored_bits, overwrite=may_replace, tags=tags,
            token=self.token, tell=self.tell,
        )  # fmt: skip
        _remember(path, manifest)
        audio, level = written.audio, written.level
        found: dict[str, Any] = {}
        if self.standard is not None and tags is not None:
            found["shortfalls"] = self.standard.shortfalls(
                audio.rms_dbfs, audio.peak, level.noise_floor_db, audio.audio_s
            )
        return found | {
            "rms_db": round(audio.rms_dbfs, 2),
            "peak": round(audio.peak, 4),
            "num_frames": audio.num_frames,
            "lufs": round(written.lufs, 2) if math.isfinite(written.lufs) else None,
            **level.told(),
        }

    @property
    def _audio_format(self) -> AudioFormat:
        return resolve_format(self.mix or "wav")

    @property
    def stored_bits(self) -> str | None:
        """Of a sample, where the format of mix and stems has a choice."""
        return self.bits if self.bits in self._audio_format.depths else None

    def audio_paths(self, speakers: Iterable[str]) -> list[Path]:
        """The mix and the stems that will be written."""
        return [path for option, path in self.outputs(speakers) if option != "--subtitles"]

    def outputs(self, speakers: Iterable[str]) -> list[tuple[str, Path]]:
        """All files that will be written, with the option that asks for each."""
        found = [("--mix", self.mix), ("--subtitles", self.subtitles)]
        stems = self._stem_paths(speakers) if self.stems is not None else []
        return [(option, path) for option, path in found if path] + [("--stems", p) for p in stems]

    def _stem_paths(self, speakers: Iterable[str]) -> list[Path]:
        names = [*stem_names(speakers).values(), *([BED] if self.bed is not None else [])]
        return [self._stem_path(name) for name in names]

    def _stem_path(self, name: str) -> Path:
        assert self.stems is not None
        return self.stems / f"{name}{self._audio_format.suffix}"

    # ------------------------------------------------------------ subtitles

    def _write_subtitles(
        self,
        rows: Sequence[Mapping[str, Any]],
        placements: Sequence[Placement],
        folder: Path,
        path: Path,
        manifest: Manifest,
    ) -> None:
        temp = hidden_name(path, self.token)
        try:
            if self.token:
                clear(temp)
            create(temp)
            temp.write_text(subtitles_of(rows, placements, folder, path), "utf-8")
            publish(temp, path, overwrite=self._may_replace(path, manifest))
        except OSError as err:
            raise output_error(err, path) from err
        finally:
            temp.unlink(missing_ok=True)
        _remember(path, manifest)

    # ------------------------------------------------------------ whose files they are

    def _check_free(self, path: Path, manifest: Manifest) -> None:
        if os.path.lexists(path) and not self._may_replace(path, manifest):
            raise exists_error(path)

    def _may_replace(self, path: Path, manifest: Manifest) -> bool:
        return self.overwrite or file_matches(path, manifest.rows.get(_key(path), {}))


def _key(path: Path) -> str:
    """In the manifest; no row has such a name, since theirs are never absolute."""
    return str(path.resolve())


def _remember(path: Path, manifest: Manifest) -> None:
    manifest.append({
        "output": _key(path), "status": DONE,
        "bytes": path.stat().st_size, "sha256": file_sha256(path),
    })  # fmt: skip


def _refuse_overlaps(rows: Sequence[Row]) -> None:
    slots = [
        (row, (row.start, row.end))
        for row in rows
        if not row.skipped and row.start is not None and row.end is not None
    ]
    found = overlaps([(start, end) for _, (start, end) in slots])
    if not found:
        return
    shown = []
    for one, other, seconds in found[:SHOWN_OVERLAPS]:
        first, second = slots[one][0], slots[other][0]
        lines = f"(lines {first.line} and {second.line})"
        shown.append(f"rows {first.number} and {second.number} {lines} by {seconds:.2f} s")
    more = f" and {len(found) - SHOWN_OVERLAPS} more" if len(found) > SHOWN_OVERLAPS else ""
    raise UsageError(
        f"cues overlap: {', '.join(shown)}{more}",
        hint="correct their times, or use --overlap shift, cut or mix",
    )


def timeline_s(rows: Sequence[Mapping[str, Any]], placements: Sequence[Placement]) -> float:
    """How long it is: to the end of the last slot, spoken in or not, or of what sounds after it."""
    slots = [float(row["end"]) for row in rows if row["end"] is not None]
    return max([*slots, *(placed.end_s for placed in placements)], default=0.0)


def _cue(row: Mapping[str, Any]) -> Cue:
    return Cue(row["num_frames"] / row["sample_rate"], row["start"], row["end"])


def _told(placed: Placement) -> dict[str, float]:
    values = {
        "placed_s": placed.start_s,
        "shift_s": placed.shift_s,
        "cut_s": placed.cut_s,
        "overlap_s": placed.overlap_s,
    }
    return {name: round(value, 6) for name, value in values.items()}


def _clip(row: Mapping[str, Any], placed: Placement, folder: Path, rate: int) -> Clip:
    from voxcli.audio.mixdown import Clip

    return Clip(
        folder / row["output"], round(placed.start_s * rate), round(placed.audio_s * rate),
        is_cut=placed.cut_s > 0,
    )  # fmt: skip


def _marks(
    rows: Sequence[Mapping[str, Any]], clips: Sequence[Clip], length: int
) -> tuple[Mark, ...]:
    """A mark for each row that has a title, to where the next one begins."""
    begun = sorted(
        (clip.start, row["extra"]["title"].strip())
        for row, clip in zip(rows, clips, strict=True)
        if row["extra"].get("title", "").strip()
    )
    if not begun:
        return ()
    stops = [*(start for start, _ in begun[1:]), max([length, *(clip.stop for clip in clips)])]
    return tuple(
        Mark(title, start, stop) for (start, title), stop in zip(begun, stops, strict=True)
    )


def stem_names(speakers: Iterable[str]) -> dict[str, str]:
    """A file name without suffix for each speaker, no two alike."""
    names: dict[str, str] = {}
    taken = {BED}
    for speaker in dict.fromkeys(speakers):
        name = asked = slug(speaker) if speaker else UNNAMED
        number = 1
        while name in taken:
            number += 1
            name = f"{asked}-{number}"
        taken.add(name)
        names[speaker] = name
    return names
