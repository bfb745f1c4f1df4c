"""Measure what a long book takes once its chapters are spoken: level, mix, marks and subtitles.

    python tools/book_hours.py --hours 2 [--keep FOLDER]

The script makes a book with chapters of six minutes. It does not speak them: one recording stands
for each sentence, so the files and the manifest are as `voxcli batch` leaves them. Then it runs
`voxcli batch` three times with `--mix` and `--subtitles`, without and with `--loudness audiobook`,
and shows the time and the peak memory of each run. Last it compares the marks and the length of
the m4b, as ffprobe reads them, with the report. Needs ffmpeg and the extra `dub`. On two idle cores
an hour takes about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import soundfile

from voxcli.audio.resample import Samples
from voxcli.batch.casting import Casting
from voxcli.batch.folder import OutputFolder
from voxcli.batch.jobs import Job, Standing, Status
from voxcli.batch.keep import Keeper, RowInWork, Storage
from voxcli.batch.manifest import Manifest
from voxcli.batch.names import Namer
from voxcli.batch.preflight import Rules, check_table
from voxcli.batch.report import effective_values
from voxcli.batch.rows import Defaults
from voxcli.batch.tables import read_table
from voxcli.batch.takes import Take
from voxcli.config import EngineConfig, load_settings
from voxcli.engine.base import SpeechEngine
from voxcli.engine.choose import NATIVE, open_engine
from voxcli.utterance import FinishReason, SegmentReport

SENTENCE = Path(__file__).parents[1] / "samples" / "hello.wav"
WHO = ("The ferryman", "My sister", "A tall guest", "Nobody", "The old painter", "Our captain")
DOES = ("keeps a lamp by the door", "found three letters under the stairs", "lost the key at sea")
CHAPTER_S, SEED = 360, 1
LEVEL = ("--loudness", "audiobook")


def write_book(path: Path, num_chapters: int, num_sentences: int) -> None:
    words = cycle(f"{who} {does}." for who in WHO for does in DOES)
    chapters = (
        f"# Chapter {number}\n\n{' '.join(next(words) for _ in range(num_sentences))}\n"
        for number in range(1, num_chapters + 1)
    )
    path.write_text("---\ntitle: Hours\nauthor: Nobody\n---\n\n" + "\n".join(chapters), "utf-8")


def spoken(job: Job, engine: SpeechEngine, sentence: Samples, rate: int) -> Take:
    """A take of the job in which each sentence sounds like one recording."""
    plan = engine.plan(job.utterance)
    parts, reports, at = [], [], 0
    for segment in plan.text.segments:
        pause = np.zeros(round(max(segment.pause_s, 0.2) * rate), np.float32)
        sound = np.tile(sentence, segment.text.count("."))
        parts += [sound, pause]
        start_s, end_s = at / rate, (at + len(sound)) / rate
        reports.append(SegmentReport(
            segment.text, SEED, 1, 1, len(sound) / rate, FinishReason.STOP,
            start_s=start_s, end_s=end_s,
        ))  # fmt: skip
        at += len(sound) + len(pause)
    return Take(
        job, job.utterance, plan.text.text, plan.text.language, np.concatenate(parts), rate, 1,
        tuple(reports),
    )  # fmt: skip


def make_chapters(book: Path, out: Path) -> float:
    """Leave the folder as a run without `--mix` does; returns the seconds of audio in it."""
    samples, rate = soundfile.read(SENTENCE, dtype="float32")
    settings = load_settings({})
    with open_engine(NATIVE, EngineConfig(), settings) as engine:
        table = read_table(book)
        rules = Rules(
            Defaults(seed=SEED), engine, engine.model_checksum(), {"bits": None, "rate": None}
        )
        casting = Casting(rules.defaults, book.parent, named=engine.in_voice, imitate=None)  # type: ignore[arg-type]
        jobs = check_table(table, rules, casting, Namer(out, None))
        folder = OutputFolder(out)
        with folder.locked(), Manifest(out) as manifest:
            manifest.begin({"seed": SEED})
            keeper = Keeper(
                folder, manifest, Storage(), lambda job: effective_values(job, rules, casting), ()
            )
            return sum(
                keeper.finish(  # type: ignore[union-attr]
                    RowInWork(Standing(job, Status.PENDING)), spoken(job, engine, samples, rate)
                ).facts["audio_s"]
                for job in jobs
            )


def measured(*words: str) -> tuple[float, float]:
    """Seconds and peak memory in MB of a command, without those of ffmpeg, which it starts."""
    began_s = time.perf_counter()
    child = os.posix_spawn(
        sys.executable, [sys.executable, "-m", "voxcli", *words], os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )  # fmt: skip
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(os.waitstatus_to_exitcode(status))
    return time.perf_counter() - began_s, usage.ru_maxrss / 1024


def probed(path: Path) -> Iterator[tuple[float, float]]:
    """Start and end of each chapter, and of the whole, in seconds."""
    command = ["ffprobe", "-loglevel", "error", "-show_chapters", "-show_format", "-of", "json"]
    found = json.loads(subprocess.run([*command, path], capture_output=True, check=True).stdout)
    for chapter in found["chapters"]:
        yield float(chapter["start_time"]), float(chapter["end_time"])
    yield 0.0, float(found["format"]["duration"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=1.0, help="length of the book")
    parser.add_argument("--keep", type=Path, help="a folder for the files, which stay there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="book-hours-") as temporary:
        folder = options.keep or Path(temporary)
        book, out, mix = folder / "book.md", folder / "book", folder / "book.m4b"
        one_s = soundfile.info(SENTENCE).duration
        num_chapters = max(1, round(options.hours * 3600 / CHAPTER_S))
        write_book(book, num_chapters, round(CHAPTER_S / one_s))
        print(f"{num_chapters} chapters, {make_chapters(book, out) / 60:.1f} min of audio")
        command = ("batch", str(book), "-o", str(out), "--engine", "native", "--quiet",
                   "--seed", str(SEED), "--mix", str(mix), "--subtitles",
                   str(folder / "book.srt"))  # fmt: skip
        for words, more in (
            ("mix and subtitles", ()),
            ("levels of the chapters, mix and subtitles", LEVEL),
            ("mix and subtitles again, with the level", LEVEL),
        ):
            wall_s, memory = measured(*command, *more)
            print(f"{words}: {wall_s:.1f} s, {memory:.0f} MB")
        report = json.loads((out / "report.json").read_text("utf-8"))
        assert report["counts"]["kept"] == num_chapters, report["counts"]
        made, rate = report["timeline"], report["timeline"]["sample_rate"]
        expected = [(mark["start"] / rate, mark["stop"] / rate) for mark in made["chapters"]]
        expected.append((0.0, made["num_frames"] / rate))
        pairs = zip(probed(mix), expected, strict=True)
        worst_s = max(
            abs(a - b) for found, right in pairs for a, b in zip(found, right, strict=True)
        )
        size = mix.stat().st_size / 1e6
        print(f"marks and length: {1000 * worst_s:.1f} ms off at most, in {size:.1f} MB")
        print(f"level: {made['rms_db']} dB RMS, {made['shortfalls'] or 'nothing lacks'}")


if __name__ == "__main__":
    main()
