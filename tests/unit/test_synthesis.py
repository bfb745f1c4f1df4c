"""From utterances to checked samples in order, on a fake model: engine, speech, engine."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import HOP, SAMPLE_RATE, FakeModel, fake_engine, num_frames

from voxcli.audio.joins import FADE_S, QUIET, PauseFitter
from voxcli.audio.pace import min_speech_seconds
from voxcli.config import SamplingParams
from voxcli.errors import AdmissionError, EngineError, SynthesisError, TextError, UsageError
from voxcli.utterance import AudioChunk, FinishReason, Result, Utterance

ONE = "A sentence of ordinary length."
LONG = (
    "The first one is here. The second follows it. A third is added now. The fourth comes "
    "after that. The fifth ends the text."
)


def utterance(text: str = ONE, **settings: object) -> Utterance:
    return Utterance(text, sampling=SamplingParams(**{"seed": 5, **settings}))  # type: ignore[arg-type]


def collect(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([chunk.samples for chunk in chunks])


def test_an_utterance_has_the_length_of_its_frames() -> None:
    result = fake_engine().synthesize([utterance()])[0]
    assert len(result.samples) == num_frames(ONE) * HOP
    assert (result.finish_reason, result.attempts, result.seed) == (FinishReason.STOP, 1, 5)
    assert result.segments[0].num_frames == num_frames(ONE)
    assert abs(result.rtf - result.wall_s / result.audio_s) < 1e-9


def test_live_and_held_speech_have_the_same_samples() -> None:
    engine = fake_engine()
    live = list(engine.stream(utterance(LONG), is_live=True))
    held = list(engine.stream(utterance(LONG), is_live=False))
    assert np.array_equal(collect(live), collect(held))


def test_chunks_grow_from_one_frame_to_the_largest() -> None:
    chunks = list(fake_engine().stream(utterance("A sentence of quite ordinary length.")))
    frames = [round(len(chunk.samples) / HOP) for chunk in chunks]
    assert [count for count in frames if count] == [1, 1, 2, 4, 4, 4, 2]


def test_the_silence_after_a_segment_is_what_the_text_asks_for() -> None:
    rate, pause = 8000, np.zeros(4000, np.float32)
    for cuts in ([], [100], [4100, 4101], [3999, 5000, 8001]):
        fitter = PauseFitter()
        voice = np.concatenate((np.full(4000, 0.1, np.float32), pause))
        left = [fitter.push(part) for part in np.split(voice, cuts)]
        assert len(np.concatenate([*left, fitter.end_segment(rate // 4)])) == 4000 + rate // 4
    assert len(fitter.end_segment(100)) == 100


def test_segments_leave_in_order_and_the_last_chunk_says_so() -> None:
    chunks = list(fake_engine().stream(utterance(LONG)))
    assert [chunk.segment for chunk in chunks] == sorted(chunk.segment for chunk in chunks)
    assert len({chunk.segment for chunk in chunks}) > 2
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_the_first_samples_of_live_speech_leave_after_one_frame() -> None:
    model = FakeModel()
    stream = fake_engine(model).stream(utterance(LONG), is_live=True)
    first = next(stream)
    assert 0.9 * HOP < len(first.samples) <= HOP  # quiet samples wait for the next sound
    assert model.num_decodes == 1
    assert model.batch_sizes == [1]
    stream.close()


def test_neighbours_do_not_change_a_row() -> None:
    engine = fake_engine()
    texts = ["One sentence.", "Another sentence here.", "And the last sentence of them all."]
    alone = [engine.synthesize([utterance(text)])[0].samples for text in texts]
    together = engine.synthesize([utterance(text) for text in texts])
    for one, many in zip(alone, together, strict=True):
        assert np.array_equal(one, many.samples)


def test_segments_of_a_long_text_run_side_by_side() -> None:
    model = FakeModel()
    fake_engine(model).synthesize([utterance(LONG)])
    assert max(model.batch_sizes) > 1


def test_an_unset_seed_is_chosen_and_reproduces_the_speech() -> None:
    engine = fake_engine()
    first = engine.synthesize([Utterance(ONE)])[0]
    again = engine.synthesize([utterance(seed=first.seed)])[0]
    assert np.array_equal(first.samples, again.samples)
    other = engine.synthesize([utterance(seed=first.seed + 1)])[0]
    assert not np.array_equal(first.samples, other.samples)


@pytest.mark.parametrize("fault", ["silent", "nan", "endless"])
def test_refused_speech_is_tried_again_with_the_next_seed(fault: str) -> None:
    """The report has the seed that was used."""
    model = FakeModel({ONE: [fault, fault]})
    result = fake_engine(model).synthesize([utterance()])[0]
    segment = result.segments[0]
    assert (segment.attempts, segment.seed, len(segment.refused)) == (3, 7, 2)
    clean = fake_engine().synthesize([utterance(seed=7)])[0]
    assert np.array_equal(result.samples, clean.samples)


def test_speech_that_never_ends_is_never_reported_as_done() -> None:
    """The runaway guard ends with an error that says length."""
    model = FakeModel({ONE: ["endless"] * 9})
    with pytest.raises(SynthesisError, match=r"refused 4 times.*no end within") as caught:
        fake_engine(model).synthesize([utterance()])
    assert (caught.value.finish_reason, caught.value.attempts) == ("length", 4)


def test_live_speech_that_goes_wrong_stops_and_says_so() -> None:
    model = FakeModel({ONE: ["endless"]})
    with pytest.raises(SynthesisError, match="after a part of it was sent"):
        list(fake_engine(model).stream(utterance(), is_live=True))


def test_a_later_segment_of_live_speech_is_tried_again_before_its_turn() -> None:
    short = "The next one is short."
    model = FakeModel({short: ["silent"]})
    stream = fake_engine(model).stream(
        utterance(f"A rather long sentence opens the text. {short}"), is_live=True
    )
    list(stream)
    assert [report.attempts for report in stream.speech.reports] == [1, 2]


def test_a_failure_leaves_the_engine_usable() -> None:
    model = FakeModel({ONE: ["silent"] * 4})
    engine = fake_engine(model)
    with pytest.raises(SynthesisError):
        engine.synthesize([utterance(), utterance(LONG)])
    assert not engine.core.has_work
    assert engine.synthesize([utterance()])[0].attempts == 1


def test_closing_a_stream_early_frees_its_slots() -> None:
    engine = fake_engine()
    with engine.stream(utterance(LONG)) as stream:
        next(stream)
    assert not engine.core.has_work


def test_a_device_fault_ends_everything_in_flight() -> None:
    engine = fake_engine(FakeModel(fail_at_step=3))
    with pytest.raises(EngineError, match="illegal memory access"):
        engine.synthesize([utterance(), utterance(LONG)])
    assert not engine.core.has_work


def test_after_a_device_fault_nothing_runs_any_more() -> None:
    model = FakeModel(fail_at_step=3)
    engine = fake_engine(model)
    with pytest.raises(EngineError, match="start voxcli again"):
        engine.synthesize([utterance(LONG)])
    for _ in range(2):
        with pytest.raises(EngineError, match=r"illegal memory access.*start voxcli again"):
            engine.synthesize([utterance()])
    assert model.num_decodes == 3
    engine.close()


def test_a_text_too_long_for_a_slot_is_refused_with_numbers() -> None:
    engine = fake_engine(max_chars=400)
    with pytest.raises(AdmissionError, match="a slot has 512"):
        engine.synthesize([utterance("word " * 79)])


def test_speed_changes_the_length_and_nothing_else() -> None:
    engine = fake_engine()
    plain = engine.synthesize([utterance(LONG)])[0]
    fast = engine.synthesize([Utterance(LONG, sampling=SamplingParams(seed=5), speed=1.25)])[0]
    assert abs(len(fast.samples) - len(plain.samples) / 1.25) <= 2
    assert [s.audio_s for s in fast.segments] == [s.audio_s for s in plain.segments]


def test_max_seconds_below_what_the_text_needs_is_refused_before_anything_runs() -> None:
    model = FakeModel()
    with pytest.raises(UsageError, match="needs at least"):
        fake_engine(model).synthesize([utterance(LONG, max_seconds=1.0)])
    assert model.num_decodes == 0


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("pause_s", [None, 0.0, 1.0])
@pytest.mark.parametrize("speed", [0.7, 1.0, 1.3])
def test_max_seconds_holds_for_the_whole_text_and_says_when_it_cuts(
    speed: float, pause_s: float | None, is_live: bool
) -> None:
    """Whatever runs side by side. What is heard is the beginning of the same speech."""

    def said(max_seconds: float | None) -> Result:
        sampling = SamplingParams(seed=5, max_seconds=max_seconds)
        wanted = Utterance(LONG, sampling=sampling, speed=speed, pause_s=pause_s)
        with engine.stream(wanted, is_live=is_live) as stream:
            chunks = list(stream)
            assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
            return stream.speech.result(collect(chunks))

    engine = fake_engine(threads=2)
    whole = said(None)
    shortest_s = min_speech_seconds(LONG) / speed + 0.01
    num = 23 if speed == 1.0 else 9  # stretched speech takes ten times as long to make
    for max_seconds in np.linspace(shortest_s, whole.audio_s + 0.5, num):
        result = said(max_seconds)
        assert not engine.core.has_work
        assert result.audio_s <= max_seconds
        if max_seconds > whole.audio_s:
            assert np.array_equal(result.samples, whole.samples)
            assert result.finish_reason is FinishReason.STOP
            continue
        reports = result.segments
        assert result.audio_s > max_seconds - 0.01
        assert result.finish_reason is FinishReason.LENGTH
        assert "cut at" in reports[-1].warnings[-1]
        assert all(report.finish_reason is FinishReason.STOP for report in reports[:-1])
        heard = len(result.samples) - round(FADE_S * SAMPLE_RATE)
        assert np.array_equal(result.samples[:heard], whole.samples[:heard])


def test_max_seconds_that_cut_silence_alone_cut_nothing() -> None:
    whole = fake_engine().synthesize([utterance()])[0]
    last = int(np.flatnonzero(np.abs(whole.samples) >= QUIET)[-1])
    assert last + 1 < len(whole.samples)
    for num_samples, reason in ((last + 1, FinishReason.STOP), (last, FinishReason.LENGTH)):
        limit_s = (num_samples + 0.5) / SAMPLE_RATE
        result = fake_engine().synthesize([utterance(max_seconds=limit_s)])[0]
        assert (len(result.samples), result.finish_reason) == (num_samples, reason)


def test_speech_that_max_seconds_cut_is_still_checked() -> None:
    model = FakeModel({ONE: ["silent"]})
    limit_s = num_frames(ONE) * HOP / SAMPLE_RATE - 0.5
    result = fake_engine(model).synthesize([utterance(max_seconds=limit_s)])[0]
    assert (result.finish_reason, result.attempts) == (FinishReason.LENGTH, 2)


def test_what_max_seconds_cut_leaves_its_neighbours_alone() -> None:
    engine = fake_engine()
    alone = engine.synthesize([utterance()])[0]
    cut, whole = engine.synthesize([utterance(LONG, max_seconds=4.0), utterance()])
    assert cut.finish_reason is FinishReason.LENGTH
    assert np.array_equal(whole.samples, alone.samples)
    assert engine.core.scheduler.num_free_slots == 4


def test_empty_text_is_refused_before_anything_runs() -> None:
    with pytest.raises(TextError, match="empty"):
        fake_engine().synthesize([utterance("  \n ")])


def test_work_grows_linearly_with_the_text() -> None:
    model = FakeModel()
    engine = fake_engine(model)
    engine.synthesize([utterance(LONG * 2)])
    short = sum(model.batch_sizes)
    engine.synthesize([utterance(LONG * 8)])
    assert sum(model.batch_sizes) - short <= 4.2 * short


def test_pauses_between_segments_count_what_the_voice_left() -> None:
    result = fake_engine().synthesize([utterance(LONG)])[0]
    spoken = sum(segment.audio_s for segment in result.segments)
    pauses = (len(result.samples) / SAMPLE_RATE) - spoken
    assert 0.1 * (len(result.segments) - 1) < pauses < 0.7 * (len(result.segments) - 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("fault", ["silent", "nan", "endless"])
def test_nothing_is_left_when_every_speech_has_ended(
    fault: str, is_live: bool, threads: int
) -> None:
    """However often it was tried, whoever else was there, and whoever left before the end."""
    texts = [ONE, "Another one, which is good.", "A third that somebody leaves.", LONG]
    for num_faults in range(5):
        engine = fake_engine(FakeModel({ONE: [fault] * num_faults}), threads=threads)
        with engine.session() as session:
            speeches = [
                session.add(engine.plan(utterance(text)), is_live=is_live) for text in texts
            ]
            for step in range(200):
                if step == 3:
                    session.leave(speeches[2])
                for speech, _ in session.step():
                    assert speech in speeches
                if session.is_idle:
                    break
            assert session.is_idle
            assert not session.has_work
        assert not engine.core.has_work
        assert engine.core.scheduler.num_free_slots == 4


def test_samples_that_are_nan_from_the_first_chunk_on_are_tried_again_once() -> None:
    """Further chunks of the refused attempt are nobody's any more."""
    model = FakeModel({ONE: ["nan"]})
    engine = fake_engine(model, threads=2)
    result = engine.synthesize([utterance(), utterance("A neighbour who goes on.")])[0]
    assert result.attempts == 2
    assert len(result.segments[0].refused) == 1


def test_sessions_of_one_engine_get_their_own_speech_however_they_are_stepped() -> None:
    texts = [ONE, LONG, "And another one, somewhat shorter.", "The last of them all is this."]
    alone = [fake_engine().synthesize([utterance(text)])[0].samples for text in texts]
    for threads in (1, 2):
        engine = fake_engine(threads=threads)
        sessions = [engine.session() for _ in texts]
        parts: list[list[np.ndarray]] = [[] for _ in texts]
        for session, text in zip(sessions, texts, strict=True):
            session.add(engine.plan(utterance(text)), is_live=True)
        for turn in range(400):
            index = turn * 7 % 4 if turn % 5 else 0  # one of them is stepped more often
            parts[index] += [event.samples for _, event in sessions[index].step()]
            if all(session.is_idle for session in sessions):
                break
        for own, expected in zip(parts, alone, strict=True):
            assert np.array_equal(np.concatenate(own), expected)
        assert not any(session.has_work for session in sessions)


def test_streams_beside_each_other_are_whole() -> None:
    engine = fake_engine()
    first, second = (engine.stream(utterance(text)) for text in (LONG, ONE))
    begun = [next(first)]
    assert len(collect(list(second))) == num_frames(ONE) * HOP
    expected = collect(list(fake_engine().stream(utterance(LONG))))
    assert np.array_equal(collect([*begun, *first]), expected)


def test_a_stream_whose_engine_was_closed_says_that_it_is_cut() -> None:
    engine = fake_engine()
    begun, untouched = engine.stream(utterance(LONG)), engine.stream(utterance(ONE))
    next(begun)
    engine.close()
    for stream in (begun, untouched):
        with pytest.raises(EngineError, match="closed before the speech ended"):
            next(stream)
        assert list(stream) == []
    assert not engine.core.has_work
    with engine.stream(utterance(ONE)) as again:
        next(again)
    assert list(again) == [], "its own end is no fault"
