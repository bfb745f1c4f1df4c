"""Lines of a pipe as they arrive."""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Iterator

import pytest
from needs import PATIENCE_S

from voxcli.errors import UsageError
from voxcli.text import lines
from voxcli.text.lines import MAX_LINE_BYTES, NUM_AHEAD, Line, LineReader
from voxcli.text.whole import MAX_OPEN, whole_length

NUMBERS = itertools.count(500)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Its reading end has a number of its own: a reader left over may still read of another."""
    low, writing = os.pipe()
    reading = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, next(NUMBERS))
    os.close(low)
    yield reading, writing
    os.close(reading)


def all_lines(reader: LineReader) -> list[Line]:
    lines = []
    while not reader.is_over:
        line = reader.get(PATIENCE_S)
        if line is not None:
            lines.append(line)
    return lines


def test_a_line_is_there_before_the_next_one(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    os.write(pipe[1], "Grüße\r\nhalf a".encode())
    line = reader.get(PATIENCE_S)
    assert line is not None
    assert (line.number, line.text.strip()) == (1, "Grüße")
    assert reader.get(0) is None
    assert not reader.is_over
    os.write(pipe[1], b" line\n\nlast")
    os.close(pipe[1])
    rest = all_lines(reader)
    assert [(line.number, line.text) for line in rest] == [(2, "half a line"), (3, ""), (4, "last")]
    assert reader.is_over


def test_a_line_that_cannot_be_read_is_lost_alone(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    os.write(pipe[1], b"\xef\xbb\xbfone\ntw\xffo\nthree\n")
    os.close(pipe[1])
    one, two, three = all_lines(reader)
    assert (one.text, three.text) == ("one", "three")
    assert two.error is not None
    assert "line 2 of stdin" in two.error.message


def test_an_encoding_that_was_named_is_used(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], encoding="latin-1")
    os.write(pipe[1], "Grüße\n".encode("latin-1"))
    os.close(pipe[1])
    assert all_lines(reader)[0].text == "Grüße"


@pytest.mark.parametrize(("encoding", "hint"), [("utf-16", "iconv"), ("klingon", "such as")])
def test_an_encoding_without_lines_is_refused(
    pipe: tuple[int, int], encoding: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=hint):
        LineReader(pipe[0], encoding=encoding)
    os.close(pipe[1])


def test_a_line_without_end_takes_no_more_memory_than_the_limit(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    for _ in range(2 * MAX_LINE_BYTES // 65536):
        os.write(pipe[1], b"x" * 65536)
    os.write(pipe[1], b"\nnext\n")
    os.close(pipe[1])
    long, after = all_lines(reader)
    assert long.error is not None
    assert "1 MiB" in long.error.message
    assert after.text == "next"


def test_the_writer_is_held_up_when_nobody_takes_lines(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    os.set_blocking(pipe[1], False)
    line, num_written, deadline = b"y" * 32_000 + b"\n", 0, time.monotonic() + PATIENCE_S
    while num_written < 8_000_000:
        try:
            num_written += os.write(pipe[1], line)
        except BlockingIOError:
            if reader._lines.full():  # it takes nothing from the pipe until somebody takes a line
                break
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert num_written < 8_000_000
    os.close(pipe[1])
    assert len(all_lines(reader)) > NUM_AHEAD


# ------------------------------------------------------------------------ lines in parts


def in_parts(reading: int) -> LineReader:
    return LineReader(reading, whole_length=lambda text: whole_length(text, "en"))


def take(reader: LineReader) -> Line:
    line = reader.get(PATIENCE_S)
    assert line is not None
    return line


def test_a_sentence_is_there_before_its_line_ends(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PATIENCE_S", 0.0)
    reader = in_parts(pipe[0])
    os.write(pipe[1], b"It is done. That")
    assert take(reader) == Line(1, "It is done.", is_part=True)
    assert reader.get(0) is None
    os.write(pipe[1], b" was it. So")
    assert take(reader) == Line(1, " That was it.", is_part=True, is_rest=True)
    os.write(pipe[1], b" on.\n\nNext. ")
    assert take(reader) == Line(1, " So on.", is_rest=True)
    assert take(reader) == Line(2, "")
    assert take(reader) == Line(3, "Next.", is_part=True)
    os.write(pipe[1], b"\n")
    assert take(reader) == Line(3, " ", is_rest=True)
    os.close(pipe[1])
    assert all_lines(reader) == []


def test_a_line_whose_rest_is_on_its_way_stays_one(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PATIENCE_S", 60.0)
    reader = in_parts(pipe[0])
    os.write(pipe[1], b"It is done. That")
    time.sleep(0.05)  # it was read by itself, most likely
    os.write(pipe[1], b" was all.\n")
    assert take(reader) == Line(1, "It is done. That was all.")
    os.close(pipe[1])


def test_characters_may_be_cut_between_two_writes(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PATIENCE_S", 0.0)
    reader = in_parts(pipe[0])
    text = "Ein Gruß für Łódź. Noch ein Gruß.\n"
    for byte in text.encode():
        os.write(pipe[1], bytes([byte]))
    os.close(pipe[1])
    found = all_lines(reader)
    assert not any(line.error for line in found)
    assert "".join(line.text for line in found) == text.strip()


def test_a_line_that_cannot_be_read_is_refused_at_its_end_after_its_parts(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PATIENCE_S", 0.0)
    reader = in_parts(pipe[0])
    os.write(pipe[1], b"It is done. That \xff was. So")
    assert take(reader).text == "It is done."
    os.write(pipe[1], b" on.\nNext.\n")
    os.close(pipe[1])
    refused, after = all_lines(reader)
    assert refused.error is not None
    assert (refused.number, refused.is_rest, after.text) == (1, True, "Next.")


def test_a_writer_that_never_ends_a_line_is_heard_in_bounded_parts(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PATIENCE_S", 0.0)
    reader = in_parts(pipe[0])
    for _ in range(3 * MAX_OPEN // 10):
        os.write(pipe[1], b"and so on ")
    first, second = take(reader), take(reader)
    assert first.is_part
    assert second.is_part
    assert len(first.text) <= MAX_OPEN
    os.close(pipe[1])
    whole = [first, second, *all_lines(reader)]
    assert "".join(line.text for line in whole) == "and so on " * (3 * MAX_OPEN // 10)
