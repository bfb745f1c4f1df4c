"""Step `corpus`: the lines that teachers say and models learn to read.

Sentences come from files that the settings name, and from this recipe's own templates: what people
type and what such files lack. Where ours came from: Common Voice's sentences (mozilla/voice-web,
CC0), WordNet 3.0 (Debian `wordnet-base`, WordNet licence), the novels of `r-cran-janeaustenr` and
the Bible of `sword-text-web` (Debian, both public domain).
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from recipes.train_mini import templates
from recipes.train_mini.progress import Budget, Log, write_whole
from recipes.train_mini.settings import Settings

REPLACED = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "…": "...", "–": "-", "`": "'", "\u00a0": " "}
)
UNSPOKEN = re.compile(r"[\[\]{}<>@#*_=|\\^~+/]")
LONG_FROM = 151  # characters
MARKED_TO = 160
PAUSE = "..."
BETWEEN = (PAUSE, PAUSE, PAUSE, "!", "!", "?", "?", "?!", "!!", ".", ";", ":", ",", "-")
WITHIN = (PAUSE, PAUSE, PAUSE, ",", "-", ";")
AT_END = (".", ".", ".", "!", "?", PAUSE, "?!", "!!")


def cleaned(line: str) -> str:
    return re.sub(r"\s+", " ", line.translate(REPLACED)).strip()


def is_sayable(line: str, low: int, high: int) -> bool:
    """Of the voice's alphabet, and of a length it is trained for."""
    letters = all(" " <= each < "\x7f" or each in "—é" for each in line)
    return low <= len(line) <= high and letters and not UNSPOKEN.search(line)


def _read(path: Path) -> Iterator[str]:
    if path.is_dir():
        for each in sorted(path.iterdir()):
            yield from _read(each)
    elif path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as handle:
            yield from handle
    else:
        with path.open(encoding="utf-8", errors="replace") as handle:
            yield from handle


def wordnet_lines(folder: Path) -> Iterator[str]:
    """Examples and glosses of WordNet's `data.*` files, as sentences."""
    for path in sorted(folder.glob("data.*")):
        for line in path.read_text("latin1").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            gloss = line.split("|", 1)[1]
            examples = re.findall(r'"([^"]+)"', gloss)
            meaning = re.sub(r'"[^"]*"|\([^)]*\)', "", gloss).split(";")[0]
            for text in (*examples, meaning):
                text = cleaned(text).strip(" ;-")
                if text.count(" ") >= 2 and "(" not in text:
                    yield text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def joined(lines: list[str], count: int, high: int, chance: random.Random) -> Iterator[str]:
    """Lines of several sentences, longer than most sources have."""
    for _ in range(count):
        wanted, parts = chance.randint(LONG_FROM, max(LONG_FROM, high)), [chance.choice(lines)]
        while len(" ".join(parts)) < wanted:
            parts.append(chance.choice(lines))
        if len(" ".join(parts)) > high:
            parts.pop()
        yield " ".join(parts)


def marked(lines: list[str], count: int, high: int, chance: random.Random) -> Iterator[str]:
    """Lines with marks inside, of which sources have few: where a voice pauses and does not end.

    Up to three short lines with any mark between them, or one that is interrupted.
    """
    for _ in range(count):
        first, *others = (chance.choice(lines).rstrip(".!?") for _ in range(chance.randint(1, 3)))
        text = first if others else _interrupted(first, chance)
        for other in others:
            if len(text) + len(other) + 10 > high:
                break
            text += _mark(chance.choice(BETWEEN)) + " " + _begun(other, chance)
        if chance.random() < 0.1:
            text = PAUSE + _begun(text, chance)
        yield text + chance.choice(AT_END)


def _mark(mark: str) -> str:
    return " -" if mark == "-" else mark


def _begun(text: str, chance: random.Random) -> str:
    """Half of the time with a small letter, as behind a pause."""
    if chance.random() < 0.5 or re.match(r"I\b", text):
        return text
    return text[0].lower() + text[1:]


def _interrupted(text: str, chance: random.Random) -> str:
    words = text.split()
    if len(words) < 3:
        return text
    place = chance.randrange(1, len(words))
    before = " ".join(words[:place]).rstrip(",;:-. ")
    return before + _mark(chance.choice(WITHIN)) + " " + " ".join(words[place:])


def build(settings: Settings) -> list[str]:
    corpus = settings.corpus
    held = (
        {_letters(line) for line in _read(settings.path(corpus.held_out))}
        if corpus.held_out
        else set()
    )
    low, high = corpus.min_chars, corpus.max_chars

    def kept(lines: Iterable[str]) -> list[str]:
        every = (cleaned(line) for line in lines)
        good = (
            line for line in every if is_sayable(line, low, high) and _letters(line) not in held
        )
        return list(dict.fromkeys(good))

    lines = kept(line for source in corpus.sources for line in _read(settings.path(source)))
    if corpus.wordnet:
        lines += kept(wordnet_lines(settings.path(corpus.wordnet)))
    chance = random.Random(corpus.seed)
    made = kept(templates.lines(chance, corpus.num_templates))
    short = [line for line in lines + made if 20 <= len(line) <= 110 and line[-1] in ".!?"]
    if short and high >= LONG_FROM:
        made += kept(joined(short, 2 * corpus.num_templates, high, chance))
    if short:
        count = round(corpus.marked_share * len(lines + made))
        made += kept(marked(short, count, min(high, MARKED_TO), chance))
    every = list(dict.fromkeys(lines + made))
    chance.shuffle(every)
    return every


def _letters(line: str) -> str:
    return re.sub(r"[^a-z0-9]", "", line.lower())


def run(settings: Settings, _: torch.device, __: Budget) -> bool:
    target = settings.work / "corpus.txt.gz"
    if target.is_file():
        return True
    lines = build(settings)

    def write(beside: Path) -> None:
        with gzip.open(beside, "wt", encoding="utf-8") as handle:
            handle.write("\n".join(lines) + "\n")

    write_whole(target, write)
    Log("corpus", settings.work / "logs")(f"{len(lines):,} lines")
    return True
