"""What a model is given besides the text: modes, refusals, guidance."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import FakeModel, FakePrompt, FakeState, fake_engine

from voxcli.config import SamplingParams
from voxcli.engine.planning import PlannedModel, make_plan
from voxcli.errors import UsageError, VoiceNotFoundError
from voxcli.models.data import PromptParts
from voxcli.models.voxcpm2.family import VoxCPM2Family
from voxcli.utterance import Mode, Recording, Use, Utterance, VoiceEncoding

VOICE = Recording(np.linspace(-0.1, 0.1, 8000, dtype=np.float32), 8000, "It was 3 o'clock.")


def model(*modes: Mode) -> PlannedModel:
    planned = fake_engine()._planned
    facts = replace(planned.facts, modes=modes or tuple(Mode))
    return replace(planned, family=VoxCPM2Family(), facts=facts)


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
    scale = 1.0 if mode is Mode.ZERO_SHOT else 1.5
    assert make_plan(utterance, model()).parameters == {"steps": 6, "guidance_scale": scale}
    others = model(*(each for each in Mode if each is not mode))
    with pytest.raises(UsageError, match=f"has no {mode} mode") as failure:
        make_plan(utterance, others)
    wanted = "voxcli clone" if mode is Mode.ZERO_SHOT else "openbmb/VoxCPM2"
    assert wanted in str(failure.value.hint)


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
    with pytest.raises(UsageError, match="cannot be used together"):
        make_plan(Utterance("Hello.", style="warm", prompt=VOICE), model())
    with pytest.raises(UsageError, match="parentheses"):
        make_plan(Utterance("Hello.", style="warm (very)"), model())
    assert make_plan(Utterance("Hello.", style="  "), model(Mode.ZERO_SHOT)).utterance.style


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
    listener = FakeModel()
    engine = fake_engine(listener)
    utterance = Utterance("Hello there, old friend.", reference=VOICE, prompt=VOICE)
    engine.synthesize([utterance, replace(utterance, text="And so on it goes.")])
    assert listener.num_encoded == 2
    text, given = listener.prompts[0]
    assert text == "Hello there, old friend."
    assert given["prompt_text"] == "It was three o'clock."
    assert np.all(given["reference"] == 1.0)
    assert np.all(given["prompt_audio"] == 2.0)


class _SharingModel(FakeModel):
    """Counts the beginnings of prompts that it runs and copies."""

    def __init__(self) -> None:
        super().__init__()
        self.num_run = 0
        self.copied_to: list[int] = []

    def make_prompt(self, parts: PromptParts) -> FakePrompt:
        return replace(super().make_prompt(parts), prefix_len=2, prefix_key="voice")

    def prefill_prefix(self, state: FakeState, prompt: FakePrompt, row: int) -> None:
        self.num_run += 1

    def copy_prefix(self, state: FakeState, row: int, slot: int, length: int) -> None:
        self.copied_to.append(slot)


def test_a_hundred_utterances_encode_and_prefill_their_reference_once() -> None:
    model = _SharingModel()
    engine = fake_engine(model, max_slots=32)
    reference = replace(VOICE, key="")
    settings = SamplingParams(seed=5)
    engine.synthesize(
        [Utterance(f"Line {n}.", reference=reference, sampling=settings) for n in range(100)]
    )
    assert (model.num_encoded, engine.num_encoded) == (1, 1)
    assert (model.num_run, len(model.copied_to)) == (1, 100)
    prefixes = engine.core.runner.prefixes
    assert prefixes is not None
    assert (prefixes.num_run, prefixes.num_shared) == (1, 99)


def test_an_encoded_voice_is_heard_sooner_by_the_encoders_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    class SlowEncoder(FakeModel):
        def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
            nonlocal now_s
            now_s += 0.3
            return super().encode_recording(samples, use)

    clock = SimpleNamespace(perf_counter=lambda: now_s)
    for module in ("native.engine", "speech"):
        monkeypatch.setattr(f"voxcli.engine.{module}.time", clock)
    engine = fake_engine(SlowEncoder())
    arrays = FakeModel().encode_recording(np.zeros(10), Use.REFERENCE)
    saved = Recording(VOICE.samples, VOICE.sample_rate, encoding=VoiceEncoding("fake", "", arrays))
    fresh, again, kept = (
        engine.synthesize([Utterance("Hello there, old friend.", reference=reference)])[0]
        for reference in (VOICE, VOICE, saved)
    )
    assert engine.encode_s == fresh.ttfa_s == 0.3
    assert again.ttfa_s == kept.ttfa_s == 0.0


def test_with_continuity_each_segment_continues_the_one_before() -> None:
    listener = FakeModel()
    first, second = "The first sentence is this one.", "The second sentence is that one."
    utterance = Utterance(
        f"{first} {second}", reference=VOICE, continuity=True, sampling=SamplingParams(seed=5)
    )
    plain = fake_engine().synthesize([replace(utterance, reference=None, continuity=False)])
    result = fake_engine(listener).synthesize([utterance])[0]
    assert [text for text, _ in listener.prompts] == [first, second]
    (_, before), (_, after) = listener.prompts
    assert before["prompt_audio"] is None
    assert after["prompt_text"] == first
    assert np.all(after["prompt_audio"] == 2.0)  # padded at its start
    assert np.all(after["reference"] == 1.0)
    assert len(result.samples) == len(plain[0].samples)


def test_continuity_and_a_style_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="continuity"):
        make_plan(Utterance("Hello.", style="warm", continuity=True), model())


def test_a_style_stands_before_every_segment() -> None:
    listener = FakeModel()
    text = "The first sentence is this one. The second sentence is that one."
    fake_engine(listener).synthesize([Utterance(text, style="slow and warm")])
    assert [text for text, _ in listener.prompts] == [
        "(slow and warm)The first sentence is this one.",
        "(slow and warm)The second sentence is that one.",
    ]


def test_equal_recordings_have_equal_keys() -> None:
    assert VOICE.samples is not None
    assert replace(VOICE, key="").key == VOICE.key
    assert Recording(VOICE.samples * 0.5, 8000).key != VOICE.key
    assert Recording(VOICE.samples, 16000).key != VOICE.key
