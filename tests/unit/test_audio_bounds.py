"""What a recording from a stranger may cost: time, memory, and no wait without end."""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voxcli.audio.clips import ClipReader
from voxcli.audio.read import decode_audio
from voxcli.errors import OutputError, RecordingError

FORMATS = {"FLAC": "PCM_16", "OGG": "VORBIS", "WAV": "PCM_16", "MP3": "MPEG_LAYER_III"}
RATE = 16_000


def silence(container: str, seconds: float, channels: int, rate: int = RATE) -> bytes:
    """A recording that is as small as its format allows."""
    data = io.BytesIO()
    with soundfile.SoundFile(
        data, "w", rate, channels, FORMATS[container], format=container
    ) as file:
        left = round(seconds * rate)
        while left > 0:
            file.write(np.zeros((min(left, rate), channels), np.float32))
            left -= rate
    return data.getvalue()


@pytest.mark.parametrize("container", ["FLAC", "OGG"])
def test_memory_is_that_of_one_channel_however_many_there_are(container: str) -> None:
    data = silence(container, 60, 8, 48_000)
    assert len(data) < 100_000
    tracemalloc.start()
    audio = decode_audio(data, "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert audio.channels == 8
    assert peak < 4 * audio.samples.nbytes  # 60 s of one channel are 11.5 MB, of eight 92


@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(
    container=st.sampled_from(sorted(FORMATS)),
    channels=st.integers(1, 2),
    seconds=st.floats(0.2, 6),
    max_s=st.floats(0.1, 6),
)
def test_what_is_longer_than_the_limit_is_refused_and_nothing_else(
    container: str, channels: int, seconds: float, max_s: float
) -> None:
    data = silence(container, seconds, channels)
    coded_s = 0.1 if container == "MP3" else 0.001  # whole frames of a codec
    if seconds > max_s + coded_s:
        with pytest.raises(RecordingError, match=r"at most .* can be used"):
            decode_audio(data, "a", max_s=max_s)
    elif seconds < max_s - coded_s:
        assert decode_audio(data, "a", max_s=max_s).duration_s == pytest.approx(seconds, abs=0.1)


def test_a_length_that_the_file_states_is_not_decoded_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("it was decoded")

    data = silence("FLAC", 100, 2)
    monkeypatch.setattr(soundfile.SoundFile, "read", read)
    with pytest.raises(RecordingError, match=r"a is 100\.0 s long, at most 60 s can be used"):
        decode_audio(data, "a", max_s=60.0)


def test_a_length_that_a_file_understates_is_found_out() -> None:
    data = bytearray(silence("FLAC", 100, 1))
    data[21] &= 0xF0  # the number of samples in the header: 36 bits, 0 means that it is not known
    data[22:26] = bytes(4)
    with pytest.raises(RecordingError, match=r"at most 60 s can be used"):
        decode_audio(bytes(data), "a", max_s=60.0)


def test_a_file_with_hundreds_of_channels_is_refused() -> None:
    with pytest.raises(RecordingError, match=r"200 channels, at most 64"):
        decode_audio(silence("WAV", 0.1, 200), "a")


@pytest.mark.parametrize("rate", [1, 900, 400_000, 2_000_000_000])
def test_a_rate_that_nobody_records_at_is_refused_before_anything_is_decoded(rate: int) -> None:
    """A header may state any, and with a large one hours of samples last a moment."""
    data = bytearray(silence("WAV", 1.0, 1))
    at = data.index(b"fmt ") + 12
    struct.pack_into("<II", data, at, rate, min(2 * rate, 2**32 - 1))
    with pytest.raises(RecordingError, match="samples a second"):
        decode_audio(bytes(data), "the recording", max_s=60.0)


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("is_ended", [True, False])
def test_a_file_that_names_other_files_opens_none_and_is_not_waited_for(
    tmp_path: Path, is_ended: bool
) -> None:
    other = tmp_path / "other.mp3"
    other.write_bytes(silence("MP3", 4.0, 1))
    playlist = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:100000\n"
    playlist += f"#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10,\n{other}\n\x01\n"
    playlist += "#EXT-X-ENDLIST\n" * is_ended
    script = f"ffconcat version 1.0\nfile '{other}'\n\x01\n"
    for text in (playlist, script):
        with pytest.raises(RecordingError, match="no audio format"):
            decode_audio(text.encode(), "the recording")


@pytest.mark.usefixtures("ffmpeg")
def test_a_full_disk_is_no_fault_of_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="no space left"):
        decode_audio(b"\0\0\0\x20ftypM4A \0\0", "the recording")


@pytest.fixture
def chatty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ffmpeg that says more than a pipe can hold, before, beside and after two seconds of sound;
    it fails where the file's name says so."""
    head = struct.pack(">4s5I", b".snd", 32, 0xFFFFFFFF, 6, RATE, 1)
    code = f"""#!{sys.executable}
import sys
def chat():
    sys.stderr.write(("a damaged packet" + chr(10)) * 20_000)
    sys.stderr.flush()
chat()
sys.stdout.buffer.write({head!r} + bytes(8))
for _ in range(2):
    sys.stdout.buffer.write(bytes({4 * RATE}))
    chat()
print("the last word", file=sys.stderr)
sys.exit("bad" in " ".join(sys.argv))
"""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ffmpeg", "ffprobe"):
        (folder / name).write_text(code, "utf-8")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.timeout(60)
def test_a_decoder_that_says_much_holds_nobody_up(chatty: Path) -> None:
    (chatty / "clip.ts").write_bytes(b"\x47" * 1000)
    with ClipReader(chatty / "clip.ts", RATE) as clip:
        assert len(clip.read(10 * RATE)) == 2 * RATE
    audio = decode_audio(b"\x1a\x45\xdf\xa3" + bytes(1000), "a")
    assert audio.duration_s == 2.0
    (chatty / "bad.ts").write_bytes(b"\x47" * 1000)
    with (
        ClipReader(chatty / "bad.ts", RATE) as clip,
        pytest.raises(RecordingError, match=r"ffmpeg cannot decode .*: the last word"),
    ):
        clip.read(10 * RATE)
    with ClipReader(chatty / "clip.ts", RATE) as clip:  # closed before its end
        clip.read(100)
