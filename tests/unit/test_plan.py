"""What a model is given besides the text: modes, refusals, guidance."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import FakeAcousticModel, fake_synthesizer

from voxcli.config import SamplingParams
from voxcli.errors import UsageError, VoiceNotFoundError
from voxcli.models.base import Prompt
from voxcli.plan import VoiceModel, make_plan
from voxcli.utterance import Mode, Recording, Utterance

VOICE = Recording(np.linspace(-0.1, 0.1, 8000, dtype=np.float32), 8000, "It was 3 o'clock.")


def model(*modes: Mode) -> VoiceModel:
    return replace(fake_synthesizer().model, modes=modes or tuple(Mode))


@pytest.mark.parametrize(
    ("reference", "prompt", "mode"),
    [
        (None, None, Mode.ZERO_SHOT),
        (VOICE, None, Mode.REFERENCE),
        (None, VOICE, Mode.CONTINUATION),
        (VOICE, VOICE, Mode.BOTH),
    ],
)
def test_a_mode_is_what_is_given_and_a_model_without_it_is_refused(
    reference: Recording | None, prompt: Recording | None, mode: Mode
) -> None:
    utterance = Utterance("Hello there.", reference=reference, prompt=prompt)
    assert utterance.mode is mode
    settings = model().settings
    wanted = settings.cfg if mode is Mode.ZERO_SHOT else settings.clone_cfg
    assert make_plan(utterance, model()).cfg == wanted
    others = model(*(each for each in Mode if each is not mode))
    with pytest.raises(UsageError, match=f"has no {mode} mode") as failure:
        make_plan(utterance, others)
    assert "openbmb/VoxCPM2" in str(failure.value.hint)


def test_one_clip_in_both_roles_is_used_as_the_model_does_best() -> None:
    utterance = Utterance("Hello there.", reference=VOICE, prompt=VOICE)
    imitating = replace(model(), settings=replace(model().settings, clone_mode=Mode.REFERENCE))
    assert make_plan(utterance, imitating).utterance.mode is Mode.REFERENCE
    assert make_plan(utterance, model()).utterance.mode is Mode.BOTH
    other = replace(utterance, prompt=replace(VOICE, text="It was 4."))
    assert make_plan(other, imitating).utterance.mode is Mode.BOTH


def test_a_style_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(UsageError, match="no style mode"):
        make_plan(Utterance("Hello.", style="warm"), model(Mode.ZERO_SHOT))
    with pytest.raises(UsageError, match="exclude each other"):
        make_plan(Utterance("Hello.", style="warm", prompt=VOICE), model())
    with pytest.raises(UsageError, match="parentheses"):
        make_plan(Utterance("Hello.", style="warm (very)"), model())
    assert make_plan(Utterance("Hello.", style="  "), model(Mode.ZERO_SHOT)).cfg == 1.0


def test_a_voice_by_name_needs_its_recording() -> None:
    with pytest.raises(VoiceNotFoundError, match="no voice 'ada'"):
        make_plan(Utterance("Hello.", voice="ada"), model())
    make_plan(Utterance("Hello.", voice="ada", reference=VOICE), model())


def test_speech_to_continue_needs_a_transcript_which_is_written_out() -> None:
    with pytest.raises(UsageError, match="transcript"):
        make_plan(Utterance("Hello.", prompt=replace(VOICE, text=" ")), model())
    plan = make_plan(Utterance("Hello.", prompt=VOICE), model())
    assert plan.prompt_text == "It was three o'clock."


def test_a_recording_is_encoded_once_for_each_use() -> None:
    listener = FakeAcousticModel()
    synthesizer = fake_synthesizer(listener)
    utterance = Utterance("Hello there, old friend.", reference=VOICE, prompt=VOICE)
    synthesizer.synthesize([utterance, replace(utterance, text="And so on it goes.")])
    assert listener.num_encoded == 2
    text, given = listener.prompts[0]
    assert text == "Hello there, old friend."
    assert given["prompt_text"] == "It was three o'clock. "
    assert np.all(given["reference"] == 1.0)
    assert np.all(given["prompt_audio"] == 2.0)


class _SharingModel(FakeAcousticModel):
    """Counts the beginnings of prompts that it runs and copies."""

    def __init__(self) -> None:
        super().__init__()
        self.num_run = 0
        self.copied_to: list[int] = []

    def encode_prompt(self, text: str, **given: object) -> Prompt:
        return replace(super().encode_prompt(text, **given), prefix_len=2, prefix_key="voice")

    def prefill_prefix(self, state: object, prompt: Prompt, row: int) -> None:
        self.num_run += 1

    def copy_prefix(self, state: object, row: int, slot: int, length: int) -> None:
        self.copied_to.append(slot)


def test_a_hundred_utterances_encode_and_prefill_their_reference_once() -> None:
    model = _SharingModel()
    synthesizer = fake_synthesizer(model, max_slots=32)
    reference = replace(VOICE, key="")
    settings = SamplingParams(seed=5)
    synthesizer.synthesize(
        [Utterance(f"Line {n}.", reference=reference, sampling=settings) for n in range(100)]
    )
    assert (model.num_encoded, synthesizer.num_encoded) == (1, 1)
    assert (model.num_run, len(model.copied_to)) == (1, 100)
    prefixes = synthesizer.engine.runner.prefixes
    assert prefixes is not None
    assert (prefixes.num_run, prefixes.num_shared) == (1, 99)


def test_an_encoded_voice_is_heard_sooner_by_the_encoders_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    class SlowEncoder(FakeAcousticModel):
        def encode_audio(self, samples: np.ndarray, *, pad_left: bool = False) -> np.ndarray:
            nonlocal now_s
            now_s += 0.3
            return super().encode_audio(samples)

    clock = SimpleNamespace(perf_counter=lambda: now_s)
    for module in ("synthesizer", "speech"):
        monkeypatch.setattr(f"voxcli.{module}.time", clock)
    synthesizer = fake_synthesizer(SlowEncoder())
    latents = FakeAcousticModel().encode_audio(np.zeros(10))
    saved = Recording(VOICE.samples, VOICE.sample_rate, latents=latents)
    fresh, again, kept = (
        synthesizer.synthesize([Utterance("Hello there, old friend.", reference=reference)])[0]
        for reference in (VOICE, VOICE, saved)
    )
    assert synthesizer.encode_s == fresh.ttfa_s == 0.3
    assert again.ttfa_s == kept.ttfa_s == 0.0


def test_with_continuity_each_segment_continues_the_one_before() -> None:
    listener = FakeAcousticModel()
    first, second = "The first sentence is this one.", "The second sentence is that one."
    utterance = Utterance(
        f"{first} {second}", reference=VOICE, continuity=True, sampling=SamplingParams(seed=5)
    )
    plain = fake_synthesizer().synthesize([replace(utterance, reference=None, continuity=False)])
    result = fake_synthesizer(listener).synthesize([utterance])[0]
    assert [text for text, _ in listener.prompts] == [first, second]
    (_, before), (_, after) = listener.prompts
    assert before["prompt_audio"] is None
    assert after["prompt_text"] == f"{first} "
    assert np.all(after["prompt_audio"] == 2.0)  # padded at its start
    assert np.all(after["reference"] == 1.0)
    assert len(result.samples) == len(plain[0].samples)


def test_continuity_and_a_style_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="continuity"):
        make_plan(Utterance("Hello.", style="warm", continuity=True), model())


def test_a_style_stands_before_every_segment() -> None:
    listener = FakeAcousticModel()
    text = "The first sentence is this one. The second sentence is that one."
    fake_synthesizer(listener).synthesize([Utterance(text, style="slow and warm")])
    assert [text for text, _ in listener.prompts] == [
        "(slow and warm)The first sentence is this one.",
        "(slow and warm)The second sentence is that one.",
    ]


def test_equal_recordings_have_equal_keys() -> None:
    assert VOICE.samples is not None
    assert replace(VOICE, key="").key == VOICE.key
    assert Recording(VOICE.samples * 0.5, 8000).key != VOICE.key
    assert Recording(VOICE.samples, 16000).key != VOICE.key
