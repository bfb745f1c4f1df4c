"""The options of `voxcli batch` in groups, and what each group comes to.

Values that cannot be are refused here, before the table is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from voxcli.cli.options import OUTPUT, BitsOption
from voxcli.errors import UsageError
from voxcli.extras import require

if TYPE_CHECKING:
    from voxcli.audio.fit import SpeedLimits
    from voxcli.batch.keep import Storage
    from voxcli.batch.takes import Judge
    from voxcli.batch.timeline import Timeline


@dataclass(frozen=True)
class TableOptions:
    """How the table is read."""

    panel: ClassVar[str] = "Table"

    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="Encoding of the table, such as cp1252.",
            show_default="UTF-8, or as the byte-order mark says",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            metavar="CHAR",
            help="Character between cells, or its name: comma, semicolon, tab or bar.",
            show_default="detected and reported",
        ),
    ] = None
    map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Column of a field, such as text=Line. FIELD= means that no column is this field. "
            "May be repeated.",
        ),
    ] = None
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header",
            help="The table has no header: the first line is a row, and the columns are 1, 2, ….",
        ),
    ] = False
    labels: Annotated[
        str,
        typer.Option(
            "--labels",
            metavar="auto|none|NAMES",
            help="Words before a colon in subtitles and scripts that name speakers, and are not "
            "spoken: detected, none, or names such as Ann,Ben.",
        ),
    ] = "auto"

    def separator(self) -> str | None:
        """The character between cells; None where it is to be found."""
        from voxcli.batch.tables import DELIMITERS

        names = {name: character for character, name in DELIMITERS.items()} | {r"\t": "\t"}
        return names.get(self.delimiter or "", self.delimiter)

    def mapping(self) -> dict[str, str]:
        """Field to column.

        Raises:
            UsageError: not of the form.
        """
        pairs = [entry.partition("=") for entry in self.map or ()]
        for field, sign, column in pairs:
            if not (field and sign):
                raise UsageError(f"--map is '{field}{sign}{column}'", hint="write text=Line")
        return {field.strip(): column for field, _, column in pairs}


@dataclass(frozen=True)
class FileOptions:
    """What the files are called and how they are stored."""

    panel: ClassVar[str] = OUTPUT

    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="TEMPLATE",
            help="Name of each file, such as '{index:04d}_{speaker}.wav'. Can use index, record, "
            "line, text and any column.",
            show_default="the column output or id, else {index:04d}",
        ),
    ] = None
    format: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="Format of files whose name has no suffix."),
    ] = "wav"
    bits: BitsOption = None
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate",
            metavar="HZ",
            help="Sample rate of the files in Hz.",
            show_default="the model's",
        ),
    ] = None
    loudness: Annotated[
        str | None,
        typer.Option(
            "--loudness",
            metavar="audiobook",
            help="Level of each file and of the mix: audiobook is -23 to -18 dB RMS, with peaks "
            "below -3 dB. Needs voxcli[dub].",
            show_default="unchanged",
        ),
    ] = None
    on_duplicate: Annotated[
        str,
        typer.Option(
            "--on-duplicate",
            metavar="refuse|number",
            help="If two rows have the same name: refuse the second, or number it -2, -3, ….",
        ),
    ] = "refuse"
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace files that are not from this batch."),
    ] = False

    def check(self) -> None:
        """Refuse what no file could have.

        Raises:
            UsageError, OutputError: one of the values.
        """
        from voxcli.batch.names import check_format

        check_format(self.format, self.bits, self.rate)
        if self.on_duplicate not in ("refuse", "number"):
            raise UsageError(f"--on-duplicate is '{self.on_duplicate}'", hint="refuse or number")
        if self.loudness is not None:
            from voxcli.audio.level import STANDARDS

            if self.loudness not in STANDARDS:
                hint = f"use {' or '.join(STANDARDS)}"
                raise UsageError(f"--loudness is '{self.loudness}'", hint=hint)
            require("'--loudness'", "scipy")

    @property
    def storage(self) -> Storage:
        """How the files are written."""
        from voxcli.audio.level import STANDARDS
        from voxcli.batch.keep import Storage

        return Storage(self.bits, self.rate, STANDARDS.get(self.loudness or ""))

    @property
    def stored(self) -> dict[str, Any]:
        """What of it is in the hash of a row."""
        from voxcli.batch.preflight import LEVEL

        level = {} if self.loudness is None else {LEVEL: self.loudness}
        return {"bits": self.bits, "rate": self.rate, **level}


@dataclass(frozen=True)
class CastOptions:
    """Who speaks rows that name no voice: voices of speakers, or a recording for all others."""

    panel: ClassVar[str] = "Voice"

    cast: Annotated[
        list[str] | None,
        typer.Option(
            "--cast",
            metavar="NAME=VOICE,…|FILE",
            help="Voices of speakers, such as Anna=emma,Ben=george, where none leaves a speaker "
            "out; or a CSV with the columns speaker, voice, ref, ref_text, style. May be repeated.",
            show_default="the config's",
        ),
    ] = None

    ref: Annotated[
        Path | None,
        typer.Option(
            "--ref",
            metavar="FILE",
            help="Recording of the voice for rows without a voice of their own.",
        ),
    ] = None
    ref_text: Annotated[
        str, typer.Option("--ref-text", metavar="TEXT", help="Transcript of the recording.")
    ] = ""


WRONG_SHARE = 0.25  # of the words, that the check of them accepts
WHISPER = "base"


@dataclass(frozen=True)
class VerifyOptions:
    """Whether what was said is listened to."""

    panel: ClassVar[str] = "Checks"

    verify: Annotated[
        str | None,
        typer.Option(
            "--verify",
            metavar="wer",
            help="Listen to each row with Whisper, and speak the row again if too many words are "
            "wrong.",
        ),
    ] = None
    verify_threshold: Annotated[
        float | None,
        typer.Option(
            "--verify-threshold",
            metavar="X",
            help="Share of wrong words to accept, 0 to 1.",
            show_default=f"{WRONG_SHARE:g}",
        ),
    ] = None
    verify_model: Annotated[
        str | None,
        typer.Option(
            "--verify-model",
            metavar="FOLDER",
            help="faster-whisper model: a folder, or a name in the local cache.",
            show_default=WHISPER,
        ),
    ] = None

    def judges(self, retries: int, threads: int) -> tuple[Judge, ...]:
        """What listens to the rows.

        Raises:
            UsageError, ModelNotFoundError: it cannot be done here.
        """
        share, model = self.verify_threshold, self.verify_model
        if self.verify is None:
            for option, value in (("--verify-threshold", share), ("--verify-model", model)):
                if value is not None:
                    raise UsageError(f"{option} is for --verify", hint="add --verify wer")
            return ()
        if self.verify != "wer":
            raise UsageError(f"--verify is '{self.verify}'", hint="use wer")
        share = WRONG_SHARE if share is None else share
        if not 0.0 <= share <= 1.0:
            raise UsageError(f"--verify-threshold is {share:g}", hint="give 0 to 1")
        from voxcli.batch.verify import WordCheck, load_whisper

        return (WordCheck(load_whisper(model or WHISPER, threads), share, retries),)


@dataclass(frozen=True)
class FitOptions:
    """Speech fitted into the slots of a timeline."""

    panel: ClassVar[str] = "Timeline"

    fit: Annotated[
        bool,
        typer.Option(
            "--fit", help="Trim the rows with start and end, and fit their tempo to the time slot."
        ),
    ] = False
    min_speed: Annotated[
        float,
        typer.Option(
            "--min-speed",
            metavar="X",
            help="Lowest tempo, 0.5 to 2. Below 1, short speech slows down to fill its slot.",
        ),
    ] = 1.0
    max_speed: Annotated[
        float,
        typer.Option(
            "--max-speed",
            metavar="X",
            help="Highest tempo, 0.5 to 2. Speech that is still too long overflows.",
        ),
    ] = 1.3

    def limits(self) -> SpeedLimits | None:
        """None without --fit.

        Raises:
            UsageError: a bound out of range, or given in vain.
        """
        from voxcli.audio.fit import SpeedLimits

        limits = SpeedLimits(self.min_speed, self.max_speed)
        if not self.fit and limits != SpeedLimits():
            raise UsageError("--min-speed and --max-speed are for --fit", hint="add --fit")
        return limits if self.fit else None


@dataclass(frozen=True)
class TimelineOptions:
    """The rows as one timeline."""

    panel: ClassVar[str] = "Timeline"

    mix: Annotated[
        Path | None,
        typer.Option(
            "--mix",
            metavar="FILE",
            help="Also write all rows at their start times into one file. Needs voxcli[dub].",
        ),
    ] = None
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="mix|shift|cut|fail",
            help="If cues overlap: mix them, shift the later one, cut the speech that exceeds its "
            "slot, or fail.",
            show_default="mix",
        ),
    ] = None
    lufs: Annotated[
        float | None,
        typer.Option(
            "--lufs",
            metavar="X",
            help="Loudness of the mix, -40 to -5 LUFS: -16 for podcasts, -23 for broadcast.",
            show_default="unchanged",
        ),
    ] = None
    gap: Annotated[
        float | None,
        typer.Option(
            "--gap",
            metavar="SECONDS",
            help="Silence in the mix before a row without start, 0 to 60 seconds.",
            show_default="0.3; 2 between chapters",
        ),
    ] = None
    bed: Annotated[
        Path | None,
        typer.Option(
            "--bed", metavar="FILE", help="Audio or video file whose sound plays under the speech."
        ),
    ] = None
    bed_db: Annotated[
        float, typer.Option("--bed-db", metavar="DB", help="Gain of the bed, -60 to 20.")
    ] = 0.0
    duck_db: Annotated[
        float,
        typer.Option(
            "--duck-db", metavar="DB", help="How much lower the bed is under speech, 0 to 60."
        ),
    ] = 12.0
    duck_attack_ms: Annotated[
        float,
        typer.Option(
            "--duck-attack-ms",
            metavar="MS",
            help="Time in which the bed sinks before speech, in milliseconds.",
        ),
    ] = 150.0
    duck_release_ms: Annotated[
        float,
        typer.Option(
            "--duck-release-ms",
            metavar="MS",
            help="Time in which the bed rises after speech, in milliseconds.",
        ),
    ] = 500.0
    stems: Annotated[
        Path | None,
        typer.Option(
            "--stems",
            metavar="FOLDER",
            help="Also write a file for each speaker, as long as the mix. Needs voxcli[dub].",
        ),
    ] = None
    subtitles: Annotated[
        Path | None,
        typer.Option(
            "--subtitles",
            "--subs",
            metavar="FILE",
            help="Also write subtitles of the timeline: srt, vtt, json with words, or ass (needs "
            "voxcli[dub]).",
        ),
    ] = None

    def timeline(self, names: FileOptions) -> Timeline | None:
        """None where nothing of it is asked.

        Raises:
            UsageError: a value that cannot be, or one given in vain.
        """
        from voxcli.audio.ducking import Ducking
        from voxcli.audio.placing import GAP_S, Policy
        from voxcli.batch.timeline import Timeline

        ducking = Ducking(
            self.bed_db, self.duck_db, self.duck_attack_ms / 1000, self.duck_release_ms / 1000
        )
        known = ", ".join(Policy)
        if self.overlap is not None and self.overlap not in list(Policy):
            raise UsageError(f"--overlap is '{self.overlap}'", hint=f"use one of {known}")
        if self.mix is None and self.lufs is not None:
            raise UsageError("--lufs is for --mix", hint="add --mix FILE")
        if self.lufs is not None and names.loudness is not None:
            raise UsageError("--lufs and --loudness are both given", hint="keep one of them")
        if self.mix is None and self.stems is None and self.bed is not None:
            raise UsageError("--bed is for --mix", hint="add --mix FILE")
        if self.bed is None and ducking != Ducking():
            raise UsageError("--bed-db and --duck-... are for --bed", hint="add --bed FILE")
        if self.mix is None and self.stems is None and self.subtitles is None:
            given = {"--overlap": self.overlap, "--gap": self.gap}
            if in_vain := next((name for name, value in given.items() if value is not None), None):
                hint = "add --mix, --stems or --subtitles"
                raise UsageError(f"{in_vain} is for a timeline", hint=hint)
            return None
        return Timeline(
            Policy(self.overlap or Policy.MIX),
            mix=self.mix, stems=self.stems, subtitles=self.subtitles, bed=self.bed,
            ducking=ducking, lufs=self.lufs, standard=names.storage.standard,
            gap_s=GAP_S if self.gap is None else self.gap,
            bits=names.bits, rate=names.rate, overwrite=names.overwrite,
        )  # fmt: skip
