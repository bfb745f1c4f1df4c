"""MP3 files are read to their end, whatever they state of their length."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxcli.audio import clips, read
from voxcli.audio.mp3 import with_length
from voxcli.server.encode import choose_coding

RATE, SECONDS = 24_000, 12.0
CODEC_S = 0.15  # what the codec adds at both ends


def speech(seconds: float = SECONDS) -> np.ndarray:
    """Loud and silent in turn, so that frames of a variable rate differ."""
    at = np.arange(round(RATE * seconds)) / RATE
    return (0.3 * np.sin(1400 * at) * (np.sin(5 * at) > 0)).astype(np.float32)


def streamed(samples: np.ndarray) -> bytes:
    encoder = choose_coding("mp3", RATE, None).stream(RATE)
    parts = [encoder.encode(block) for block in np.array_split(samples, 40)]
    parts.append(encoder.finish())
    encoder.close()
    return b"".join(parts)


def whole(samples: np.ndarray, *, channels: int = 1, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.stack([samples] * channels, axis=1), rate, format="MP3")
    return file.getvalue()


def counted(data: bytes, count: int) -> bytes:
    """The same with another number of frames in its header."""
    at = max(data.find(b"Xing"), data.find(b"Info"))
    return data[: at + 8] + struct.pack(">I", count) + data[at + 12 :]


@pytest.fixture(autouse=True)
def without_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    """libsndfile reads all of these, also where nothing else could."""
    for module in (read, clips):
        monkeypatch.setattr(module, "has_ffmpeg", lambda: False)


@pytest.mark.parametrize("prefix", [b"", b"ID3\x04\0\0\0\0\x02\0" + bytes(256)])
def test_a_stream_without_a_length_is_read_to_its_end(prefix: bytes, tmp_path: Path) -> None:
    data = prefix + streamed(speech())
    (tmp_path / "a.mp3").write_bytes(data)
    assert soundfile.info(tmp_path / "a.mp3").duration < SECONDS / 2  # else this shows nothing
    assert read.decode_audio(data, "it").duration_s == pytest.approx(SECONDS, abs=CODEC_S)


def test_a_clip_without_a_length_is_read_to_its_end_and_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bed.mp3").write_bytes(streamed(speech()))
    capfd.readouterr()
    with clips.ClipReader(tmp_path / "bed.mp3", RATE) as clip:
        assert len(clip.read(RATE * 60)) / RATE == pytest.approx(SECONDS, abs=CODEC_S)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100])
@pytest.mark.parametrize("count", [5, 100_000])
def test_a_wrong_count_is_corrected(channels: int, rate: int, count: int) -> None:
    data = counted(whole(speech(), channels=channels, rate=rate), count)
    found = read.decode_audio(data, "it")
    assert found.duration_s == pytest.approx(len(speech()) / rate, abs=2 * CODEC_S)
    assert np.abs(found.samples[-found.sample_rate :]).max() < 1.0


@pytest.mark.parametrize("name", ["a.mp3", "a.wav", "a"])
@pytest.mark.parametrize("channels", [1, 2])
def test_an_mp3_of_any_name_is_read(tmp_path: Path, name: str, channels: int) -> None:
    (tmp_path / name).write_bytes(whole(speech(2.0), channels=channels))
    assert read.read_audio(tmp_path / name).duration_s == pytest.approx(2.0, abs=CODEC_S)
    with clips.ClipReader(tmp_path / name, RATE) as clip:
        assert len(clip.read(RATE * 9)) / RATE == pytest.approx(2.0, abs=CODEC_S)


def test_a_part_of_a_file_is_as_long_as_what_is_there() -> None:
    data = whole(speech())
    found = read.decode_audio(data[: len(data) // 2], "it").duration_s
    assert found == pytest.approx(SECONDS / 2, rel=0.2)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"ID3", b"ID3" + bytes(40), b"\xff\xfb", b"\xff\xfb\x98\xc4", b"\xff\xfb\x98\xc4" * 50,
        b"\xff" * 3000, b"RIFF" + bytes(100),
    ],
)  # fmt: skip
def test_what_is_no_row_of_frames_is_left_alone(data: bytes) -> None:
    assert with_length(data) == data


def test_a_file_that_states_its_length_is_left_alone() -> None:
    data = whole(speech(2.0))
    assert with_length(data) is data
    assert with_length(with_length(streamed(speech(2.0)))) == with_length(streamed(speech(2.0)))
