"""Documents of SSML: no tag is words, whoever invented it; what is not followed is named."""

from __future__ import annotations

import re

import pytest

from voxcli.text import PreparedText, prepare
from voxcli.text.directions import reason

FOLLOWED = ["p", "s", "w", "token", "paragraph", "sentence", "speak"]
NAMED = ["voice", "lang", "emphasis", "prosody", "lookup", "par", "media", "effect", "whisper",
         "auto-breaths", "amazon:effect", "mstts:express-as", "emo:emotion", "ssml:prosody",
         "x_y", "Aa", "think"]  # fmt: skip


def made(text: str) -> PreparedText:
    return prepare(text, languages=("en",), max_chars=300, model="m")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", " ".join(each.text for each in made(text).segments).lower())


@pytest.mark.parametrize("attributes", ["", ' xml:lang="fr-FR"', " rate='slow'\n pitch=\"+5%\""])
@pytest.mark.parametrize("name", [*FOLLOWED, *NAMED])
def test_a_document_has_the_words_outside_its_tags(name: str, attributes: str) -> None:
    text = f"One <{name}{attributes}>two</{name}> three <{name}{attributes}/> four."
    assert words(f"<speak>{text}</speak>") == ["one", "two", "three", "four"]
    named = made(f"<speak>{text}</speak>").directions
    assert bool(named) == (name in NAMED)
    assert not any(each.startswith("</") for each in named)


def test_signs_in_a_document_are_read() -> None:
    done = made("<speak>It is 3 &lt; 4 and <x>a</x> &gt; b.</speak>")
    assert done.text == "It is three is less than four and a is greater than b."


def test_a_pair_of_tags_for_another_language_is_named_once_without_a_document() -> None:
    done = made('He said <lang xml:lang="fr-FR">bonjour</lang> twice.')
    assert done.text == "He said bonjour twice."
    assert done.directions == ('<lang xml:lang="fr-FR">',)


def test_a_tag_that_nobody_opened_is_named() -> None:
    assert made("<speak>One</prosody> two.</speak>").directions == ("</prosody>",)


def test_tags_and_sounds_have_reasons_of_their_own() -> None:
    assert reason("<foo>") == "voxcli knows no such tag"
    assert reason("<laugh/>") == reason("[laughs]") == "the models make no such sound"


@pytest.mark.parametrize("less", ["&lt;", "&#60;", "&#x3C;"])
@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("If a {}b and c&gt; d, stop.", "If a is less than b and c is greater than d, stop."),
        ("x {}y and y&gt;z", "x is less than y and y is greater than z"),
        ("Use the {}table&gt; tag.", "Use the table tag."),
        ("Type {}name> here.", "Type name here."),
        ("1{}2", "one is less than two"),
        ("Map{}String, List{}int&gt;&gt; here", "Map String, List int here"),
    ],
)
def test_an_escaped_sign_in_a_document_begins_no_tag(less: str, inside: str, said: str) -> None:
    text = f"<speak>{inside.replace('{}', less)}</speak>"
    assert made(text).text == said
