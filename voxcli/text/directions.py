"""Directions to a speech engine inside a text that are not followed. None is read as words.

"<emphasis>", "[laughs]", "<break time='soon'/>": each is taken out and recorded as a change of the
kind `DIRECTION`, of which callers warn with `reason`. Words that a tag encloses stay. Works on any
language. What is followed was taken out before, by `pauses.py` and `ssml.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from voxcli.text.changes import DIRECTION, Draft
from voxcli.text.patterns import pattern_of
from voxcli.text.thoughts import NAMES

_LENGTH = r"\d{1,5}(?:[.,]\d{1,3})?\s?(?:ms|s|secs?|seconds?|milliseconds?)?"
_PAUSE = (
    r"(?:(?:short|long|medium|brief)\s)?(?:pause|break|silence|wait|slnc|"
    rf"beat)(?:\s?[ :=]\s?(?:{_LENGTH}|short|long|medium))?|{_LENGTH}\s(?:pause|break|silence)"
)
_SOUND = (
    r"laugh(?:s|ing|ter)?|chuckl(?:e|es|ing)|giggl(?:e|es|ing)|sigh(?:s|ing)?|"
    r"(?:deep )?breath(?:s|e|es|ing)?|inhal(?:e|es|ing)|"
    r"exhal(?:e|es|ing)|cough(?:s|ing)?|gasp(?:s|ing)?|sniff(?:s|les|ing)?|yawn(?:s|ing)?|"
    r"groan(?:s|ing)?|"
    r"clear(?:s|ing)? throat|throat clearing|whisper(?:s|ing)?|shout(?:s|ing)?|cry(?:ing)?|"
    r"sob(?:s|bing)?|hum(?:s|ming)?|"
    r"snor(?:e|es|ing)|music|applause|inaudible|crosstalk"
)
_BRACKETED = pattern_of(
    rf"\s?(?:\[\[?(?:{_PAUSE}|{_SOUND})\]?\]|\{{\{{?(?:{_PAUSE})\}}?\}}|\((?:pause|break|"
    rf"silence)\s?[ :=]\s?{_LENGTH}\)"
    r")(?!\()",
    re.I,
)
# Around words that stay.
_SPANNING = pattern_of(
    r"\[/?(?:emphasis|prosody|whisper|slow|slowly|fast|loud|"
    r"soft)(?:[ =:][^\[\]\n]{0,40})?\](?!\()",
    re.I,
)
_EMPTY = pattern_of(
    r"\s?</?(?:break|pause|silence|mark|audio|bookmark|lexicon|laugh|laughter|laughs|sigh|"
    r"sighs|breath|cough|gasp|sniff|yawn|groan|chuckle|giggle|sob|hum)"
    r"(?:\s[^<>\n]{0,300})?/?>",
    re.I,
)
_AROUND = pattern_of(
    r"</?(?:emphasis|prosody|speak|voice|say-as|phoneme|sub|speechify|express-as|"
    r"amazon:[a-z-]{1,20}|mstts:[a-z-]{1,30}|google:[a-z]{1,20}|lang)"
    r"(?:\s[^<>\n]{0,300})?/?>",
    re.I,
)
_VALUED = pattern_of(
    r"<(?P<name>pitch|rate|speed|volume|tempo|energy)\s{0,3}=[^<>\n]{0,60}>"
    r"|</(?:pitch|rate|speed|volume|tempo|energy)>",
    re.I,
)
# Which a page uses for its own ends; "<lang>" stands for a language.
_HTML = pattern_of(r"\s?</?(?:sub|mark|audio)\s*>|<lang\s*>", re.I)


_PAIRED = pattern_of(r"\[(?P<tag>[a-z]{2,12})\](?P<words>[^\[\]\n]{1,300})\[/(?P=tag)\]")
_LENGTH_SIGN = pattern_of(r"\s?<#\d{1,3}(?:\.\d{1,3})?#>")


_NAME = pattern_of(r"[<\[{(/\s]*(?P<name>[a-z-]+)(?=[\s:=/>\])}]|$)", re.I)
_REASONS = {
    "emphasis prosody pitch rate speed volume tempo energy slow slowly fast loud soft whisper "
    "express-as speechify": "how words sound is the model's choice; see --speed and --style",
    "voice": "one voice speaks a text; give --voice, or a voice for each row of a batch",
    "phoneme": 'the models read spellings; write <sub alias="...">, or give --lexicon',
    "say-as": "voxcli knows no such interpret-as; the words are read as written",
    "sub": "it has no alias that can be read; the words are read as written",
    "lang": "a text has one language; give --language",
    "audio": "no recording is played inside a speech",
    "mark bookmark": "nobody is told when it is reached",
    "lexicon": "give the words with --lexicon",
    NAMES: "what a language model thinks is not spoken",
    "speak": "no tag is followed with --raw-text",
    "break pause silence wait slnc": "its length cannot be read; write [pause 0.8s]",
}
_OF_NAMES = {name: why for names, why in _REASONS.items() for name in names.split()}
_PAUSES = frozenset(["break", "pause", "silence", "wait", "slnc", "beat"])


def reason(direction: str, *, is_raw: bool = False) -> str:
    """Why a direction is not followed.

    Args:
        direction: as the text has it.
        is_raw: the text is spoken as it is written.
    """
    match = _NAME.match(direction)
    name = match["name"].lower() if match else ""
    is_pause = name in _PAUSES or any(word in _PAUSES for word in re.findall("[a-z]+", direction))
    if is_raw and (is_pause or name in ("say-as", "sub")):
        return "no tag is followed with --raw-text"
    if is_pause:
        name = "pause"
    is_sound = not direction.startswith("<") or _EMPTY.match(direction)
    other = "the models make no such sound" if is_sound else "voxcli knows no such tag"
    return _OF_NAMES.get(name, other)


def names_of(directions: Iterable[str]) -> str:
    """Names of directions for a header, in ASCII: "emphasis, laughs"."""
    found = (_NAME.match(direction) for direction in directions)
    return ", ".join(dict.fromkeys(match["name"].lower() for match in found if match))


def directions(draft: Draft) -> None:
    """Take directions out; before markup, which has tags of its own."""
    if "[" in draft.text or "{" in draft.text or "(" in draft.text:
        draft.sub(_SPANNING, "", DIRECTION)
        draft.sub(_PAIRED, lambda m: m["words"], DIRECTION, "[/")
        draft.sub(_BRACKETED, _gap, DIRECTION)
    if "<" in draft.text:
        draft.sub(_LENGTH_SIGN, _gap, DIRECTION, "<#")
        draft.sub(_EMPTY, lambda m: None if _HTML.fullmatch(m.group()) else _gap(m), DIRECTION)
        draft.sub(_VALUED, "", DIRECTION)
        draft.sub(_AROUND, lambda m: None if _HTML.fullmatch(m.group()) else "", DIRECTION)


def _gap(match: re.Match[str]) -> str:
    """What stays: a comma between words, else the space that was there."""
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() :].lstrip(" ")[:1]
    if not before or before == "\n":
        return ""
    if before >= "\u3000":
        return "，" if before.isalnum() and after.isalnum() else ""
    if before.isalnum() and after.isalnum():
        return ", " if match.string[match.end() : match.end() + 1].isalnum() else ","
    return " " if match.string[match.end() : match.end() + 1].isalnum() else ""
