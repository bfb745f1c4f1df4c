"""What of a cue is said: not its tags, not its notes on sounds and music, not who speaks.

Whatever is taken away is named. Knows no file format and no times.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from voxcli.text.pauses import MARK, is_timed
from voxcli.text.weekdays import DAYS, MONTHS

Words = tuple[str, str]  # of which kind they are, and the words

# ------------------------------------------------------------ tags

_OVERRIDE = re.compile(r"\{[\\=][^}]*\}|\{[A-Za-z]:(?!\s)[^}]*\}")  # of ASS and MicroDVD
_NAMES = (
    "b|i|u|s|c|v|em|strong|small|big|ruby|rt|rp|lang|font|span|p|div|center|tt|sub|sup|a|strike|del"
)
# A tag that is known. With a name or a language in it, it stands at the beginning of a word: in
# "x<v and y>z" is none.
_TAG = re.compile(
    rf"</?(?:{_NAMES})(?:\.[\w.#-]*)?\s*/?>"
    r"|(?<!\w)<(?:v|lang)(?:\.[\w.-]*)?\s+[^<>]+>"
    r"|<(?:font|span|p|div|a|b|i|u|s|c)\s[^<>]*=[^<>]*>"
    r"|<\d+:\d[\d:.,]*>",  # a time inside a cue
    re.IGNORECASE,
)
_VOICE = re.compile(r"(?<!\w)<v(?:\.[\w.-]+)?\s+([^<>]+)>", re.IGNORECASE)
_BREAK = re.compile(r"<br\s*/?>|\\N", re.IGNORECASE)
_RUBY = re.compile(r"<rt>((?:(?!<rt>).)*?)</rt>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Tagless:
    """A cue's text without tags, what the tags named, and the words that went with them."""

    text: str
    voices: tuple[str, ...] = ()
    left_out: tuple[Words, ...] = ()


def without_tags(cue: str) -> Tagless:
    """Take the tags out of a cue as it stands in the file."""
    left: list[Words] = [("readings above words", each) for each in _RUBY.findall(cue)]
    text = _OVERRIDE.sub("", _BREAK.sub("\n", _RUBY.sub("", cue)))
    voices = tuple(html.unescape(name).strip() for name in _VOICE.findall(text))
    left += [("names of speakers", name) for name in voices]
    return Tagless(html.unescape(_TAG.sub("", text)), voices, tuple(left))


def by_voice(cue: str) -> list[str]:
    """A cue cut before each tag of another voice; what stands before the first goes with it."""
    found = list(_VOICE.finditer(cue))
    starts = [0]
    for before, voice in pairwise(found):
        if voice[1].strip() != before[1].strip():
            starts.append(voice.start())
    return [cue[start:end] for start, end in zip(starts, [*starts[1:], len(cue)], strict=True)]


# ------------------------------------------------------------ labels

_NO_NAME = "\x04\x05:：\\[\\](){}.!?…\\n"
_NAME = rf"[^{_NO_NAME}]{{1,32}}?(?:\.[^{_NO_NAME}]{{1,20}}?)?"
_BRACKETED = re.compile(r"(?m)^(\s*(?:[-–—>]+\s*)?)[\[(【]([^\])】\n]{1,32})[\])】]\s*[:：]\s*")
_MACHINE = re.compile(r"(?m)^(\s*)\[([A-Za-z]+_\d+)\]\s*")  # as diarisation writes speakers
_LABEL = re.compile(
    rf"(?m)^(\s*(?:[-–—>]+\s*)?)({_NAME})(\s*[\[(][^\])\n]*[\])])?\s*(?::(?=\s|$)|：)"
)
_INNER = re.compile(rf"(?<=[.!?…\"”’'])\s+({_NAME})()(?::(?=\s)|：)")
_NUMBERED = re.compile(
    r"(?:speaker|person|voice|man|woman|boy|girl|narrator|host|guest|interviewer)[ _-]?\d+"
    r"|[A-Z]+_\d+",
    re.IGNORECASE,
)
_LIKE_A_NAME = re.compile(r"[^\W_][\w.'’-]*(?: [^\W_][\w.'’-]*){0,3}")
_TITLE = re.compile(
    r"(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Sr|Jr|Sgt|Lt|Capt|Col|Gen|Rev|Hr|Fr|Sra|Dra)\.", re.IGNORECASE
)
_SMALL = frozenset(
    ("al", "bin", "da", "de", "del", "der", "di", "du", "ibn", "la", "le", "of", "van", "von")
)
# Words before a colon that are said
_NO_NAMES = re.compile(
    r"note|warning|caution|attention|remember|question|answer|example|tip|hint|update|result|reason"
    r"|problem|solution|conclusion|summary|fact|rule|step|chapter|part|p\.?s\.?|and|but|so|then"
    r"|also|because|important|first|second|third|today",
    re.IGNORECASE,
)
_DATES = frozenset((*DAYS.values(), *MONTHS.values()))  # names of people where they come twice
_LABELLED_SHARE = 0.5  # of the cues, in a file that names its speakers all through
_AROUND = " \t-–—>"  # a name that a pattern finds after a dash
AUTO, NONE = "auto", "none"  # what may be asked of labels besides names


@dataclass(frozen=True)
class Names:
    """How a file names its speakers.

    Attributes:
        known: names that stand at the beginning of lines.
        is_labelled: it does so all through, so that names in mixed case are names.
        is_shouted: all of it is in capitals, so that these make no name.
        words: before a colon that are said.
        cast: names of whom the user gives voices, folded.
        only: all names, folded, where the user gives them; None to find them.
    """

    known: frozenset[str] = frozenset()
    is_labelled: bool = False
    is_shouted: bool = False
    words: frozenset[str] = frozenset()
    cast: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    @classmethod
    def asked(cls, labels: str) -> Names | None:
        """Of `--labels`: names, none, or None for what the file shows."""
        if labels.strip().lower() == AUTO:
            return None
        names = [] if labels.strip().lower() == NONE else labels.split(",")
        return cls(only=frozenset(filter(None, map(folded, names))))

    def with_cast(self, cast: Collection[str]) -> Names:
        """Where the user gives voices to speakers, all that looks like a name is one: a speaker
        without a voice can be told, and a name that was spoken cannot."""
        if self.only is not None or not cast:
            return self
        return replace(self, cast=frozenset(map(folded, cast)), is_labelled=True)

    def has_inside(self, name: str) -> bool:
        """Whether a name in the middle of a line is one: those must be known from elsewhere."""
        if self.only is not None:
            return self.has(name)
        name = name.strip(_AROUND)
        is_known = name in self.known or folded(name) in self.cast
        return is_known or (name.isupper() and self.has(name))

    def has(self, name: str) -> bool:
        name = name.strip(_AROUND)
        if self.only is not None:
            return folded(name) in self.only
        if folded(name) in self.cast:
            return True
        if name in self.words or _NO_NAMES.fullmatch(name):
            return False
        if any(not _TITLE.fullmatch(word) for word in name.split()[:-1] if word.endswith(".")):
            return False  # a sentence ends in it
        is_sure = (name.isupper() and not self.is_shouted) or _NUMBERED.fullmatch(name) is not None
        return is_sure or (self.is_labelled and _is_like_a_name(name))


def folded(name: str) -> str:
    """What makes two names of a speaker the same."""
    return " ".join(name.split()).casefold()


def _is_like_a_name(name: str) -> bool:
    words = name.split()
    if not _LIKE_A_NAME.fullmatch(name) or name.isdecimal():
        return False
    return all(not word[0].islower() or word in _SMALL for word in words)


def label_names(cues: Iterable[Sequence[str]]) -> Names:
    """The names that a file puts before what is said, from the lines of its cues.

    A name in mixed case is one where half of the cues begin with a name, and one of these names
    comes again, is in capitals or has a number. A day or a month is one where it comes again.
    """
    known: set[str] = set()
    times: Counter[str] = Counter()
    num_cues = num_labelled = num_lines = 0
    is_shouted, is_sure = True, False
    anyone, anyone_sure = Names(is_labelled=True), Names()
    for lines in cues:
        num_cues += bool(lines)
        num_lines += len(lines)
        for index, line in enumerate(lines):
            is_shouted = is_shouted and line == line.upper()
            times.update(name.strip() for name, _ in _INNER.findall(line))
            match = _BRACKETED.match(line) or _MACHINE.match(line) or _LABEL.match(line)
            if match is not None and anyone.has(match[2]):
                known.add(match[2].strip())
                times[match[2].strip()] += 1
                is_sure = is_sure or anyone_sure.has(match[2])
                num_labelled += index == 0
    is_labelled = num_labelled > 1 and num_labelled >= _LABELLED_SHARE * num_cues
    is_labelled = is_labelled and (is_sure or any(times[name] > 1 for name in known))
    words = frozenset(name for name in known if times[name] == 1 and name.title() in _DATES)
    return Names(frozenset(known - words), is_labelled, is_shouted and num_lines > 2, words)


# ------------------------------------------------------------ what is said

_SONG = re.compile(r"[♪♫♩♬].*?[♪♫♩♬]|[♪♫♩♬].*", re.DOTALL)
_NOTE = re.compile(r"\[[^\]]*\]|【[^】]*】|(?m:^\s*\([^)]*\)\s*$)|\A\s*\([^)]*\)", re.DOTALL)
# Where a label was taken out: the number of its speaker between two characters that no text has
_TAKEN = re.compile("\x04(\\d+)\x05")
_AFTER_LABEL = re.compile("(?<=\x05)\\s*\\([^)]*\\)")
_DASHES = "-\u2010-\u2015\u2212"
_DASH = re.compile(rf"(?m)^\s*(?:[{_DASHES}]\s*|>>+\s*)")
# Where one line alone has a dash
_NO_SIGN = re.compile(rf"(?m)^\s*(?:[{_DASHES}](?![$€£]?\d)\s*|>>+\s*)")
_NEXT_TURN = re.compile(rf"(?<=[.?!…]) ?[{_DASHES}] (?=[^\W\d_]|[¿¡\"“«])")  # "- Ready? - Yes."
_ENDED = re.compile(r"[\W_]\Z")


@dataclass
class Speech:
    """What one speaker says in a cue.

    Attributes:
        speaker: empty where nobody is named before the words.
        skipped: why nothing is said; empty where something is.
        left_out: what of the cue is not said; of its first speech alone.
    """

    words: str = ""
    speaker: str = ""
    skipped: str = ""
    left_out: list[Words] = field(default_factory=list)


def spoken(text: str, names: Names, tagless: Tagless) -> list[Speech]:
    """What is said in a cue, by each speaker in turn; a single skipped speech where nothing is.

    Args:
        text: its lines without tags, those of them that are new.
        tagless: what its tags named.
    """
    left_out = list(tagless.left_out)
    speakers = [tagless.voices[0] if tagless.voices else ""]

    def take(kind: str) -> Callable[[re.Match[str]], str]:
        def taken(match: re.Match[str]) -> str:
            left_out.append((kind, match[0].strip()))
            return " "

        return taken

    def label(match: re.Match[str]) -> str:
        is_inner = match.re is _INNER
        name = match[1] if is_inner else match[2]
        if not (names.has_inside(name) if is_inner else names.has(name)):
            return match[0]
        speakers.append(" ".join(name.strip(_AROUND).split()))
        left_out.append(("names of speakers", speakers[-1]))
        if match.re is _LABEL and match[3]:
            left_out.append(("sound notes", match[3]))
        return f" \x04{len(speakers) - 1}\x05"

    without_song = _tidy(_SONG.sub(take("songs"), _TAKEN.sub(" ", text)))
    words = _MACHINE.sub(label, _BRACKETED.sub(label, without_song))
    note = take("sound notes")
    words = _tidy(_NOTE.sub(lambda m: m[0] if is_timed(m[0]) else note(m), words))
    words = _INNER.sub(label, _LABEL.sub(label, words))
    words = _AFTER_LABEL.sub(take("sound notes"), words)
    if _DASH.match(words):
        words = _NEXT_TURN.sub("\n- ", words)
    dash = _DASH if len(_DASH.findall(_TAKEN.sub(" ", words))) > 1 else _NO_SIGN
    before, *parts = _TAKEN.split(words)
    found = [Speech(before, speakers[0])]
    for number, part in zip(parts[::2], parts[1::2], strict=True):
        name = speakers[int(number)]
        if folded(name) == folded(found[-1].speaker):
            found[-1].words += f"\n{part}"
        else:
            found.append(Speech(part, name))
    for speech in found:
        speech.words = _joined(dash.split(speech.words), are_turns=dash is _DASH)
    said = [each for each in found if any(map(str.isalnum, MARK.sub(" ", each.words)))]
    if said:
        said[0].left_out = left_out
        return said
    why = _why_nothing(" ".join(text.split()), left_out, has_song=_SONG.search(text) is not None)
    return [Speech("", speakers[-1], why, left_out)]


def _joined(parts: Iterable[str], *, are_turns: bool) -> str:
    """The parts in a row; where each is somebody's turn, with a stop between two of them."""
    joined = ""
    for part in filter(None, (" ".join(part.split()) for part in parts)):
        stop = "." if are_turns and joined and not _ENDED.search(joined) else ""
        joined += f"{stop} {part}" if joined else part
    return joined


def _tidy(text: str) -> str:
    """Lines without the spaces and empty lines that words taken away leave; patterns that look for
    what begins a line would try each of these spaces for each line."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(filter(None, lines))


def _why_nothing(shown: str, left_out: Iterable[Words], *, has_song: bool) -> str:
    if not shown:
        return "an empty cue"
    if is_timed(shown):
        return f"a pause alone: {shown}"
    if has_song:
        return f"music: {shown}"
    kinds = {kind for kind, _ in left_out}
    if "sound notes" in kinds:
        return f"a sound note: {shown}"
    return f"a speaker's name alone: {shown}" if kinds else f"no words: {shown}"


# ------------------------------------------------------------ what is left out


class LeftOut:
    """Words of a file that are not spoken, by kind, with their lines."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, list[int]]] = {}

    def add(self, line: int, words: Iterable[Words]) -> None:
        for kind, each in words:
            if shown := " ".join(each.split()):
                self._found.setdefault(kind, {}).setdefault(shown, []).append(line)

    def notes(self, num_lines: int, only: str | None = None) -> list[str]:
        """A sentence for each kind, which names everything; of lines the first `num_lines`."""
        return [
            f"{kind} are not spoken: "
            + ", ".join(f"{words} ({_at(lines, num_lines)})" for words, lines in found.items())
            for kind, found in self._found.items()
            if only in (None, kind)
        ]


def _at(lines: Sequence[int], num_lines: int) -> str:
    shown = ", ".join(map(str, lines[:num_lines]))
    more = f" and {len(lines) - num_lines} more" if len(lines) > num_lines else ""
    return f"line{'s' * (len(lines) > 1)} {shown}{more}"
