"""Measured times of words, beside times that are known because the speech was put together."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxcli import alignment
from voxcli.alignment import RATE, Aligner, WordTimer, can_align, parts_of, with_words
from voxcli.audio.joins import QUIET
from voxcli.audio.resample import Samples, resample
from voxcli.text.phones import _FIRST, _NAMES, _SOUNDS, phones_of
from voxcli.times import Timed, as_json, cues, in_cues, kinds_of, words
from voxcli.utterance import FinishReason, SegmentReport

VOICES = Path(__file__).resolve().parents[2] / "samples" / "voices"
NAMES = ["emma", "bruno", "clara", "michael", "nora", "oscar"]
GAP_S = 0.7
pocketsphinx = pytest.importorskip("pocketsphinx")


def spoken(name: str) -> tuple[str, Samples]:
    """A sentence and its sound, without the silence around it."""
    samples, rate = soundfile.read(VOICES / f"{name}.flac", dtype="float32")
    heard = resample(samples, rate, RATE)
    loud = np.flatnonzero(np.abs(heard) >= QUIET)
    text = (VOICES / f"{name}.txt").read_text("utf-8").strip()
    return text, heard[loud[0] : loud[-1] + 1]


def joined(names: Sequence[str]) -> tuple[Timed, Samples, list[float]]:
    """Sentences of several voices as one segment, and when each of them begins."""
    parts, starts, texts, at_s = [], [], [], 0.0
    for name in names:
        text, samples = spoken(name)
        texts.append(text)
        starts.append(at_s)
        parts += [samples, np.zeros(round(GAP_S * RATE), np.float32)]
        at_s += len(samples) / RATE + GAP_S
    heard = np.concatenate(parts[:-1])
    return Timed(" ".join(texts), 0.0, len(heard) / RATE), heard, starts


def firsts(found: Sequence[Timed], texts: Sequence[str]) -> list[float]:
    """When the first word of each text sounds."""
    index = np.cumsum([0, *(len(text.split()) for text in texts)])[:-1]
    return [found[each].start_s for each in index]


def test_a_sentence_begins_where_it_was_put_and_estimates_are_far_off() -> None:
    segment, heard, starts = joined(NAMES[:3])
    texts = [spoken(name)[0] for name in NAMES[:3]]
    measured = with_words(segment, heard)
    errors = np.abs(np.subtract(firsts(measured.words, texts), starts))
    assert errors.max() < 0.08, errors
    guessed = np.abs(np.subtract(firsts(words(segment, "en"), texts), starts))
    assert guessed.max() > 4 * errors.max(), guessed


@pytest.mark.parametrize("name", NAMES[:3])
def test_words_are_whole_in_order_and_inside_their_segment(name: str) -> None:
    text, heard = spoken(name)
    start_s = 2.5
    segment = with_words(Timed(text, start_s, start_s + len(heard) / RATE), heard)
    assert [word.text for word in segment.words] == text.split()
    edges = [at_s for word in segment.words for at_s in (word.start_s, word.end_s)]
    assert edges == sorted(edges)
    assert segment.start_s <= edges[0] < segment.start_s + 0.1
    assert segment.end_s - 0.15 < edges[-1] <= segment.end_s


def test_what_was_aligned_before_changes_nothing() -> None:
    one, other = (spoken(name) for name in NAMES[:2])
    fresh = Aligner().align(one[0].split(), one[1])
    used = Aligner()
    used.align(other[0].split(), other[1])
    used.align(["nothing", "of", "that", "was", "said"], other[1])
    assert used.align(one[0].split(), one[1]) == fresh


@pytest.mark.parametrize(
    "text",
    [
        "Zzyzx Llanfairpwll's",  # words that no dictionary has
        "If — ‘you’",  # with signs that are not heard
        "Íf ýou",
    ],
)
def test_every_word_has_a_time_whatever_it_is(text: str) -> None:
    said, heard = spoken("emma")
    tail = said.split()[2:]
    segment = with_words(Timed(" ".join([text, *tail]), 0.0, len(heard) / RATE), heard)
    found = words(segment, "en")
    assert [word.text for word in found] == [*text.split(), *tail]
    assert all(before.end_s <= after.start_s + 1e-9 for before, after in pairwise(found))


@pytest.mark.parametrize("text", ["It costs $5 now.", "1250 people came", "Just 40% of it"])
def test_what_nobody_knows_how_to_read_is_estimated(text: str) -> None:
    heard = spoken("emma")[1]
    assert with_words(Timed(text, 0.0, 1.0), heard).words == ()
    assert {word.is_estimated for word in words(Timed(text, 0.0, 1.0), "en")} == {True}


def test_speech_that_lost_its_way_is_estimated() -> None:
    """The voice says much more than the text, or nothing."""
    text, heard = spoken("emma")
    few = " ".join(text.split()[:2])
    assert with_words(Timed(few, 0.0, 9.0), np.concatenate([heard, heard])).words == ()
    for samples in (heard[:0], heard[:200], np.zeros(RATE, np.float32)):
        assert with_words(Timed(text, 0.0, 1.0), samples).words == ()


def report(text: str, start_s: float, end_s: float, reason: str = "stop") -> SegmentReport:
    return SegmentReport(
        text, 1, 1, 1, end_s - start_s, FinishReason(reason), start_s=start_s, end_s=end_s
    )


@pytest.mark.parametrize(("size", "is_behind"), [(1000, False), (60_000, False), (10**7, True)])
def test_a_speech_is_timed_alike_however_it_comes(size: int, is_behind: bool) -> None:
    """In small pieces or whole, aligned on the way or at the end."""
    parts = [spoken(name) for name in NAMES[:2]]
    lead = np.zeros(round(0.5 * RATE), np.float32)
    audio = np.concatenate([lead, parts[0][1], lead, parts[1][1], lead])
    ends_s = np.cumsum([0.5 + len(heard) / RATE for _, heard in parts])
    reports = [
        report(text, end_s - len(heard) / RATE, end_s)
        for (text, heard), end_s in zip(parts, ends_s, strict=True)
    ]
    timer = WordTimer(RATE, "en")
    for start in range(0, len(audio), size):
        timer.push(audio[start : start + size])
        if not is_behind:
            timer.catch_up(reports)
    found = timer.finish(reports)
    assert [each.text for each in found] == [text for text, _ in parts]
    for segment, (text, heard) in zip(found, parts, strict=True):
        alone = with_words(Timed(text, segment.start_s, segment.end_s), heard)
        starts = [word.start_s for word in segment.words]
        assert starts == pytest.approx([word.start_s for word in alone.words], abs=0.03)


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_no_more_sound_is_held_than_that_of_a_segment(
    monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Whether its words can be measured or not, however long the speech is."""
    monkeypatch.setattr(alignment, "with_words", lambda segment, samples: segment)
    second, traced = np.full(RATE, 0.1, np.float32), []
    for _ in range(3):  # the least of them: what other threads of the process do is traced too
        timer = WordTimer(RATE, "en")
        tracemalloc.start()
        for number in range(1, 200):
            timer.push(second)
            timer.push(second)
            timer.catch_up(
                [report("a b", 2.0 * at, 2.0 * at + 1.9, reason) for at in range(number)]
            )
        traced.append(tracemalloc.get_traced_memory())
        tracemalloc.stop()
        assert len(timer.segments) == 199
    held, most = map(min, zip(*traced, strict=True))
    assert held < 2 * 4 * RATE + 200_000  # two seconds, beside the segments' own texts and times
    assert most < 2_000_000


def test_a_segment_that_was_cut_is_estimated_and_so_is_another_language() -> None:
    text, heard = spoken("emma")
    end_s = len(heard) / RATE
    for language, reason in (("en", "length"), ("fr", "stop"), ("zh", "stop")):
        timer = WordTimer(RATE, language)
        timer.push(heard)
        (found,) = timer.finish([report(text, 0.0, end_s, reason)])
        assert (found.text, found.words) == (text, ())


def test_without_the_package_all_words_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    monkeypatch.setattr(alignment, "find_spec", lambda name: None)
    assert not can_align("en")
    text, heard = spoken("emma")
    timer = WordTimer(RATE, "en")
    timer.push(heard)
    timer.catch_up([report(text, 0.0, 2.0)])
    found = timer.finish([report(text, 0.0, 2.0)])
    plain = as_json(found, "en")
    assert plain["times_of_words"] == plain["segments"][0]["times_of_words"] == "estimated"
    assert plain == as_json([report(text, 0.0, 2.0)], "en")


def test_json_says_of_each_segment_whether_its_words_were_measured() -> None:
    text, heard = spoken("emma")
    measured = with_words(Timed(text, 0.0, len(heard) / RATE), heard)
    guessed = Timed("It costs 5 today.", 9.0, 11.0)
    both, one = as_json([measured, guessed], "en"), as_json([measured], "en")
    assert [each["times_of_words"] for each in both["segments"]] == ["measured", "estimated"]
    assert (both["times_of_words"], one["times_of_words"]) == ("estimated", "measured")
    assert kinds_of(both["segments"])["times_of_segments"] == "measured"


def test_cues_within_a_segment_begin_with_their_words() -> None:
    segment, heard, _ = joined(NAMES[:2])
    measured = with_words(segment, heard)
    found = in_cues(measured, "en")
    assert len(found) > 1
    assert not any(cue.is_estimated for cue in found)
    starts = {word.start_s for word in measured.words} | {segment.start_s}
    assert {cue.start_s for cue in found} <= starts
    assert (found[0].start_s, found[-1].end_s) == (segment.start_s, segment.end_s)
    assert " ".join(cue.text for cue in cues([measured], "en")).split() == segment.text.split()


def test_a_segment_moves_and_ends_with_its_words() -> None:
    inner = (Timed("a", 1.0, 1.5), Timed("b", 1.6, 2.0), Timed("c", 2.1, 3.0))
    moved = Timed("a b c", 1.0, 3.0, words=inner).until(1.8).later(10.0)
    assert (moved.start_s, moved.end_s) == (11.0, 11.8)
    assert [word.start_s for word in moved.words] == pytest.approx([11.0, 11.6, 11.8])
    assert [word.end_s for word in moved.words] == pytest.approx([11.5, 11.8, 11.8])


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Well-known,", ["well", "known"]), ("didn’t", ["didn't"]), ("—", []),
        ("“Zoë’s", ["zoe's"]), ("$5", None), ("x²", None), ("A&B", None),
    ],
)  # fmt: skip
def test_a_word_has_the_parts_that_sound(word: str, parts: list[str] | None) -> None:
    assert parts_of(word) == parts


def test_any_letters_have_a_pronunciation_of_phones_that_the_model_knows() -> None:
    decoder = pocketsphinx.Decoder(lm=None, loglevel="FATAL")
    for word in {*_SOUNDS, *_FIRST, *_NAMES, "strengths", "xqz", "knitting", "llanfair", "zz"}:
        decoder.add_word(f"+{word}", phones_of(word), False)  # raises for an unknown phone
        assert decoder.lookup_word(f"+{word}") == phones_of(word)
