"""Answers read from bytes: any split gives the same samples, and garbage ends in an error."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable
from itertools import pairwise, repeat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.audio import pcm, wav
from voxcli.engine.openai import answer
from voxcli.engine.openai.answer import EventReader, FileReader, PlainReader, Reader, reader_of
from voxcli.engine.openai.failures import MAX_SHOWN, failure
from voxcli.engine.openai.sse import MAX_EVENT, EventParser
from voxcli.engine.openai.waves import CutError, PcmReader, WavReader
from voxcli.errors import (
    BusyError,
    EngineError,
    NotServedError,
    UnavailableError,
    UsageError,
    VoxError,
)
from voxcli.server.encode import choose_coding

RATE = 24_000
NAME = "the server"

cases = settings(max_examples=60, deadline=None, derandomize=True, database=None)
cuts = st.lists(st.integers(0, 1 << 16), max_size=20)
integers = st.lists(st.integers(-32768, 32767), max_size=60).map(lambda v: np.array(v, "<i2"))


def parts(data: bytes, at: list[int]) -> list[bytes]:
    """The bytes in pieces, some of them empty."""
    borders = [0, *sorted(each % (len(data) + 1) for each in at), len(data)]
    return [data[a:b] for a, b in pairwise(borders)]


def read(reader: Reader | WavReader | PcmReader, pieces: list[bytes]) -> np.ndarray:
    return np.concatenate([*(reader.feed(piece) for piece in pieces), reader.finish()])


def wav_file(samples: np.ndarray, *, is_streamed: bool, extra: bytes = b"") -> bytes:
    """With chunks besides those that are needed, before and after the samples."""
    header = wav.wav_header(RATE, "16", None if is_streamed else len(samples))
    head, rest = header[:12], header[12:]
    more = b"" if is_streamed else b"LIST\x02\x00\x00\x00ab"
    return head + extra + rest + samples.tobytes() + more


def events(samples: np.ndarray, sizes: list[int], end: str = "\n") -> bytes:
    """A WAV stream in deltas of these sizes, and done."""
    data = wav_file(samples, is_streamed=True)
    lines = [": a comment", ""]
    for part in parts(data, sizes):
        delta = {"type": "speech.audio.delta", "audio": base64.b64encode(part).decode()}
        lines += ["event: speech.audio.delta", f"data: {json.dumps(delta)}", ""]
    done = {"type": "speech.audio.done", "usage": {"output_tokens": 3}}
    lines += [f"data:{json.dumps(done)}", "", ""]
    return end.join(lines).encode()


def feed_all(reader: Reader | WavReader | EventParser, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        reader.feed(piece)


# ---------------------------------------------------------------- any split


@cases
@given(integers, cuts, st.booleans(), st.sampled_from([b"", b"junk\x03\x00\x00\x00abc\x00"]))
def test_a_wav_is_the_same_however_it_is_split(
    samples: np.ndarray, at: list[int], is_streamed: bool, extra: bytes
) -> None:
    reader = WavReader()
    data = wav_file(samples, is_streamed=is_streamed or not len(samples), extra=extra)
    assert np.array_equal(read(reader, parts(data, at)) * 32768, samples)
    assert reader.rate == RATE


@cases
@given(st.lists(integers.filter(len), min_size=1, max_size=4), cuts)
def test_files_one_behind_the_other_are_one(files: list[np.ndarray], at: list[int]) -> None:
    data = b"".join(wav_file(each, is_streamed=False) for each in files)
    found = read(WavReader(), parts(data, at)) * 32768
    assert np.array_equal(found, np.concatenate(files))


def test_what_stands_behind_the_samples_of_a_file_is_neither_heard_nor_kept() -> None:
    reader = WavReader()
    data = wav_file(np.ones(3, "<i2"), is_streamed=False) + b"LIST\xff\xff\xff\xff"
    assert len(reader.feed(data)) == 3
    for _ in range(1000):
        assert not len(reader.feed(b"RIFF" * 1000))
    assert len(reader._head) < 10
    assert not len(reader.finish())


@cases
@given(integers, cuts, cuts, st.sampled_from(["\n", "\r\n", "\r"]))
def test_events_are_the_same_however_they_are_split(
    samples: np.ndarray, sizes: list[int], at: list[int], end: str
) -> None:
    reader = EventReader(None, NAME)
    data = events(samples, sizes, end)
    assert np.array_equal(read(reader, parts(data, at)) * 32768, samples)
    assert reader.is_done
    assert reader.num_tokens == 3


@cases
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)), cuts)
def test_data_of_events_comes_whole(texts: list[str], at: list[int]) -> None:
    data = "".join(f"id: 1\ndata: {text}\r\ndata:b\n\n" for text in texts).encode()
    parser = EventParser()
    found = [event for part in parts(data, at) for event in parser.feed(part)]
    assert found == [f"{text}\nb".encode() for text in texts]


@pytest.mark.parametrize("bits", ["16", "24", "32f"])
@pytest.mark.parametrize("num_channels", [1, 2])
@cases
@given(at=cuts)
def test_samples_of_other_kinds_are_read(bits: str, num_channels: int, at: list[int]) -> None:
    samples = np.linspace(-0.9, 0.9, 40, dtype=np.float32)
    header = bytearray(wav.wav_header(RATE, bits, None))
    struct.pack_into("<H", header, 22, num_channels)
    data = bytes(header) + pcm.quantise(np.repeat(samples, num_channels), bits)
    found = read(WavReader(), parts(data, at))
    assert np.abs(found - samples).max() <= 2**-15


def test_a_whole_file_of_another_kind_is_read() -> None:
    import io

    import soundfile

    samples = np.sin(np.arange(2400) / 20).astype(np.float32) / 2
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, "PCM_16", format="FLAC")
    reader = reader_of({"content-type": "audio/flac"}, NAME)
    assert isinstance(reader, FileReader)
    assert np.abs(read(reader, parts(file.getvalue(), [9, 500])) - samples).max() < 1e-4
    assert reader.rate == RATE


def test_an_mp3_that_was_streamed_is_heard_to_its_end_and_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    at = np.arange(12 * RATE) / RATE
    samples = (0.3 * np.sin(1400 * at) * (np.sin(5 * at) > 0)).astype(np.float32)
    encoder = choose_coding("mp3", RATE, None).stream(RATE)
    data = b"".join([encoder.encode(samples), encoder.finish()])
    encoder.close()
    capfd.readouterr()
    reader = reader_of({"content-type": "audio/mpeg"}, NAME)
    found = read(reader, [data])
    assert len(found) / (reader.rate or 0) == pytest.approx(12, abs=0.15)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "audio/pcm;rate=16000;channels=1"},
        {"content-type": "audio/pcm", "x-sample-rate": "16000"},
    ],
)
def test_raw_samples_have_the_rate_that_is_stated(headers: dict[str, str]) -> None:
    reader = reader_of(headers, NAME)
    assert reader.rate == 16_000
    assert np.array_equal(read(reader, [b"\0", b"\x40\0\0"]), [0.5, 0.0])


# ---------------------------------------------------------------- what is cut, or is none


@cases
@given(integers.filter(len), st.data())
def test_a_file_that_ends_too_early_is_cut(samples: np.ndarray, data: st.DataObject) -> None:
    whole = wav.wav_header(RATE, "16", len(samples)) + samples.tobytes()
    length = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(CutError):
        read(WavReader(), [whole[:length]])


@cases
@given(integers, cuts, st.data())
def test_events_without_an_end_are_cut(
    samples: np.ndarray, sizes: list[int], data: st.DataObject
) -> None:
    whole = events(samples, sizes)
    with pytest.raises(CutError):
        read(EventReader(None, NAME), [whole[: data.draw(st.integers(0, len(whole) - 2))]])


READERS: list[Callable[[], Reader]] = [
    lambda: EventReader(None, NAME),
    lambda: PlainReader(WavReader()),
    lambda: PlainReader(PcmReader(RATE)),
    FileReader,
]
garbage = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=60).map(lambda b: b"RIFF\0\0\0\0WAVE" + b),
    st.binary(max_size=60).map(lambda b: wav.wav_header(RATE, "16", None)[:20] + b),
    st.binary(max_size=60).map(lambda b: b"data: " + b + b"\n\n"),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["type", "audio", "error", "usage"]), inner),
        max_leaves=5,
    ).map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n"),
)


@cases
@given(st.sampled_from(READERS), garbage, cuts)
def test_garbage_is_samples_or_an_error_and_nothing_else(
    new: Callable[[], Reader], data: bytes, at: list[int]
) -> None:
    try:
        found = read(new(), parts(data, at))
    except (ValueError, VoxError):
        return
    assert found.dtype == np.float32
    assert found.ndim == 1


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"usage":' + b'{"a":' * 100_000 + b"\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"audio": "AAA"}\n\n',
        b'data: {"audio": "AA=A"}\n\n',
        b"data: \xff\xfe\n\n",
        b'data: {"audio": "AAAAAAAAAAAAAAAAAAAA"}\n\n',
    ],
)
def test_spoilt_events_are_errors(data: bytes) -> None:
    with pytest.raises(ValueError):
        EventReader(None, NAME).feed(data)


def test_an_event_without_end_is_not_kept() -> None:
    with pytest.raises(ValueError, match="no end"):
        feed_all(EventParser(), repeat(b"x" * (1 << 20), 2 + MAX_EVENT // (1 << 20)))


def test_an_event_of_endless_lines_is_not_kept() -> None:
    line = b"data: " + b"x" * (1 << 20) + b"\n"
    for lines in (line, b"data\n" * (1 << 18)):
        with pytest.raises(ValueError, match="no end"):
            feed_all(EventParser(), repeat(lines, 2 + MAX_EVENT // (1 << 20)))


def test_a_header_without_end_is_not_kept() -> None:
    reader = WavReader()
    reader.feed(b"RIFF\0\0\0\0WAVE")
    with pytest.raises(ValueError, match="header is too long"):
        feed_all(reader, repeat(b"junk\x02\0\0\0ab" * 100, 1000))


def test_a_file_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MAX_FILE", 1000)
    with pytest.raises(ValueError, match="too long"):
        feed_all(FileReader(), repeat(b"x", 1001))


@pytest.mark.parametrize("kind", ["text/html", "application/json", "", "audio/aac", "AUDIO/L16"])
def test_a_type_that_is_no_speech_is_named(kind: str) -> None:
    with pytest.raises(EngineError, match="not speech") as caught:
        reader_of({"content-type": f"{kind}; charset=utf-8"}, NAME)
    assert not isinstance(caught.value, UnavailableError)


def test_an_answer_that_is_compressed_is_refused_and_not_heard_as_samples() -> None:
    headers = {"content-type": "audio/pcm;rate=24000"}
    for packed in ("gzip", "br", "identity, gzip"):
        with pytest.raises(EngineError, match="compresses"):
            reader_of({**headers, "content-encoding": packed}, NAME)
    assert reader_of({**headers, "content-encoding": "identity"}, NAME).rate == 24_000


# ---------------------------------------------------------------- refusals


@cases
@given(st.integers(300, 599), st.binary(max_size=400), st.text(max_size=30))
def test_any_refusal_is_one_short_line(status: int, body: bytes, after: str) -> None:
    found = failure(status, {"retry-after": after, "location": after}, body, NAME)
    assert found.message.isprintable()
    assert len(found.message) < MAX_SHOWN + 100


@cases
@given(st.integers(0, 5000))
def test_nested_refusals_are_one_short_line(depth: int) -> None:
    found = failure(400, {}, b'{"error":' * depth + b"1" + b"}" * depth, NAME)
    assert len(found.message) < MAX_SHOWN + 100


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, UsageError), (401, NotServedError), (403, NotServedError), (404, NotServedError),
        (409, UsageError), (413, UsageError), (422, UsageError), (302, NotServedError),
        (408, UnavailableError), (500, UnavailableError), (502, UnavailableError),
        (503, UnavailableError), (504, UnavailableError), (507, UnavailableError),
        (429, BusyError),
    ],
)  # fmt: skip
def test_each_status_has_its_error(status: int, kind: type[VoxError]) -> None:
    assert type(failure(status, {}, b"", NAME)) is kind


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("2", 2, 2), ("-1", 0, 0), ("1e9", 600, 600), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0)],
)
def test_when_to_ask_again_is_read_and_bounded(value: str, least: float, most: float) -> None:
    found = failure(503, {"retry-after": value}, b"", NAME)
    assert least <= found.retry_after_s <= most  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["nan", "inf", "soon", ""])
def test_a_word_that_is_no_time_is_none(value: str) -> None:
    assert failure(429, {"retry-after": value}, b"", NAME).retry_after_s is None  # type: ignore[attr-defined]
