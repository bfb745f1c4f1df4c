"""When each part of a speech sounds: cues that a reader can follow, and shares of a segment."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.times import MAX_CUE_S, MAX_LINE, MAX_LINES, MIN_CUE_S, as_json, cues, words
from voxcli.utterance import FinishReason, SegmentReport

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=30)
WORDS = ["a", "ferry", "leaves,", "at", "noon.", "Extraordinarily", "well-known", "and", "Why?"]


def report(text: str, start_s: float, end_s: float) -> SegmentReport:
    return SegmentReport(
        text, 1, 1, 1, end_s - start_s, FinishReason.STOP, start_s=start_s, end_s=end_s
    )


@FIXED
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=40),
            st.floats(0.05, 0.12), st.floats(0, 3),
        ),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_cues_fit_the_screen_and_say_every_word_in_turn(
    parts: list[tuple[list[str], float, float]],
) -> None:
    reports, at_s = [], 0.5
    for said, pace, pause_s in parts:
        text = " ".join(said)
        end_s = at_s + len(text) * pace
        reports.append(report(text, at_s, end_s))
        at_s = end_s + pause_s
    found = cues(reports, "en")
    assert " ".join(cue.text for cue in found).split() == [
        word for each in reports for word in each.text.split()
    ]
    for cue in found:
        lines = cue.text.split("\n")
        assert len(lines) <= MAX_LINES
        assert max(map(len, lines)) <= MAX_LINE
        assert cue.end_s - cue.start_s <= MAX_CUE_S + 0.01
    for before, after in itertools.pairwise(found):
        assert before.end_s <= after.start_s + 1e-9
        is_free = after.start_s - before.start_s >= MIN_CUE_S
        assert not is_free or before.end_s - before.start_s >= MIN_CUE_S - 1e-9
    starts = {cue.start_s for cue in found}
    assert {each.start_s for each in reports} <= starts


def test_a_segment_that_is_one_cue_has_measured_times() -> None:
    first, second = cues([report("One.", 0.25, 1.5), report("Two " * 60, 2.0, 20.0)], "en")[:2]
    assert (first.start_s, first.end_s, first.is_estimated) == (0.25, 1.5, False)
    assert second.is_estimated


def test_chinese_lines_have_half_the_letters() -> None:
    (*_, last) = found = cues([report("你好世界今天天气很好" * 6, 0.0, 14.0)], "zh")
    assert last.end_s == pytest.approx(14.0)
    assert max(len(line) for cue in found for line in cue.text.split("\n")) <= MAX_LINE // 2


def test_words_share_the_time_of_their_segment() -> None:
    spoken = report("A ferry leaves at noon.", 1.0, 3.0)
    found = words(spoken, "en")
    assert [word.text for word in found] == spoken.text.split()
    assert (found[0].start_s, found[-1].end_s) == (1.0, 3.0)
    assert all(word.is_estimated for word in found)
    assert found[1].end_s - found[1].start_s > found[0].end_s - found[0].start_s
    plain = as_json([spoken], "en")
    assert (plain["times_of_segments"], plain["times_of_words"]) == ("measured", "estimated")
    assert [word["word"] for word in plain["segments"][0]["words"]] == spoken.text.split()
