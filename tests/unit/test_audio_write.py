"""AudioWriter: a file that is complete and sound, or none."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxcli.audio import encode, files
from voxcli.audio.formats import FORMATS
from voxcli.audio.resample import Samples
from voxcli.audio.write import AudioWriter, WrittenAudio
from voxcli.errors import OutputError, OutputExistsError, SynthesisError

RATE = 24_000
SAMPLES = Path(__file__).parents[2] / "samples"
TONE: Samples = (0.5 * np.sin(2 * np.pi * 220 * np.arange(RATE) / RATE)).astype(np.float32)

needs_ffmpeg = pytest.mark.usefixtures("ffmpeg")
SNDFILE_FORMATS = [name for name, entry in FORMATS.items() if entry.encoder != "ffmpeg"]
FFMPEG_FORMATS = [name for name, entry in FORMATS.items() if entry.encoder == "ffmpeg"]


def put(path: Path, samples: Samples = TONE, **options: object) -> WrittenAudio:
    with AudioWriter(path, RATE, **options) as writer:  # type: ignore[arg-type]
        for start in range(0, len(samples), 999):
            writer.write(samples[start : start + 999])
        return writer.commit()


def correlation(left: Samples, right: Samples) -> float:
    length = min(len(left), len(right))
    return float(np.corrcoef(left[:length], right[:length])[0, 1])


@pytest.mark.parametrize("name", SNDFILE_FORMATS)
def test_written_file_holds_what_was_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"a.{name}"
    written = put(path, rate=RATE)
    read, rate = soundfile.read(path, dtype="float32")
    assert (rate, len(read)) == (RATE, len(TONE))
    assert correlation(read, TONE) > 0.99
    assert written.num_frames == len(TONE)
    assert written.rms_dbfs == pytest.approx(-9.03, abs=0.3)
    assert os.listdir(tmp_path) == [path.name]


@needs_ffmpeg
def test_an_mp3_sounds_the_same_in_every_player(tmp_path: Path) -> None:
    speech, rate = soundfile.read(SAMPLES / "hello.wav", dtype="float32")
    with AudioWriter(tmp_path / "a.mp3", rate) as writer:
        writer.write(speech)
        writer.commit()
    mpg123, _ = soundfile.read(tmp_path / "a.mp3", dtype="float32")
    command = ["ffmpeg", "-v", "error", "-i", tmp_path / "a.mp3", "-f", "f32le", "pipe:1"]
    ffmpeg = np.frombuffer(subprocess.run(command, capture_output=True).stdout, "<f4")
    assert len(ffmpeg) == len(mpg123)
    assert np.abs(ffmpeg - mpg123).max() < 1e-4


def test_reading_back_an_mp3_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loud = np.random.default_rng(0).standard_normal(10 * RATE) * np.sin(np.arange(10 * RATE) / 2e3)
    for rate in (16_000, 22_050, RATE):
        put(tmp_path / f"{rate}.mp3", (0.1 * loud).astype(np.float32), rate=rate)
    assert capfd.readouterr() == ("", "")


def test_a_hidden_file_with_a_name_is_fine(tmp_path: Path) -> None:
    assert put(tmp_path / ".draft.wav").num_frames == len(TONE)


@needs_ffmpeg
@pytest.mark.parametrize("name", FFMPEG_FORMATS)
def test_ffmpeg_formats_decode_and_leave_nothing_else(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"a.{name}"
    assert put(path).rms_dbfs == pytest.approx(-9.0, abs=0.5)
    found = encode.measure(path, FORMATS[name])
    assert abs(found.num_frames - len(TONE)) <= encode.FFMPEG_SLACK
    assert os.listdir(tmp_path) == [path.name]
    assert capfd.readouterr() == ("", "")


@needs_ffmpeg
def test_failed_conversion_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "LOSSY_BITRATE", "no-bitrate")
    with pytest.raises(OutputError, match="ffmpeg cannot write m4a"):
        put(tmp_path / "a.m4a")
    assert os.listdir(tmp_path) == []


INTERRUPTED = """
import os, signal, sys, threading
from pathlib import Path
import numpy as np
from voxcli.audio.write import AudioWriter

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
for number in STOPS:
    signal.signal(number, lambda number, frame: None)
is_done = threading.Event()

def interrupt():
    while not is_done.wait(0.005):
        for number in STOPS:
            os.killpg(0, number)

threading.Thread(target=interrupt).start()
try:
    with AudioWriter(Path(sys.argv[1]), 24000) as writer:
        for _ in range(5):
            writer.write(np.full(24000, 0.1, np.float32))
        print(writer.commit().num_frames)
finally:
    is_done.set()
"""


@needs_ffmpeg
def test_a_stop_of_all_programs_does_not_end_what_ffmpeg_writes_and_reads(tmp_path: Path) -> None:
    """A terminal's Ctrl-C and a service's stop are for all; what is in progress is finished."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "a.m4b")]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout) == (0, f"{5 * 24000}\n"), done.stderr


@pytest.mark.parametrize(("bits", "step"), [("8", 2**-7), ("16", 2**-15), ("24", 2**-23)])
@pytest.mark.parametrize("name", ["wav", "flac"])
def test_integer_formats_round_to_nearest(
    tmp_path: Path, name: str, bits: str, step: float
) -> None:
    if name == "flac" and bits == "8":
        return  # flac has no 8 bits here
    noise = np.random.default_rng(0).uniform(-0.9, 0.9, 5000).astype(np.float32)
    put(tmp_path / f"a.{name}", noise, bits=bits)
    read, _ = soundfile.read(tmp_path / f"a.{name}", dtype="float64")
    assert np.abs(read - noise).max() <= step / 2 + 1e-12


@pytest.mark.parametrize("bits", ["8", "16", "24", "32f"])
def test_overshoot_is_clipped_never_wrapped(tmp_path: Path, bits: str) -> None:
    loud = 3 * TONE
    written = put(tmp_path / "a.wav", loud, bits=bits)
    read, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
    assert written.peak <= 1.0
    assert np.all(np.sign(read[np.abs(loud) > 0.1]) == np.sign(loud[np.abs(loud) > 0.1]))
    subtype = {"8": "PCM_U8", "16": "PCM_16", "24": "PCM_24", "32f": "FLOAT"}[bits]
    assert soundfile.info(tmp_path / "a.wav").subtype == subtype


@pytest.mark.parametrize("bits", ["8", "16", "24", "32f"])
def test_same_samples_give_the_same_wav_bytes(tmp_path: Path, bits: str) -> None:
    put(tmp_path / "a.wav", TONE[:1001], bits=bits)
    put(tmp_path / "b.wav", TONE[:1001], bits=bits)
    data = (tmp_path / "a.wav").read_bytes()
    assert data == (tmp_path / "b.wav").read_bytes()
    assert len(data) % 2 == 0
    assert int.from_bytes(data[4:8], "little") == len(data) - 8


@pytest.mark.parametrize("source", [24_000, 44_100, 48_000])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("size", [480, 7919])
def test_resampling_keeps_duration_and_wave(
    tmp_path: Path, source: int, rate: int, size: int
) -> None:
    wave = (0.5 * np.sin(2 * np.pi * 220 * np.arange(source + 17) / source)).astype(np.float32)
    with AudioWriter(tmp_path / "a.wav", source, rate=rate) as writer:
        for start in range(0, len(wave), size):
            writer.write(wave[start : start + size])
        written = writer.commit()
    assert abs(written.audio_s - len(wave) / source) < 0.001
    read, read_rate = soundfile.read(tmp_path / "a.wav", dtype="float32")
    assert read_rate == rate == written.sample_rate
    expected = 0.5 * np.sin(2 * np.pi * 220 * np.arange(len(read)) / rate)
    assert correlation(read, expected.astype(np.float32)) > 0.999


def test_format_that_cannot_take_the_rate_is_resampled(tmp_path: Path) -> None:
    with AudioWriter(tmp_path / "a.opus", 44_100) as writer:
        writer.write(TONE)
        assert writer.commit().sample_rate == 48_000


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put(tmp_path / "a.wav")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.wav").stat().st_mode) == 0o640


def _raise(err: BaseException) -> Callable[..., None]:
    def fail(*args: object, **options: object) -> None:
        raise err

    return fail


@pytest.mark.parametrize("err", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "ogg"])
def test_leaving_early_leaves_no_file(tmp_path: Path, name: str, err: type[BaseException]) -> None:
    def speak() -> None:
        with AudioWriter(tmp_path / f"a.{name}", RATE) as writer:
            writer.write(TONE)
            raise err

    with pytest.raises(err):
        speak()
    assert os.listdir(tmp_path) == []


def test_leaving_without_commit_leaves_no_file(tmp_path: Path) -> None:
    with AudioWriter(tmp_path / "a.wav", RATE) as writer:
        writer.write(TONE)
        assert len(os.listdir(tmp_path)) == 1
        assert os.listdir(tmp_path)[0].startswith(".a.wav.")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("where", ["create", "publish", "_sync"])
@pytest.mark.parametrize("err", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_failure_at_any_step_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, err: BaseException
) -> None:
    monkeypatch.setattr(files, where, _raise(err))
    expected = OutputError if isinstance(err, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        put(tmp_path / "a.wav")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", SNDFILE_FORMATS)
def test_full_disk_is_an_output_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # A limit on the file size fails in the same system call as a full disk, without mounting one.
    # As on a real one, space is short only while the temporary file is there.
    monkeypatch.setattr(files, "_is_full", lambda folder: any(folder.iterdir()))
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 8 * RATE).astype(np.float32)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OutputError, match="file too large" if name == "wav" else "no space"):
            put(tmp_path / f"a.{name}", noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_no_space_names_the_reason_and_the_way_out(tmp_path: Path) -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError) as caught:
        full.write(b"RIFF")
    error = files.output_error(caught.value, tmp_path / "a.wav")
    assert error.exit_code == 5
    assert "no space left" in str(error)
    assert "free some disk space" in str(error)


@pytest.mark.parametrize("samples", [np.zeros(RATE, np.float32), 1e-4 * TONE])
def test_silence_is_not_written(tmp_path: Path, samples: Samples) -> None:
    with pytest.raises(SynthesisError, match="silent"):
        put(tmp_path / "a.wav", samples)
    assert os.listdir(tmp_path) == []


def test_no_audio_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="no audio"):
        put(tmp_path / "a.wav", TONE[:0])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_is_not_written(tmp_path: Path, value: float) -> None:
    bad = TONE.copy()
    bad[777] = value
    with pytest.raises(SynthesisError, match="NaN"):
        put(tmp_path / "a.wav", bad)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["wav", "flac", "ogg"])
def test_damaged_file_never_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    measure = encode.measure

    def damage(path: Path, *rest: Any) -> encode.Measured:
        os.truncate(path, path.stat().st_size // 2)
        return measure(path, *rest)

    monkeypatch.setattr(encode, "measure", damage)
    with pytest.raises(OutputError):
        put(tmp_path / f"a.{name}")
    assert os.listdir(tmp_path) == []


def test_existing_file_is_kept_without_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"mine")
    with pytest.raises(OutputExistsError, match="--overwrite"):
        put(path)
    assert path.read_bytes() == b"mine"
    put(path, overwrite=True)
    assert soundfile.info(path).frames == len(TONE)
    assert os.listdir(tmp_path) == ["a.wav"]


@pytest.mark.parametrize("has_links", [True, False])
def test_file_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    path = tmp_path / "a.wav"
    if not has_links:
        monkeypatch.setattr(os, "link", _raise(OSError(1, "Operation not permitted")))
    with AudioWriter(path, RATE) as writer:
        writer.write(TONE)
        path.write_bytes(b"theirs")
        with pytest.raises(OutputExistsError):
            writer.commit()
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_file_system_without_hard_links_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _raise(OSError(1, "Operation not permitted")))
    put(tmp_path / "a.wav")
    assert soundfile.info(tmp_path / "a.wav").frames == len(TONE)
    assert os.listdir(tmp_path) == ["a.wav"]


def test_failed_replacement_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"mine")
    monkeypatch.setattr(os, "replace", _raise(OSError(28, "No space left on device")))
    with pytest.raises(OutputError, match="no space left"):
        put(path, overwrite=True)
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_overwriting_a_link_replaces_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "b.wav"
    real.write_bytes(b"old")
    link = tmp_path / "a.wav"
    link.symlink_to(real)
    put(link, overwrite=True)
    assert link.is_symlink()
    assert soundfile.info(real).frames == len(TONE)


def test_longest_name_is_writable(tmp_path: Path) -> None:
    path = tmp_path / ("语" * 83 + ".wav")
    put(path)
    assert path.exists()
