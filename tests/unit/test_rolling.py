"""Captions as video sites make them, in every format they are saved in: each word once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from voxcli.batch.cues import read_cues

Cue = tuple[float, float, list[str]]


def youtube(chance: random.Random, lines: list[str]) -> Iterator[Cue]:
    """Two lines of which the upper one is the last one again, and a cue of 10 ms between."""
    at_s, before = chance.uniform(0, 5), " "
    for line in lines:
        end_s = at_s + 0.3 * len(line.split()) + chance.uniform(0, 1)
        yield at_s, end_s, [before, line]
        yield end_s, end_s + 0.01, [line, " "]
        at_s, before = end_s + 0.01, line
        if chance.random() < 0.15:
            at_s += chance.uniform(0.2, 6)
            before = chance.choice([line, " "])


def three_lines(chance: random.Random, lines: list[str]) -> Iterator[Cue]:
    """A window of three lines that moves by one."""
    at_s = 0.0
    for index in range(len(lines)):
        end_s = at_s + chance.uniform(0.8, 3)
        yield at_s, end_s, lines[max(0, index - 2) : index + 1]
        at_s = end_s + chance.choice([0.0, 0.02])


def growing(chance: random.Random, lines: list[str]) -> Iterator[Cue]:
    """Live captions: a line grows by a few words."""
    at_s = 0.0
    for line in lines:
        words, done = line.split(), 0
        while done < len(words):
            done = min(len(words), done + chance.randint(2, 3))
            yield at_s, at_s + 0.7, [" ".join(words[:done])]
            at_s += 0.7
        at_s += 1.5


def clock(seconds: float, point: str = ".", digits: int = 3) -> str:
    whole, part = divmod(round(seconds * 10**digits), 10**digits)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}{point}{part:0{digits}d}"


def vtt(cues: list[Cue]) -> str:
    """As the site has it: every word of a new line in a tag with its time."""
    blocks = []
    for start_s, end_s, lines in cues:
        *upper, lower = lines
        first, *words = lower.split(" ")
        if end_s - start_s > 0.02 and len(lines) == 2:
            lower = first + "".join(f"<{clock(start_s)}><c> {word}</c>" for word in words)
        text = "\n".join([*upper, lower])
        times = f"{clock(start_s)} --> {clock(end_s)} align:start position:0%"
        blocks.append(f"{times}\n{text}")
    return "WEBVTT\nKind: captions\nLanguage: en\n\n" + "\n\n".join(blocks) + "\n"


def srt(cues: list[Cue]) -> str:
    return "".join(
        f"{i}\n{clock(start, ',')} --> {clock(end, ',')}\n" + "\n".join(lines) + "\n\n"
        for i, (start, end, lines) in enumerate(cues, start=1)
    )


def ass(cues: list[Cue]) -> str:
    head = "[Script Info]\nScriptType: v4.00+\n\n[Events]\nFormat: Layer, Start, End, Style, Name, "
    head += "MarginL, MarginR, MarginV, Effect, Text\n"
    return head + "".join(
        f"Dialogue: 0,{clock(start, digits=2)[1:]},{clock(end, digits=2)[1:]},Default,,0,0,0,,"
        + r"\N".join(lines)
        + "\n"
        for start, end, lines in cues
    )


@pytest.mark.parametrize("write", [vtt, srt, ass])
@pytest.mark.parametrize("roll", [youtube, three_lines, growing])
def test_each_word_of_rolling_captions_is_spoken_once_and_in_order(
    roll: Callable[[random.Random, list[str]], Iterator[Cue]], write: Callable[[list[Cue]], str]
) -> None:
    """Of few different words, so that lines come again by chance, as "no no" does."""
    for seed in range(30):
        chance = random.Random(seed)
        pick = ["no", "we", "go", "home", "and", "then", "stop", "it", "all", "day"]
        lines = [
            " ".join(chance.choice(pick) for _ in range(chance.randint(3, 7)))
            for _ in range(chance.randint(6, 15))
        ]
        cues = list(roll(chance, lines))
        records, notes, lost = read_cues(write(cues), Path(f"t.{write.__name__}"))
        said = " ".join(record.values["text"] for record in records).split()
        assert said == " ".join(lines).split(), (seed, write(cues))
        assert not lost
        assert "repeated lines are spoken once" in notes[0]
        assert all(record.values["text"] or record.skipped for record in records)
        assert not any(record.problem for record in records if record.values["text"])
