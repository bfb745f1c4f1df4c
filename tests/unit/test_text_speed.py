"""Normalising and segmenting is linear on hostile texts, and importing it is cheap."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from time import process_time

import pytest

from voxcli.text import chinese, normalise, segment
from voxcli.text.preparer import is_plain

PROSE = (
    'Dr. Smith paid $1,299.50 on 03/04/2026 at 5:30 p.m. for 3.5 kg (a lot); "why?" he said. The '
    "FBI's report — see https://example.com/x — was 50% longer than expected, and nobody knew. 😀\n"
)
HOSTILE = [
    "a", "1", "1,", "000,", "(", ")", "[", "](", "*", "_", "<", "<!--", " ", "\n", "a.", "&",
    "-", "`", "|", "A ", "1/", "a@", "#", "=", '"', "...", "! ", "1:", "$1", ".1", "/a", "\\a", "\\",
    "[a", "<script>", "<style><svg>", "Sat ", "Nov-", '1" ', "1h1", "1 000 ",
    "é", "字。", "x1", "– ", "a-", "www.", "&lt;", "½", "😀",
    "¹", "⁻", "x⁻ⁿ", "word¹", "(word)²", "a 1,²", "₁ₙ", "$5.5", "km²/", "m·", "m²/s", " m s^-2",
    "$a ", "\\n", "\\u00e9", "~1", "A- ", "at - 5 ", "-ab\n", "Σ ", "H₂(", "Ca2",
    "Na+", "5 m·", "J/(m·", "10²–", "~5", "5 kg-",
]  # fmt: skip


def cost(text: str) -> float:
    start = process_time()
    segment(normalise(text, "en").text, 150)
    segment(text, 150)
    return process_time() - start


def is_within(text: str, limit_s: float) -> bool:
    """Whether any of a few tries takes no longer: on a busy machine one may."""
    return any(cost(text) < limit_s for _ in range(5))


def test_a_long_text_is_ready_in_a_moment() -> None:
    cost(PROSE)
    assert is_within((PROSE * 400)[:60_000], 1.5)


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_is_linear_in_the_length(piece: str) -> None:
    # A quadratic rule costs seconds at this length, a linear one some 0.03 s.
    assert is_within(piece * (4_000 // len(piece)), 0.5)


@pytest.mark.parametrize(
    "piece",
    [
        "5-",
        "5~ ",
        "1937—",
        "3:2-",
        "-5%",
        "A-5",
        "$1",
        "a@",
        "5 J·",
        "5/(m·",
        "10²",
        "x²",
        "~",
        "H₂",
        "（字",
    ],
)
def test_time_of_chinese_is_linear_too(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chinese, "_wetext", lambda: None)  # whose time is its own

    def cost_s() -> float:
        start = process_time()
        normalise(piece * (4_000 // len(piece)), "zh")
        return process_time() - start

    assert any(cost_s() < 0.5 for _ in range(5))


def least_s(act: Callable[[], object]) -> float:
    """The least time of a few tries, which a busy machine disturbs least."""
    times = []
    for _ in range(3):
        start = process_time()
        act()
        times.append(process_time() - start)
    return max(min(times), 0.002)


def is_linear(short: Callable[[], object], long: Callable[[], object]) -> bool:
    """Whether four times the text takes less than ten times as long, in any of a few tries."""
    return any(least_s(long) < 10 * least_s(short) for _ in range(5))


REPEATED = [
    "1-", "1-1 ", "8-A-", "1) ", "(800)-", "a.-", "9 a.m.-", "[1] ", "[a]", "I'", "A'B ", "x-\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", REPEATED)
def test_four_times_the_text_takes_no_more_than_some_four_times_as_long(piece: str) -> None:
    short, long = (piece * (size // len(piece)) for size in (8_000, 32_000))
    assert is_linear(lambda: normalise(short), lambda: normalise(long))


@pytest.mark.parametrize("ending", ["café (b)", "é", "1", "."])
@pytest.mark.parametrize("piece", ["word ", "ab", "a ", "1."])
def test_a_glance_at_a_long_line_is_linear(piece: str, ending: str) -> None:
    short, long = (piece * (size // len(piece)) + ending for size in (50_000, 200_000))
    assert is_linear(lambda: is_plain(short), lambda: is_plain(long))


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = (
        "import sys, voxcli.text as t\n"
        "t.prepare('Hi 5', languages=('en',), max_chars=99, model='m')\n"
        "heavy = {'torch', 'numpy', 'ftfy', 'anyascii', 'wetext', 'kaldifst'} & set(sys.modules)\n"
        "sys.exit(bool(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
