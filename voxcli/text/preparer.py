"""One text, from what the user wrote to the segments a voice is given: `prepare`.

Refuses, before any model loads, what cannot be spoken: an empty text, a language the model does not
speak, a text without one sayable character. Knows models only by what the caller says of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable

from voxcli.errors import TextError
from voxcli.text import characters, directions, markup, pauses, symbols
from voxcli.text.changes import Draft, Silence
from voxcli.text.language import (
    UNKNOWN,
    codes_like,
    detect_language,
    is_known,
    language_name,
    script_weights,
)
from voxcli.text.normaliser import normalise
from voxcli.text.patterns import pattern_of
from voxcli.text.prepared import PreparedText, Unspeakable
from voxcli.text.segmenter import segment
from voxcli.text.thoughts import outside_thoughts, thoughts

# What a rewrite could take away: markup, entities, addresses, directions in brackets.
_MARKED = pattern_of(r"[<>\[\]{}\\`~&:](?:(?<![&:])|(?<=&)[#\w]|(?<=:)//)")
_ASIDE = pattern_of(r"\([^()]{0,200}\)")
_WORD = pattern_of("[A-Za-z]{3}")
_SAID = pattern_of(r"[^\W_]")  # a letter or a figure


def prepare(
    text: str,
    *,
    languages: tuple[str, ...],
    language: str | None = None,
    max_chars: int,
    can_say: Callable[[str], bool] = lambda char: True,
    model: str,
    alternatives: tuple[str, ...] = (),
    rewrite: bool = True,
    lexicon: str = "",
) -> PreparedText:
    """Detect, normalise, fold and segment.

    Args:
        text: what the user wrote.
        languages: what the model speaks, its own first; empty means any.
        language: what the user said it is; None to detect it.
        max_chars: longest segment.
        can_say: whether the voice has a sound for this one character.
        model: its name, for messages.
        alternatives: models that speak more languages, for messages.
        rewrite: False keeps numbers and abbreviations as written (brackets are still rewritten),
            makes no pauses and does without the lexicon.
        lexicon: how words are said, as `pronunciations.py` reads it.

    Raises:
        TextError: empty, in a language the model does not speak, or nothing in it can be said; it
            asks for more silence than may be, or an expression of the lexicon takes too long.
        UsageError: the lexicon cannot be read.
    """
    spoken = check_language(outside_thoughts(text), languages, language, model, alternatives)
    silences: tuple[Silence, ...] = ()
    if rewrite:
        done = normalise(text, spoken, lexicon=lexicon)
        draft, silences = Draft(done.text, list(done.changes)), done.silences
        lost = _folded(draft, can_say)
    else:
        draft = Draft(text)
        characters.clean(draft, spoken)
        thoughts(draft)
        directions.directions(draft)
        draft.text = markup.reflow(draft.text)
        symbols.brackets(draft)
        lost = characters.fold(draft, can_say)
    if not _SAID.search(draft.text):
        raise TextError(
            f"nothing in the text can be spoken by '{model}': {_shown(text)}",
            hint="put pauses beside words" if silences else "give words, or another --model",
        )
    silence_s = 0.0
    segments = segment(draft.text, max_chars, spoken) if not silences else []
    if silences:
        again = normalise(text, spoken, lexicon=lexicon, keeps_marks=True)
        marked = Draft(again.text)
        _folded(marked, lambda char: bool(pauses.PLACEHOLDER.match(char)) or can_say(char))
        places = pauses.placed(draft.text, marked.text, silences)
        silence_s, segments = pauses.segmented(draft.text, places, max_chars, spoken)
    unspeakable = tuple(
        Unspeakable(char, unicodedata.name(char, "unnamed"), count) for char, count in lost.items()
    )
    said = " ".join(draft.text.split())
    return PreparedText(
        text, spoken, said, tuple(segments), tuple(draft.changes), unspeakable, silence_s
    )


def _folded(draft: Draft, can_say: Callable[[str], bool]) -> Counter[str]:
    """`characters.fold`, and what it leaves of brackets and spaces tidied."""
    unfolded = draft.text
    lost = characters.fold(draft, can_say)
    if draft.text != unfolded:
        symbols.tidy(draft)
    return lost


def is_plain(text: str) -> bool:
    """Whether a text certainly leaves something to say, which `prepare` need not be asked then."""
    words = _ASIDE.sub(" ", text) if "(" in text else text
    is_worded = _WORD.search(words) is not None and _MARKED.search(text) is None
    return is_worded and "www." not in text


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return f"'{flat}'" if len(flat) <= 40 else f"'{flat[:37]}...'"


def _no_language(asked: str, languages: tuple[str, ...], model: str) -> TextError:
    meant = next((code for code in codes_like(asked) if code in languages), None)
    hint = f"did you mean '{meant}'? " if meant else ""
    speaks = ", ".join(f"{code} ({language_name(code)})" for code in languages)
    hint += f"it speaks {speaks}; leave the language out to have it detected"
    return TextError(f"no language '{asked}' in model '{model}'", hint=hint)


def check_language(
    text: str,
    languages: tuple[str, ...],
    asked: str | None,
    model: str,
    alternatives: tuple[str, ...] = (),
) -> str:
    """The language a text will be spoken in; arguments as of `prepare`.

    Raises:
        TextError: empty, or in a language the model does not speak.
    """
    if not characters.has_content(text):
        raise TextError(
            "the text is empty", hint="give words to say as TEXT, with --file, or '-' for stdin"
        )
    code = (asked or detect_language(text)).lower().split("-")[0].split("_")[0]
    if code == UNKNOWN:
        return languages[0] if languages else "en"
    if not languages or code in languages:
        return code
    if not asked and not _dominates(text, code):
        return languages[0]
    if asked and not is_known(code):
        raise _no_language(asked, languages, model)
    speaks = ", ".join(language_name(each) for each in languages)
    subject = (
        f"--language {asked} was given"
        if asked
        else f"the text is in {language_name(code)} ({code})"
    )
    ways = [f"use --model {other}" for other in alternatives[:1]]
    ways.append(f"--language {languages[0]} to have it read as {language_name(languages[0])}")
    raise TextError(f"{subject}, but model '{model}' speaks only {speaks}", hint=", or ".join(ways))


def _dominates(text: str, code: str) -> bool:
    """Whether a foreign script outweighs the digits of a text that has no Latin letter.

    "1次" is spoken as "one" with a warning; "嗯" is refused.
    """
    weights = script_weights(text)
    if "LATIN" in weights:
        return True  # detection has weighed the words already
    groups = len(re.findall(r"\d+", text))
    foreign = sum(weights.values())
    first = next(char for char in text if char.isalnum())
    return foreign > groups or (foreign == groups and not first.isdecimal())
