"""Subtitles to records: what is spoken, when, and by whom.

`pysubs2` reads the formats; here tags and sound notes go, and a speaker's label becomes a field.
A cue without words stays in the list and says why it is not spoken.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import pysubs2

from voxcli.batch.records import Record
from voxcli.errors import UsageError

_TIMES = re.compile(r"^\s*[\d:]+[.,]\d+\s*-->")
_VTT_VOICE = re.compile(r"<v(?:\.[\w.-]+)?\s+([^>]+)>")
_NAMED = re.compile("\x02([^\x03]*)\x03")  # our own marks around a speaker that a tag named
# of ASS and SRT; of HTML and WebVTT, with what is written above a ruby text; times inside a cue
_TAG = re.compile(r"\{[\\=][^}]*\}|<rt>.*?</rt>|</?[a-zA-Z][^>]*>|<\d[\d:.]*>")
_SONG = re.compile(r"[♪♫♩♬].*?[♪♫♩♬]|[♪♫♩♬].*", re.DOTALL)
_NOTE = re.compile(r"\[[^\]]*\]|【[^】]*】|(?m:^\s*\([^)]*\)\s*$)|\A\s*\([^)]*\)", re.DOTALL)
_LABEL = re.compile(r"\A\s*([^:：\n]{1,32})[:：](?=\s|\Z)")
_DASH = re.compile(r"(?m)^\s*(?:[-–—]\s*|>>+\s*)")


def read_cues(text: str, path: Path) -> list[Record]:
    """A record for each cue, with `text`, `start`, `end` and, where one is named, `speaker`.

    Raises:
        UsageError: not a subtitle file.
    """
    try:
        cues = _vtt_cues(text) if path.suffix.lower() == ".vtt" else text
        marked = _VTT_VOICE.sub("\x02\\1\x03", cues)
        events = list(pysubs2.SSAFile.from_string(marked, format_=path.suffix.lower()[1:]))
    except (pysubs2.exceptions.Pysubs2Error, ValueError, IndexError) as err:
        raise UsageError(f"{path} is no subtitle file: {err}", hint="give SRT or VTT") from err
    lines = [i for i, line in enumerate(text.split("\n"), start=1) if _TIMES.match(line)]
    if len(lines) != len(events):  # a cue that the reader refused: lines are of no use then
        lines = [0] * len(events)
    return [
        _record(number, line, event)
        for number, (line, event) in enumerate(zip(lines, events, strict=True), start=1)
    ]


def _vtt_cues(text: str) -> str:
    """WebVTT without notes, styles and names of cues, which `pysubs2` takes for words."""
    found = ["WEBVTT"]
    for block in re.split(r"\n\s*\n", text):
        lines = block.split("\n")
        times = [index for index, line in enumerate(lines) if _TIMES.match(line)]
        if times:
            found.append("\n".join(lines[times[0] :]))
    return "\n\n".join(found) + "\n"


def _record(number: int, line: int, event: pysubs2.SSAEvent) -> Record:
    spoken, speaker, skipped = spoken_words(event.plaintext)
    values = {
        "text": spoken,
        "start": f"{event.start / 1000:.3f}",
        "end": f"{event.end / 1000:.3f}",
    }
    if speaker:
        values["speaker"] = speaker
    return Record(number, line, values, skipped=skipped)


def spoken_words(cue: str) -> tuple[str, str, str]:
    """What is said in a cue, the speaker's label, and why nothing is (empty where something is)."""
    text = html.unescape(_TAG.sub("", cue))
    named = _NAMED.search(text)
    text = _NAMED.sub("", text)
    without_song = _SONG.sub(" ", text)
    words = _NOTE.sub(" ", without_song)
    words = _DASH.sub("", words)
    speaker = named[1].strip() if named else ""
    label = _LABEL.match(words)
    if label and label[1].isupper():
        speaker = speaker or label[1].strip()
        words = words[label.end() :]
        words = _DASH.sub("", _NOTE.sub(" ", words))
    words = " ".join(words.split())
    if any(char.isalnum() for char in words):
        return words, speaker, ""
    shown = " ".join(text.split())
    if without_song != text:
        return "", speaker, f"music: {shown}"
    return "", speaker, f"a sound note: {shown}" if shown else "an empty cue"
