"""Marks of notes are no words of a sentence, as "[1]" is none; powers are."""

from __future__ import annotations

import pytest

from voxcli.text import normalise

NOTES = [
    ("It rose.¹ Then it fell.²³", "It rose. Then it fell."),
    ('"It rose,"¹ he said.', '"It rose," he said.'),
    ("growth² and word¹ and note.¹,²", "growth and word and note."),
    ("$5² or 20%³", "five dollars or twenty percent"),
    ("$1,299.50¹", "one thousand two hundred ninety-nine dollars and fifty cents"),
    ("¹ See the list.\n²Source", "one, See the list.\ntwo, Source"),
    # after years, dates and other numbers that count nothing
    ("in 1998¹, since 2000²", "in nineteen ninety-eight, since two thousand"),
    ("2010–2015³", "twenty ten to twenty fifteen"),
    ("the 1990s², the 19th¹", "the nineteen nineties, the nineteenth"),
    ("in '98², on 5 May³", "in ninety-eight, on the fifth of May"),
    ("at 10:30²", "at ten thirty"),
    ("1,234² people or 12¹", "one thousand two hundred thirty-four people or twelve"),
    ("Fig. 1², Table 3¹, p. 12⁴", "Figure one, Table three, page twelve"),
    ("Section 4.2³ and Appendix B²", "Section four point two and Appendix B"),
    # after words and names
    ("Smith², 2010", "Smith, twenty ten"),
    ("the law² and it¹", "the law and it"),
    ("MP3², COVID-19³ and EU²", "M P three, Covid-nineteen and E U"),
    # after quotations and brackets of words
    ("“No”² he said", '"No" he said'),
    ("the law (as amended)³ says", "the law, as amended, says"),
    ("Smith (2010)² says", "Smith, twenty ten, says"),
]  # fmt: skip
ROMAN = [
    ("World War II² ended.", "World War two ended."),
    ("Chapter IV¹² and Henry VIII³ say", "Chapter four and Henry the eighth say"),
]
POWERS = [
    ("10², 10³ and 10¹", "ten squared, ten cubed and ten to the power of one"),
    ("12² and 2¹", "twelve squared and two to the power of one"),
    ("1998² = x", "nineteen ninety-eight squared equals x"),
    ("a 1024² grid", "a one thousand twenty-four squared grid"),
    ("AB² + mc²", "A B squared plus mc squared"),
    ("cos² x", "cos squared x"),
    ("(x+y)² or (2)²", "x plus y, squared or, two, squared"),
    ("(sin x)²", "sin x, squared"),
    ("speed² × time", "speed squared times time"),
    ("5 m², 8 ft² or 10km²", "five square meters, eight square feet or ten square kilometers"),
    ("5¹⁄₂ cups", "five and a half cups"),
]  # fmt: skip
OTHER_LANGUAGES = [
    ("de", "1998¹ sagte Weber⁵: „Ja.“³ Auf 5 m², 10²", "1998 sagte Weber: „Ja.“ Auf 5 m², 10²"),
    ("fr", "Dupont² dit « oui »³ sur 3 mètres²", "Dupont dit « oui » sur 3 mètres²"),
    ("ja", "研究¹による。² 5米²", "研究による。 5米²"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), NOTES)
def test_the_mark_of_a_note_is_not_said(written: str, spoken: str) -> None:
    done = normalise(written, "en")
    assert done.text == spoken
    assert any(change.kind == "markup" for change in done.changes)


@pytest.mark.parametrize(("written", "spoken"), [*ROMAN, *POWERS])
def test_a_power_and_a_note_are_told_apart(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(("language", "written", "spoken"), OTHER_LANGUAGES)
def test_every_language_loses_marks_of_notes_and_keeps_powers(
    language: str, written: str, spoken: str
) -> None:
    assert normalise(written, language).text == spoken
