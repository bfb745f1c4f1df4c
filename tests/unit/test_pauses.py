"""Pauses that a text asks for: no word changes for them, and they last as long as they say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from batches import prepare as prepare_batch
from batches import speak as speak_batch
from fakes import SAMPLE_RATE, fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.audio.fit import SpeedLimits, fit_to_slot
from voxcli.audio.joins import QUIET
from voxcli.audio.read import read_audio
from voxcli.audio.resample import Samples
from voxcli.batch.fitting import FitJudge
from voxcli.config import SamplingParams
from voxcli.errors import TextError, UsageError
from voxcli.text import PreparedText, prepare
from voxcli.utterance import FinishReason, Result, Utterance

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def made(text: str, language: str = "en", max_chars: int = 150, **given: object) -> PreparedText:
    return prepare(
        text, languages=(), language=language, max_chars=max_chars, model="m",
        **given,  # type: ignore[arg-type]
    )  # fmt: skip


def words(done: PreparedText) -> list[str]:
    """The words of the segments; a segment's end parts them, and Chinese has none."""
    return re.findall(r"[㐀-鿿]|[^\W㐀-鿿]+", " ".join(part.text for part in done.segments))


def silences(done: PreparedText) -> list[float]:
    return [done.silence_s, *(part.silence_s for part in done.segments)]


# ------------------------------------------------------------ in a text


@pytest.mark.parametrize(
    ("mark", "seconds"),
    [
        ("[pause 0.8s]", 0.8), ("[pause:2.5]", 2.5), ("[PAUSE = 300 ms]", 0.3),
        ("[pause .5s]", 0.5),
        ("[pause 2 seconds]", 2), ("[1.5s pause]", 1.5), ("[pause 1,5 s]", 1.5), ("[pause]", 0.75),
        ("[short pause]", 0.5), ("[pause long]", 1.25), ("[break 1s]", 1), ("[silence 1s]", 1),
        ("[wait 2s]", 2), ("[[slnc 500]]", 0.5), ("{pause 1s}", 1), ("{{pause 1s}}", 1),
        ("(pause 2s)", 2), ("<#0.5#>", 0.5), ("[pause 1 min]", 60),
        ('<break time="500ms"/>', 0.5), ("<break time='1.5s' />", 1.5), ("<break time=2s>", 2),
        ('<break time=".5s"></break>', 0.5), ("<break time=“1s”/>", 1), ("<BREAK TIME='1S'/>", 1),
        ("<break/>", 0.75), ("<break>", 0.75), ('<break strength="x-weak"/>', 0.25),
        ('<break strength="strong"/>', 1), ('<break strength="weak" time="2s"/>', 2),
        ("&lt;break time=&quot;1s&quot;/&gt;", 1), ('<silence msec="500"/>', 0.5),
        ("<pause 1s>", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gap", [" ", ""])
def test_every_way_to_ask_for_a_pause_gives_its_length(mark: str, seconds: float, gap: str) -> None:
    done = made(f"Ready.{gap}{mark}{gap}Go on.")
    assert [(part.text, part.silence_s) for part in done.segments] == [
        ("Ready.", pytest.approx(seconds)), ("Go on.", 0.0),
    ]  # fmt: skip
    assert done.text == "Ready. Go on."
    assert not done.directions


@pytest.mark.parametrize("mark", ['<break strength="none"/>', "[pause 0s]", '<break time="0ms"/>'])
def test_no_pause_cuts_nothing(mark: str) -> None:
    assert [part.text for part in made(f"Go {mark} on.").segments] == ["Go on."]


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d", "I <3 you", "x<y", "He said [pause the tape] to me.", "Take a break.",
        "Press pause 1 time (pause it).", "<p>One</p><p>Two</p>", "a [long] pause", "[12] [a]",
        "List<String> x", "if (pause) return", "[pauses 1s]", "break time 500ms",
        "the {placeholder} text", "[break](https://a.example)",
    ],
)  # fmt: skip
def test_what_looks_like_a_mark_makes_no_pause(text: str) -> None:
    done = made(text)
    assert done.silences_s == 0
    assert not done.directions


@pytest.mark.parametrize(
    "mark", ['<break time="soon"/>', '<break time="-1s"/>', '<break strength="big"/>', "<break x/>"]
)
def test_a_mark_without_a_length_is_left_out_and_named(mark: str) -> None:
    done = made(f"Go {mark} on.")
    assert words(done) == ["Go", "on"]
    assert done.directions == (mark,)


def test_raw_text_has_no_pauses_and_speaks_no_marks() -> None:
    done = made("Go [pause 1s] on <break time='1s'/> now.", rewrite=False)
    assert words(done) == ["Go", "on", "now"]
    assert done.silences_s == 0
    assert done.directions == ("[pause 1s]", "<break time='1s'/>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Go [pause 61s] on", r"'\[pause 61s\]' asks for 61 s of silence; the longest is 60 s"),
        ("Go [pause 500] on", "the longest is 60 s; a number without a unit is seconds"),
        ("Go [pause 40s] [pause 40s] on", "follow each other ask for 80 s"),
        ("Go [pause 60s] " * 61 + "on", "asks for 3660 s of silence in all; the most is 3600 s"),
        ("[pause 1s]", "nothing in the text can be spoken.*put pauses beside words"),
    ],
)
def test_a_pause_that_is_too_long_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        made(text)


MARKS = ["[pause 0.3s]", '<break time="250ms"/>', "[pause]", "<break strength='weak'/>", "<#0.1#>"]
ENGLISH = [
    "Dr. Smith", "paid", "$5", "million", "at", "10:30", "p.m.", "on", "March 4, 2026.", "5", "km",
    "**really", "big**", "Chapter", "IV", '"Why?"', "he said.", "nega-\ntive", "- an item\n", "1/2",
    "020 7946 0958", "the U.S.", "\n\n", "well-known", "word[12]", "(aside)", "WWII", "café", "—",
]  # fmt: skip
CHINESE = [
    "你好",
    "，世界",
    "。今天是",
    "2024年5月3日",
    "价格",
    "100元",
    "“好”",
    "他说",
    "！",
    "5km",
]


@FIXED
@given(
    st.sampled_from([("en", ENGLISH), ("de", ENGLISH), ("zh", CHINESE)]),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(["", *MARKS])), min_size=1, max_size=14),
)
def test_a_text_has_the_same_words_with_and_without_pauses(
    pieces_of: tuple[str, list[str]], chosen: list[tuple[int, str]]
) -> None:
    language, pieces = pieces_of
    gap = "" if language == "zh" else " "
    parts = [(pieces[index % len(pieces)], mark) for index, mark in chosen]
    plain = f"go{gap}" + gap.join(part for part, _ in parts)
    marked = f"go{gap}" + gap.join(part + gap + mark for part, mark in parts)
    done = made(marked, language)
    assert words(done) == words(made(plain, language))
    each = {"[pause 0.3s]": 0.3, '<break time="250ms"/>': 0.25, "[pause]": 0.75,
            "<break strength='weak'/>": 0.5, "<#0.1#>": 0.1, "": 0.0}  # fmt: skip
    assert done.silences_s == pytest.approx(sum(each[mark] for _, mark in parts))


def test_a_pause_stands_where_it_was_written() -> None:
    done = made('One [pause 1s], two. "Three" [pause 2s] (four) five [pause 3s] — six.')
    assert [(part.text, part.silence_s) for part in done.segments] == [
        ("One,", 1.0), ('two. "Three"', 2.0), ("four, five —", 3.0), ("six.", 0.0),
    ]  # fmt: skip
    done = made("[pause 1s]你好[pause 1s]世界，今天[pause 1s]。好[pause 1s]", "zh")
    assert [done.silence_s, *((part.text, part.silence_s) for part in done.segments)] == [
        1.0, ("你好", 1.0), ("世界，今天。", 1.0), ("好", 1.0),
    ]  # fmt: skip
    assert silences(made("A.\n\n[pause 1s]\n\nB.\n[pause 2s]\n- C.")) == [0.0, 1.0, 2.0, 0.0]


def test_pauses_in_a_row_are_one() -> None:
    done = made("[pause 1s] [pause 0.5s] Go <break time='1s'/>[pause 0.5s]. [pause 2s][pause 2s]")
    assert silences(done) == [1.5, pytest.approx(5.5)]


# ------------------------------------------------------------ in the sound


def spoken(text: str, *, is_live: bool = False, **settings: object) -> Result:
    asked = Utterance(text, **{"sampling": SamplingParams(seed=5), **settings})  # type: ignore[arg-type]
    engine = fake_engine()
    if not is_live:
        return engine.synthesize([asked])[0]
    with engine.stream(asked, is_live=True) as stream:
        samples = np.concatenate([chunk.samples for chunk in stream])
        return stream.speech.result(samples)


def quiet_runs(samples: Samples, least_s: float = 0.05) -> list[int]:
    """Lengths of stretches without sound, in samples, in order; shorter ones are of the voice."""
    audible = np.flatnonzero(np.abs(samples) >= QUIET)
    edges = np.concatenate(([-1], audible, [len(samples)]))
    gaps = np.diff(edges) - 1
    return [int(gap) for gap in gaps if gap > least_s * SAMPLE_RATE]


SENTENCES = ["The first one is here.", "A second follows", "and a third of them,", "The last one."]


@settings(FIXED, max_examples=8)
@given(
    st.lists(st.integers(100, 2000), min_size=len(SENTENCES) + 1, max_size=len(SENTENCES) + 1),
    st.sampled_from([0.5, 1.0, 1.3]),
    st.booleans(),
    st.sampled_from([None, 0.0, 1.0]),
)
def test_silence_is_exact_to_the_sample(
    pauses_ms: list[int], speed: float, is_live: bool, pause_s: float | None
) -> None:
    text = f"[pause {pauses_ms[0]}ms]"
    for sentence, pause in zip(SENTENCES, pauses_ms[1:], strict=True):
        text += f' {sentence} <break time="{pause}ms"/>'
    result = spoken(text, is_live=is_live, speed=speed, pause_s=pause_s)
    asked = [round(pause * SAMPLE_RATE / 1000) for pause in pauses_ms]
    runs = quiet_runs(result.samples)
    if speed == 1.0:
        assert runs == asked
    else:  # a stretched voice has quiet ends of its own, a window of the stretch long at most
        assert len(runs) == len(asked)
        assert all(
            0 <= run - each <= 0.1 * SAMPLE_RATE for run, each in zip(runs, asked, strict=True)
        )
    spans = [round((part.end_s - part.start_s) * SAMPLE_RATE) for part in result.segments]
    assert abs(len(result.samples) - sum(spans) - sum(asked)) <= len(spans) * (speed != 1.0)
    start = asked[0]
    for part, span, pause in zip(result.segments, spans, asked[1:], strict=True):
        assert abs(part.start_s * SAMPLE_RATE - start) <= 2 * len(spans)
        start += span + pause
    at = round(result.segments[0].end_s * SAMPLE_RATE) + len(spans)
    assert not result.samples[: asked[0]].any()
    assert not result.samples[at : at + asked[1] - 2 * len(spans)].any()


def test_a_text_without_pauses_is_spoken_as_before() -> None:
    """The segments' sound is the same; only what is silent between them differs."""
    plain, paused = spoken("The one. Two of them."), spoken("The one. [pause 1s] Two of them.")
    assert quiet_runs(paused.samples) == [SAMPLE_RATE]
    assert len(plain.segments) == 1
    assert [part.text for part in paused.segments] == ["The one.", "Two of them."]


def test_a_pause_counts_against_the_longest_audio() -> None:
    with pytest.raises(UsageError, match=r"at least 10\.\d+ s, 10 s of it the pauses it asks for"):
        spoken("Go on. [pause 10s]", **limited(8))
    cut = spoken("The first one is here. [pause 3s] Then more of it.", **limited(4))
    assert len(cut.samples) <= 4 * SAMPLE_RATE
    assert cut.finish_reason is FinishReason.LENGTH


def limited(seconds: float) -> dict[str, object]:
    return {"sampling": SamplingParams(seed=5, max_seconds=seconds)}


def test_long_silence_leaves_in_blocks() -> None:
    engine = fake_engine()
    chunks = list(engine.stream(Utterance("Go on. [pause 30s] And on."), is_live=True))
    assert max(len(chunk.samples) for chunk in chunks) <= SAMPLE_RATE
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_a_fitted_cue_keeps_its_pauses(tmp_path: Path) -> None:
    table = tmp_path / "t.srt"
    table.write_text(
        "1\n00:00:00,000 --> 00:00:04,000\n"
        'A line that is said. <break time="900ms"/> Then another one follows it.\n\n'
        "2\n00:00:05,000 --> 00:00:09,000\n[pause 1s] Late words.\n\n"
        "3\n00:00:09,000 --> 00:00:10,000\n[pause 1s]\n\n",
        "utf-8",
    )
    session = prepare_batch(table, tmp_path / "out", fit=SpeedLimits(1.0, 2.0))
    assert [job.row.skipped for job in session.jobs] == ["", "", "a pause alone: [pause 1s]"]
    speak_batch(session, judges=(FitJudge(),))
    first, second = (read_audio(tmp_path / "out" / f"000{i}.wav").samples for i in (1, 2))
    assert abs(max(quiet_runs(first)) - 0.9 * SAMPLE_RATE) < 0.1 * SAMPLE_RATE
    assert len(first) <= 4 * SAMPLE_RATE
    assert quiet_runs(second)[0] >= SAMPLE_RATE


def test_fitting_changes_the_tempo_of_speech_alone() -> None:
    tone = np.sin(np.arange(16_000, dtype=np.float32) / 5) / 2
    silence = np.zeros(8_000, np.float32)
    whole = np.concatenate((silence, tone, silence, tone, silence))
    fitted = fit_to_slot(
        whole, 8_000, 5.5, SpeedLimits(1.0, 2.0), [(0, 8_000), (24_000, 8_000), (48_000, 8_000)]
    )
    assert len(fitted.samples) == 5.5 * 8_000
    assert fitted.speed == pytest.approx(1.6)
    assert quiet_runs(fitted.samples)[0] >= 8_000
