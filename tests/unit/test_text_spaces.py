"""Which space stands between two words changes nothing in what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxcli.text import normalise, prepare

SPACES = {
    "no-break": "\u00a0",
    "thin": "\u2009",
    "narrow": "\u202f",
    "figure": "\u2007",
    "tab": "\t",
}
SEEN = Path(__file__).parents[1] / "text_set" / "seen" / "en"
WRITTEN = [
    line.partition(" => ")[0]
    for path in sorted(SEEN.glob("*.txt"))
    for line in path.read_text("utf-8").splitlines()
    if " => " in line and " " in line.partition(" => ")[0]
][::15]
AMOUNT = "45 000 €"  # which no-break spaces make one number


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_any_space_is_a_space(space: str) -> None:
    differing = [
        text
        for text in WRITTEN
        if text != AMOUNT and normalise(text.replace(" ", space)).text != normalise(text).text
    ]
    assert not differing


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize(
    ("text", "said", "silence_s"),
    [
        ("Ready. [pause 1s] Go.", "Ready. Go.", 1.0),
        ("It grew fast [3, 5, 8].", "It grew fast.", 0.0),
        ("Cats sleep.[citation needed]", "Cats sleep.", 0.0),
        ("## The end", "The end.", 0.0),
        ("- [x] done", "done.", 0.0),
        ("I <3 you", "I love you", 0.0),
    ],
)
def test_marks_are_known_beside_any_space(
    space: str, text: str, said: str, silence_s: float
) -> None:
    done = prepare(text.replace(" ", space), languages=("en",), max_chars=300, model="m")
    assert (done.text, done.silences_s) == (said, silence_s)


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10 000 km", "ten thousand kilometers"),
        (
            "1 234 567 people",
            "one million two hundred thirty-four thousand five hundred sixty-seven people",
        ),
        ("3 500 kg", "three thousand five hundred kilograms"),
        ("+1 312 555 0190", "plus one, three one two, five five five, oh one nine oh"),
        ("0161 496 0777", "oh one six one, four nine six, oh seven seven seven"),
        ("1 800 555 0199", "one, eight hundred, five five five, oh one nine nine"),
    ],
)
def test_spaces_that_do_not_break_part_thousands_and_nothing_else(
    space: str, text: str, said: str
) -> None:
    assert normalise(text.replace(" ", space)).text == said
