"""From utterances to checked samples in order, on a fake model: engine, speech, synthesizer."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import HOP, SAMPLE_RATE, FakeAcousticModel, fake_synthesizer, num_patches

from voxcli.audio.joins import PauseFitter
from voxcli.config import SamplingParams
from voxcli.errors import AdmissionError, EngineError, SynthesisError, TextError, UsageError
from voxcli.utterance import AudioChunk, FinishReason, Utterance

ONE = "A sentence of ordinary length."
LONG = (
    "The first one is here. The second follows it. A third is added now. The fourth comes "
    "after that. The fifth ends the text."
)


def utterance(text: str = ONE, **settings: object) -> Utterance:
    return Utterance(text, sampling=SamplingParams(**{"seed": 5, **settings}))  # type: ignore[arg-type]


def collect(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([chunk.samples for chunk in chunks])


def test_an_utterance_has_the_length_of_its_patches() -> None:
    result = fake_synthesizer().synthesize([utterance()])[0]
    assert len(result.samples) == num_patches(ONE) * HOP
    assert (result.finish_reason, result.attempts, result.seed) == (FinishReason.STOP, 1, 5)
    assert result.segments[0].steps == num_patches(ONE)
    assert abs(result.rtf - result.wall_s / result.audio_s) < 1e-9


def test_live_and_held_speech_have_the_same_samples() -> None:
    synthesizer = fake_synthesizer()
    live = list(synthesizer.stream(utterance(LONG), is_live=True))
    held = list(synthesizer.stream(utterance(LONG), is_live=False))
    assert np.array_equal(collect(live), collect(held))


def test_chunks_grow_from_one_patch_to_the_largest() -> None:
    chunks = list(fake_synthesizer().stream(utterance("A sentence of quite ordinary length.")))
    patches = [round(len(chunk.samples) / HOP) for chunk in chunks]
    assert [count for count in patches if count] == [1, 1, 2, 4, 4, 4, 2]


def test_the_silence_after_a_segment_is_what_the_text_asks_for() -> None:
    rate, pause = 8000, np.zeros(4000, np.float32)
    for cuts in ([], [100], [4100, 4101], [3999, 5000, 8001]):
        fitter = PauseFitter()
        voice = np.concatenate((np.full(4000, 0.1, np.float32), pause))
        left = [fitter.push(part) for part in np.split(voice, cuts)]
        assert len(np.concatenate([*left, fitter.end_segment(rate // 4)])) == 4000 + rate // 4
    assert len(fitter.end_segment(100)) == 100


def test_segments_leave_in_order_and_the_last_chunk_says_so() -> None:
    chunks = list(fake_synthesizer().stream(utterance(LONG)))
    assert [chunk.segment for chunk in chunks] == sorted(chunk.segment for chunk in chunks)
    assert len({chunk.segment for chunk in chunks}) > 2
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_the_first_samples_of_live_speech_leave_after_one_patch() -> None:
    model = FakeAcousticModel()
    stream = fake_synthesizer(model).stream(utterance(LONG), is_live=True)
    first = next(stream)
    assert 0.9 * HOP < len(first.samples) <= HOP  # quiet samples wait for the next sound
    assert model.num_decodes == 1
    assert model.batch_sizes == [1]
    stream.close()


def test_neighbours_do_not_change_a_row() -> None:
    synthesizer = fake_synthesizer()
    texts = ["One sentence.", "Another sentence here.", "And the last sentence of them all."]
    alone = [synthesizer.synthesize([utterance(text)])[0].samples for text in texts]
    together = synthesizer.synthesize([utterance(text) for text in texts])
    for one, many in zip(alone, together, strict=True):
        assert np.array_equal(one, many.samples)


def test_segments_of_a_long_text_run_side_by_side() -> None:
    model = FakeAcousticModel()
    fake_synthesizer(model).synthesize([utterance(LONG)])
    assert max(model.batch_sizes) > 1


def test_an_unset_seed_is_chosen_and_reproduces_the_speech() -> None:
    synthesizer = fake_synthesizer()
    first = synthesizer.synthesize([Utterance(ONE)])[0]
    again = synthesizer.synthesize([utterance(seed=first.seed)])[0]
    assert np.array_equal(first.samples, again.samples)
    other = synthesizer.synthesize([utterance(seed=first.seed + 1)])[0]
    assert not np.array_equal(first.samples, other.samples)


@pytest.mark.parametrize("fault", ["silent", "nan", "endless"])
def test_refused_speech_is_tried_again_with_the_next_seed(fault: str) -> None:
    """The report has the seed that was used."""
    model = FakeAcousticModel({ONE: [fault, fault]})
    result = fake_synthesizer(model).synthesize([utterance()])[0]
    segment = result.segments[0]
    assert (segment.attempts, segment.seed, len(segment.refused)) == (3, 7, 2)
    clean = fake_synthesizer().synthesize([utterance(seed=7)])[0]
    assert np.array_equal(result.samples, clean.samples)


def test_speech_that_never_ends_is_never_reported_as_done() -> None:
    """The runaway guard ends with an error that says length."""
    model = FakeAcousticModel({ONE: ["endless"] * 9})
    with pytest.raises(SynthesisError, match=r"refused 4 times.*no end within") as caught:
        fake_synthesizer(model).synthesize([utterance()])
    assert (caught.value.finish_reason, caught.value.attempts) == ("length", 4)


def test_live_speech_that_goes_wrong_stops_and_says_so() -> None:
    model = FakeAcousticModel({ONE: ["endless"]})
    with pytest.raises(SynthesisError, match="after it began to leave"):
        list(fake_synthesizer(model).stream(utterance(), is_live=True))


def test_a_later_segment_of_live_speech_is_tried_again_before_its_turn() -> None:
    short = "The next one is short."
    model = FakeAcousticModel({short: ["silent"]})
    stream = fake_synthesizer(model).stream(
        utterance(f"A rather long sentence opens the text. {short}"), is_live=True
    )
    list(stream)
    assert [report.attempts for report in stream.speech.reports] == [1, 2]


def test_a_failure_leaves_the_engine_usable() -> None:
    model = FakeAcousticModel({ONE: ["silent"] * 4})
    synthesizer = fake_synthesizer(model)
    with pytest.raises(SynthesisError):
        synthesizer.synthesize([utterance(), utterance(LONG)])
    assert not synthesizer.engine.has_work
    assert synthesizer.synthesize([utterance()])[0].attempts == 1


def test_closing_a_stream_early_frees_its_slots() -> None:
    synthesizer = fake_synthesizer()
    with synthesizer.stream(utterance(LONG)) as stream:
        next(stream)
    assert not synthesizer.engine.has_work


def test_a_device_fault_ends_everything_in_flight() -> None:
    synthesizer = fake_synthesizer(FakeAcousticModel(fail_at_step=3))
    with pytest.raises(EngineError, match="illegal memory access"):
        synthesizer.synthesize([utterance(), utterance(LONG)])
    assert not synthesizer.engine.has_work


def test_after_a_device_fault_nothing_runs_any_more() -> None:
    model = FakeAcousticModel(fail_at_step=3)
    synthesizer = fake_synthesizer(model)
    with pytest.raises(EngineError, match="start voxcli again"):
        synthesizer.synthesize([utterance(LONG)])
    for _ in range(2):
        with pytest.raises(EngineError, match=r"illegal memory access.*start voxcli again"):
            synthesizer.synthesize([utterance()])
    assert model.num_decodes == 3
    synthesizer.close()


def test_a_text_too_long_for_a_slot_is_refused_with_numbers() -> None:
    synthesizer = fake_synthesizer(max_chars=400)
    with pytest.raises(AdmissionError, match="a slot has 512"):
        synthesizer.synthesize([utterance("word " * 79)])


def test_speed_changes_the_length_and_nothing_else() -> None:
    synthesizer = fake_synthesizer()
    plain = synthesizer.synthesize([utterance(LONG)])[0]
    fast = synthesizer.synthesize([Utterance(LONG, sampling=SamplingParams(seed=5), speed=1.25)])[0]
    assert abs(len(fast.samples) - len(plain.samples) / 1.25) <= 2
    assert [s.audio_s for s in fast.segments] == [s.audio_s for s in plain.segments]


def test_max_seconds_below_what_the_text_needs_is_refused_before_anything_runs() -> None:
    model = FakeAcousticModel()
    with pytest.raises(UsageError, match="needs at least"):
        fake_synthesizer(model).synthesize([utterance(LONG, max_seconds=1.0)])
    assert model.num_decodes == 0


def test_empty_text_is_refused_before_anything_runs() -> None:
    with pytest.raises(TextError, match="empty"):
        fake_synthesizer().synthesize([utterance("  \n ")])


def test_work_grows_linearly_with_the_text() -> None:
    model = FakeAcousticModel()
    synthesizer = fake_synthesizer(model)
    synthesizer.synthesize([utterance(LONG * 2)])
    short = sum(model.batch_sizes)
    synthesizer.synthesize([utterance(LONG * 8)])
    assert sum(model.batch_sizes) - short <= 4.2 * short


def test_pauses_between_segments_count_what_the_voice_left() -> None:
    result = fake_synthesizer().synthesize([utterance(LONG)])[0]
    spoken = sum(segment.audio_s for segment in result.segments)
    pauses = (len(result.samples) / SAMPLE_RATE) - spoken
    assert 0.1 * (len(result.segments) - 1) < pauses < 0.7 * (len(result.segments) - 1)
