"""Score text preparation against written and spoken pairs, by kind.

    python tests/text_set/score.py [--with wetext,nemo] [--kind K] [--misses] [--part P]
    python tests/text_set/score.py --raise-floors
    python tests/text_set/score.py --peer FOLDER [--separator '~'] [--with wetext,nemo] [--misses]

The pairs are files under `seen/` and `held_out/`, one a kind, in a folder for each language:

    What the kind is and where its right answers come from, up to an empty line.

    written => spoken | also right | {the |}fifth

`{a|b}` stands for either part; `\\n`, `\\r`, `\\t` and `\\u200b` for what cannot be seen. Files of
`sentences` hold a text on each line, cut with ` || ` where its sentences end. Answers are compared
by content (`comparison.py`).
`--peer` scores another project's test data in place, `written~spoken` on each line of `*.txt`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from comparison import is_same

from voxcli.text import prepare, segment

HERE = Path(__file__).resolve().parent
FLOORS = HERE / "floors.txt"
PARTS = ("seen", "held_out")
_PAUSE_AFTER_SENTENCE_S = 0.25
Speak = Callable[[str, str], str]


@dataclass(frozen=True)
class Pair:
    """One written form and its right answers.

    Attributes:
        spoken: right answers; for `sentences`, the one list of sentences as " || " joins them.
        stops: whether the marks that end sentences count in the comparison.
    """

    language: str
    kind: str
    written: str
    spoken: tuple[str, ...]
    stops: bool = False
    is_sentences: bool = False

    @property
    def name(self) -> str:
        """The kind with its language."""
        return f"{self.language}/{self.kind}"


@dataclass(frozen=True)
class Miss:
    pair: Pair
    said: str


def read_pairs(part: str) -> list[Pair]:
    """All pairs of `seen` or `held_out`, kinds in alphabetical order.

    Raises:
        ValueError: a line that is no pair, with its file and number.
    """
    return [pair for path in sorted((HERE / part).glob("*/*.txt")) for pair in _read(path)]


def _read(path: Path) -> Iterator[Pair]:
    lines = path.read_text("utf-8").splitlines()
    start = lines.index("") if "" in lines else len(lines)
    language, kind = path.parent.name, path.stem
    stops = "Stops count." in " ".join(lines[:start])
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if not line:
            continue
        if kind == "sentences":
            gap = "" if language in ("zh", "ja") else " "
            yield Pair(language, kind, line.replace(" || ", gap), (line,), is_sentences=True)
            continue
        written, arrow, spoken = line.partition(" => ")
        if not arrow or not written.strip() or not spoken.strip() or " => " in spoken:
            raise ValueError(f"{path}:{number}: not 'written => spoken': {line}")
        if re.search(r"\{[^{}]*(?:\{|\Z)", spoken):
            raise ValueError(f"{path}:{number}: braces inside braces, or not closed: {line}")
        answers = tuple(itertools.chain.from_iterable(map(_expand, _alternatives(spoken))))
        yield Pair(language, kind, _unescape(written), answers, stops)


def _unescape(written: str) -> str:
    def char(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else {"n": "\n", "r": "\r", "t": "\t"}[match[2]]

    return re.sub(r"\\(?:u([0-9a-f]{4})|([nrt]))", char, written)


def _alternatives(spoken: str) -> list[str]:
    return re.split(r" \| (?![^{}]*\})", spoken)


def _expand(answer: str) -> list[str]:
    """Every answer that the parts in braces stand for."""
    pieces = re.split(r"\{([^{}]*)\}", answer)
    choices = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def say(text: str, language: str) -> str:
    """What voxcli speaks."""
    return prepare(text, languages=(), language=language, max_chars=10**6, model="any").text


@cache
def _wetext(language: str) -> Callable[[str], str]:
    from wetext import Normalizer

    normaliser: Callable[[str], str] = Normalizer(lang=language, operator="tn").normalize
    return normaliser


@cache
def _nemo(language: str) -> Callable[[str], str]:
    import logging

    from nemo_text_processing.text_normalization.normalize import Normalizer

    logging.disable(logging.INFO)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = Path(home) / "voxcli-tests" / "nemo"
    place.mkdir(parents=True, exist_ok=True)
    normaliser: Callable[[str], str] = Normalizer(
        input_case="cased", lang=language, cache_dir=str(place)
    ).normalize
    return normaliser


PEERS: dict[str, tuple[Speak, tuple[str, ...]]] = {
    "wetext": (lambda text, language: _wetext(language)(text), ("en", "zh")),
    "nemo": (lambda text, language: _nemo(language)(text), ("en",)),
}


def score(pairs: list[Pair], speak: Speak = say) -> list[Miss]:
    """The pairs that are said wrong, with what is said."""
    misses = []
    for pair in pairs:
        if pair.is_sentences:
            said = " || ".join(_sentences(pair))
            is_right = said == pair.spoken[0]
        else:
            try:
                said = speak(pair.written, pair.language)
            except Exception as error:  # a peer may fail on any text: that is a miss too
                said = f"!{type(error).__name__}: {error}"
            is_right = any(is_same(said, answer, stops=pair.stops) for answer in pair.spoken)
        if not is_right:
            misses.append(Miss(pair, said))
    return misses


def _sentences(pair: Pair) -> list[str]:
    """Where voxcli ends sentences: at this length no two of them are packed into one segment."""
    longest = max(map(len, pair.spoken[0].split(" || ")))
    found: list[str] = []
    goes_on = False
    for part in segment(pair.written, longest, pair.language):
        if goes_on:
            found[-1] += f" {part.text}"
        else:
            found.append(part.text)
        goes_on = part.pause_s < _PAUSE_AFTER_SENTENCE_S
    return found


# For each kind, how many pairs there are and how many each normaliser says right (absent: cannot).
Table = dict[str, tuple[int, dict[str, int]]]


def tabulate(pairs: list[Pair], peers: list[str]) -> tuple[Table, list[Miss]]:
    """Counts by kind, ours and the peers', and our misses."""
    table: Table = {}
    misses: list[Miss] = []
    for kind in dict.fromkeys(pair.name for pair in pairs):
        own = [pair for pair in pairs if pair.name == kind]
        missed = score(own)
        misses += missed
        right = {"voxcli": len(own) - len(missed)}
        for peer in peers:
            speak, languages = PEERS[peer]
            if own[0].language in languages and not own[0].is_sentences:
                right[peer] = len(own) - len(score(own, speak))
        table[kind] = (len(own), right)
    return table, misses


def markdown(tables: dict[str, Table], peers: list[str]) -> list[str]:
    """Lines of one table by kind, the parts side by side."""
    names = ["voxcli", *peers]
    columns = [f"{part}: {name}" for part in tables for name in ["pairs", *names]]
    lines = [f"| kind | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for kind in sorted({kind for table in tables.values() for kind in table}):
        cells = [kind]
        for table in tables.values():
            count, right = table.get(kind, (0, {}))
            cells += [str(count), *(str(right.get(name, "")) for name in names)]
        lines.append(f"| {' | '.join(cells)} |")
    cells = ["all"]
    for table in tables.values():
        cells.append(str(sum(count for count, _ in table.values())))
        for name in names:
            of = sum(count for count, right in table.values() if name in right)
            total = sum(right.get(name, 0) for _, right in table.values())
            share = 100 * total / max(1, of)
            shown = share if total == of else min(share, 99.9)  # never "100.0 %" with one wrong
            cells.append(f"{total} of {of} ({shown:.1f} %)")
    return [*lines, f"| {' | '.join(cells)} |"]


def read_floors() -> dict[str, tuple[int, ...]]:
    """For each kind, how many pairs of each part must be right."""
    rows = (line.split() for line in FLOORS.read_text("utf-8").splitlines() if line)
    return {kind: tuple(map(int, counts)) for kind, *counts in rows}


def raise_floors(tables: dict[str, Table]) -> None:
    """Write what is right now where it is more than the floor; no floor is lowered."""
    floors = read_floors()
    for kind in sorted({kind for table in tables.values() for kind in table}):
        now = (tables[part].get(kind, (0, {"voxcli": 0}))[1]["voxcli"] for part in PARTS)
        floors[kind] = tuple(map(max, now, floors.get(kind, (0,) * len(PARTS))))
    lines = [f"{kind} {' '.join(map(str, counts))}" for kind, counts in sorted(floors.items())]
    FLOORS.write_text("\n".join(lines) + "\n", "utf-8")


_SPELLED = re.compile(r"[A-Z]{2,}|\b[b-df-hj-np-tv-xz]{2,}\b")


def read_peer(folder: Path, separator: str) -> list[Pair]:
    """A peer's own test data, one file a kind. Words of capitals or consonants may be letters."""
    pairs = []
    for path in sorted(folder.glob("*.txt")):
        kind = path.stem.removeprefix("test_cases_")
        if kind.endswith("match_input"):  # answers to an option, not to the text
            continue
        for line in path.read_text("utf-8").splitlines():
            written, *answers = (part.strip() for part in line.split(separator))
            choices = [
                _SPELLED.sub(lambda m: f"{{{m[0]}|{' '.join(m[0])}}}", re.sub("[{}]", " ", each))
                for each in answers
            ]
            if written and answers:
                spoken = itertools.chain.from_iterable(map(_expand, choices))
                pairs.append(Pair("en", kind, written, tuple(spoken)))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--with", dest="peers", default="", help="other normalisers: wetext,nemo")
    parser.add_argument("--kind", help="one kind, such as money or de/sentences")
    parser.add_argument("--part", choices=PARTS, help="one part")
    parser.add_argument("--misses", action="store_true", help="also print what is said wrong")
    parser.add_argument("--raise-floors", action="store_true", help=f"write {FLOORS.name}")
    parser.add_argument("--peer", type=Path, help="a folder with another project's test data")
    parser.add_argument("--separator", default="~", help="between the columns of --peer")
    chosen = parser.parse_args()
    peers = [name for name in chosen.peers.split(",") if name]
    if chosen.peer:
        parts = {"peer": read_peer(chosen.peer, chosen.separator)}
    else:
        parts = {part: read_pairs(part) for part in PARTS if chosen.part in (None, part)}
    began = time.perf_counter()
    tables: dict[str, Table] = {}
    misses: list[Miss] = []
    for part, pairs in parts.items():
        wanted = [p for p in pairs if chosen.kind in (None, p.kind, p.name)]
        tables[part], missed = tabulate(wanted, peers)
        misses += missed
    print(*markdown(tables, peers), sep="\n")
    print(f"\n{time.perf_counter() - began:.1f} s")
    for miss in misses if chosen.misses else ():
        right = miss.pair.spoken[0]
        print(f"{miss.pair.name}: {miss.pair.written!r}\n   right: {right}\n   said:  {miss.said}")
    if chosen.raise_floors and tables.keys() == set(PARTS) and not chosen.kind:
        raise_floors(tables)


if __name__ == "__main__":
    main()
