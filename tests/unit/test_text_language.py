"""Language detection: sure on sentences, silent on names and single foreign words."""

from __future__ import annotations

import pytest

from voxcli.text import detect_language, language_name


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The quick brown fox jumps over the lazy dog.", "en"),
        ("Guten Morgen, wie geht es dir?", "de"),
        ("Das Haus ist sehr groß und schön.", "de"),
        ("La maison est grande et belle.", "fr"),
        ("Café au lait, s'il vous plaît", "fr"),
        ("El perro come la comida en la casa.", "es"),
        ("Il gatto è sul tavolo e non vuole scendere.", "it"),
        ("O gato está na mesa e não quer descer.", "pt"),
        ("De kat zit op de tafel en wil niet naar beneden.", "nl"),
        ("Kot siedzi na stole i nie chce zejść.", "pl"),
        ("Kedi masanın üzerinde ve aşağı inmek istemiyor.", "tr"),
        ("今天天气很好", "zh"),
        ("我们使用 GitHub Actions", "zh"),
        ("1次", "zh"),
        ("これは日本語の文です", "ja"),
        ("안녕하세요", "ko"),
        ("Привет, как дела?", "ru"),
        ("Привіт, як справи, їжачок?", "uk"),
        ("مرحبا", "ar"),
        ("नमस्ते", "hi"),
        ("Γειά σου", "el"),
    ],
)
def test_sentences_are_recognised(text: str, code: str) -> None:
    assert detect_language(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "", "42", "7:46 pm", "A", "Hello world", "John Smith", "Rio de Janeiro",
        "Los Angeles de la Cruz", "orange copper basket island winter bridge candle",
        "He said je ne sais quoi and left.", "The word 嗯 means hmm.", "Is a in on at",
        "La La Land won no award", "Die Hard was on in Berlin",
        "The naïve café owner ate crème brûlée à la carte.",
    ],
)  # fmt: skip
def test_english_and_unknown_are_never_taken_for_foreign(text: str) -> None:
    assert detect_language(text) in ("en", "und")


def test_codes_have_names() -> None:
    assert language_name("de") == "German"
    assert language_name("xx") == "xx"


@pytest.mark.parametrize("sign", ["/", "&", ", ", ". ", "-"])
@pytest.mark.parametrize("letters", ["IOWAZ", "AEO", "ZUOWI", "AYEO"])
def test_letters_by_themselves_are_words_of_no_language(letters: str, sign: str) -> None:
    assert detect_language(sign.join(letters)) == "und"
    assert detect_language(f"Press {sign.join(letters)} to go") in ("en", "und")


def test_small_words_of_one_letter_count_before_words() -> None:
    assert detect_language("I tak nie wiem") == "pl"
    assert detect_language("O gato e a mesa não") == "pt"
