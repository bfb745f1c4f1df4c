"""Texts that people have and corpora lack: one word, questions, numbers, names, spelled letters."""

from __future__ import annotations

import random
from collections.abc import Iterator


def _words(text: str) -> list[str]:
    return text.split()


ONES = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
FIRST_NAMES = _words(
    "Anna Ben Carla David Emma Frank Grace Henry Isabel Jack Karen Liam Maria Noah Olivia Peter "
    "Quentin Rachel Samuel Teresa Umar Vera Walter Xenia Yusuf Zoe Priya Chen Amara Diego Fatima "
    "Hiroshi Ingrid Jamal Katya Leila Mateo Nadia Omar Sofia"
)
LAST_NAMES = _words(
    "Smith Johnson Brown Taylor Wilson Clark Lewis Walker Young King Wright Scott Green Baker "
    "Adams Nelson Carter Mitchell Turner Parker Collins Murphy Cooper Reed Bailey Howard Ward "
    "Garcia Nguyen Patel Kim Schmidt Rossi Novak Silva Okafor Tanaka Haddad Larsen"
)
PLACES = _words(
    "London Paris Berlin Chicago Boston Toronto Sydney Mumbai Lagos Cairo Madrid Rome Vienna "
    "Denver Seattle Houston Dublin Oslo Prague Lisbon"
)
WORDS = _words(
    "Yes No Hello Goodbye Thanks Please Sorry Stop Go Wait Why When Where How Who What Okay Sure "
    "Maybe Never Always Again Help Welcome Congratulations Really Exactly Absolutely Perfect Great "
    "Tomorrow Today Yesterday Now Later Left Right Up Down Monday Tuesday Wednesday Thursday "
    "Friday Saturday Sunday January February March April May June July August September October "
    "November "
    "December Red Blue Green Yellow Coffee Water Bread Music Morning Evening Night Winter"
)
THINGS = _words(
    "chairs letters people houses books minutes miles boxes tickets apples students pages dollars "
    "photographs messages questions"
)
QUESTIONS = (
    "What time does the {thing} leave", "Where did you put the {thing}", "Who told {name} about it",
    "Why is {name} still in {place}", "How far is it to {place}", "When will {name} be back",
    "Can you hear me", "Do you want to come along", "Is {name} at home", "Are you sure about that",
    "Have you ever been to {place}", "Could you say that again", "Would you like some {drink}",
    "Did {name} call you", "Which {thing} is yours", "Shall we go", "Whose {thing} is this",
)  # fmt: skip
OBJECTS = _words("train bus key ticket coat phone letter bag umbrella boat")
DRINKS = _words("coffee tea water juice milk")
NAMED = (
    "My name is {full}.", "{full} lives in {place}.", "Please ask {name} to call {other}.",
    "Dear {name}, thank you for your letter.", "{name} and {other} met in {place}.",
    "This is {full} speaking.", "Doctor {last} will see you now.", "Good morning, {name}!",
)  # fmt: skip
SPELLED = (
    "{letters}.", "It is spelled {letters}.", "My name is {name}, {letters}.",
    "The code is {letters}.", "Please type {letters} and press enter.",
)  # fmt: skip
COUNTED = (
    "There are {number} {things} in the room.", "It costs {number} dollars.",
    "We need {number} more {things}.", "The answer is {number}.", "{Number}.",
    "Turn to page {number}.", "She counted {number} {things}.", "In {year}, everything changed.",
    "The bus leaves at {hour} {minute}.", "Call {digits}.", "It is {number} degrees outside.",
    "About {number} percent of them agreed.", "{name} is {age} years old.",
)  # fmt: skip


def number_words(number: int) -> str:
    """0 to 999,999 in words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, rest = divmod(number, 10)
        return TENS[tens - 2] + (f"-{ONES[rest]}" if rest else "")
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            head, rest = divmod(number, size)
            words = f"{number_words(head)} {name}"
            return words + (f" {number_words(rest)}" if rest else "")
    raise AssertionError(number)


def _number(chance: random.Random) -> str:
    top = chance.choice((20, 100, 1000, 10_000, 1_000_000))
    return number_words(chance.randrange(top))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fields(chance: random.Random) -> dict[str, str]:
    name, other = chance.sample(FIRST_NAMES, 2)
    last, number = chance.choice(LAST_NAMES), _number(chance)
    letters = [chance.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(chance.randint(2, 6))]
    first, second = divmod(chance.randint(1700, 2059), 100)
    minute = chance.choice((5, 10, 15, 20, 25, 30, 40, 45, 50, 55))
    return {
        "name": name,
        "other": other,
        "last": last,
        "full": f"{name} {last}",
        "place": chance.choice(PLACES),
        "thing": chance.choice(OBJECTS),
        "things": chance.choice(THINGS),
        "drink": chance.choice(DRINKS),
        "letters": chance.choice((" ", ", ", "-")).join(letters),
        "number": number,
        "Number": _capital(number),
        "age": number_words(chance.randint(1, 99)),
        "year": f"{number_words(first)} {number_words(second) if second else 'hundred'}",
        "hour": number_words(chance.randint(1, 12)),
        "minute": number_words(minute),
        "digits": " ".join(ONES[chance.randrange(10)] for _ in range(chance.randint(3, 7))),
    }


def lines(chance: random.Random, count: int) -> Iterator[str]:
    """`count` lines of each kind; many repeat."""
    for _ in range(count):
        fields = _fields(chance)
        words = " ".join(chance.sample(WORDS, chance.choice((1, 1, 2))))
        yield _capital(words.lower()) + chance.choice((".", ".", "!", "?", ""))
        yield chance.choice(QUESTIONS).format(**fields) + "?"
        for kind in (NAMED, SPELLED, COUNTED):
            yield _capital(chance.choice(kind).format(**fields))
