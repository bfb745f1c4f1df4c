"""Speech that the recipe encodes more than once: other speakers, and recordings as references."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from test_train_mini import CPU, RATE, TOY, dominant_hz, tone, write_speech  # noqa: E402

from recipes.train_mini import codec_training, latents, packing, settings, takes  # noqa: E402
from recipes.train_mini.progress import Budget  # noqa: E402
from recipes.train_mini.speakers import Colour  # noqa: E402
from recipes.train_mini.tokens import REFERENCE_END, Tokens  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

PLAIN = Colour(0.0, (0.0,) * 8)
STUDIO = takes.Recording(0.0, 0.0, 0.0, 0.0, -math.inf, 0.0, RATE / 2, 0.0)


def voice(pitch: float, seconds: float) -> Tensor:
    return torch.from_numpy(tone(pitch, seconds).astype(np.float32) / 32768)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def decibels(samples: Tensor) -> float:
    return float(10 * samples.square().mean().log10())


@pytest.mark.parametrize("rate", [0.89, 1.0, 1.12])
def test_a_take_moves_pitch_and_pace(rate: float) -> None:
    wave = torch.sin(2 * torch.pi * 400 * torch.arange(RATE) / RATE) * 0.3
    made = takes.Take(rate, 1.0, PLAIN)(wave)
    assert len(made) == int(RATE / rate)
    assert dominant_hz(made.numpy(), RATE) == pytest.approx(400 * rate, rel=5e-3)
    assert decibels(made) == pytest.approx(decibels(wave), abs=0.05)


@pytest.mark.parametrize("factor", [0.88, 1.0, 1.14])
def test_formants_move_and_harmonics_stay(factor: float) -> None:
    """A buzz of 120 Hz through a resonance at 1,440 Hz."""
    time = torch.arange(RATE) / RATE
    hertz = 120 * torch.arange(1, 80)
    gains = 1 / (1 + ((hertz - 1440) / 300) ** 2)
    wave = (gains.unsqueeze(1) * torch.sin(2 * torch.pi * hertz.unsqueeze(1) * time)).sum(0) * 0.05
    made = takes.Take(1.0, factor, PLAIN)(wave)
    power = torch.fft.rfft(made).abs().square()
    of_harmonics = torch.stack([power[int(h) - 2 : int(h) + 3].sum() for h in hertz])
    assert of_harmonics.sum() > 0.98 * power.sum()
    low = 1440 * factor * 0.75, 1440 * factor * 1.25
    near = (hertz > low[0]) & (hertz < low[1])
    centre = (of_harmonics * hertz)[near].sum() / of_harmonics[near].sum()
    assert float(centre) == pytest.approx(1440 * factor, rel=0.04)


@hypothesis_settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_a_take_has_the_colour_that_a_speaker_s_line_would_have(seed: int) -> None:
    colour = Colour.draw(np.random.default_rng(seed))
    wave = voice(130, 1.0)
    made, expected = takes.Take(1.0, 1.0, colour)(wave), colour(wave.numpy())
    inner = slice(200, len(wave) - 200)  # the two are periods of different lengths
    error = made.numpy()[inner] - np.clip(expected, -takes.LOUDEST, takes.LOUDEST)[inner]
    assert np.linalg.norm(error) < 0.03 * np.linalg.norm(expected)


@hypothesis_settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 3.0))
def test_a_recording_is_as_long_as_its_silence_and_voice_and_never_too_loud(
    seed: int, seconds: float
) -> None:
    wave = voice(120, seconds)
    drawn = takes.Recording.draw(np.random.default_rng(seed))
    made = drawn(wave, seeded(seed))
    silence = int(drawn.lead * RATE) + int(drawn.tail * RATE)
    assert len(made) == len(wave) + silence
    assert torch.isfinite(made).all()
    assert made.abs().max() <= takes.LOUDEST
    assert torch.equal(made, drawn(wave, seeded(seed)))


def test_a_recording_without_any_of_it_is_the_voice() -> None:
    wave = voice(120, 1.0)
    torch.testing.assert_close(STUDIO(wave, seeded()), wave, rtol=0, atol=1e-5)


@pytest.mark.parametrize("level", [-40.0, -20.0, -12.0])
@pytest.mark.parametrize("tilt", [-6.0, 0.0])
def test_noise_is_as_loud_as_it_says_and_also_where_nobody_speaks(
    level: float, tilt: float
) -> None:
    wave = voice(120, 2.0)
    recording = replace(STUDIO, lead=0.5, noise_db=level, noise_tilt=tilt)
    made = recording(wave, seeded())
    lead, noise = made[: RATE // 2], made[RATE // 2 :] - wave
    assert decibels(noise) - decibels(wave) == pytest.approx(level, abs=1.0)
    assert decibels(lead) - decibels(wave) == pytest.approx(level, abs=3.0)


def test_a_room_rings_on_and_its_echo_is_as_loud_as_it_says() -> None:
    wave = torch.cat((voice(120, 0.5), torch.zeros(RATE)))
    recording = replace(STUDIO, echo=0.4, echo_db=-6.0)
    echo = recording(wave, seeded()) - wave
    assert decibels(echo) - decibels(wave) == pytest.approx(-6.0, abs=2.5)
    ends = [decibels(echo[int(at * RATE) : int((at + 0.05) * RATE)]) for at in (0.5, 0.6, 0.7)]
    assert ends[0] - ends[1] == pytest.approx(15.0, abs=5.0)  # 60 dB in 0.4 s
    assert ends[1] - ends[2] == pytest.approx(15.0, abs=5.0)


def test_a_narrow_band_ends_where_it_says() -> None:
    noise = torch.randn(RATE, generator=seeded()) * 0.1
    made = replace(STUDIO, highest=4000.0)(noise, seeded(1))
    power = torch.fft.rfft(made).abs().square()
    assert power[4500:].sum() < 2e-3 * power[:3500].sum()
    whole = torch.fft.rfft(noise).abs().square()
    assert power[:3500].sum() == pytest.approx(float(whole[:3500].sum()), rel=0.02)


Place = Callable[..., settings.Settings]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Settings of a new folder with speech in it and a codec."""

    def make(name: str = "here", **given: object) -> settings.Settings:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "toy.toml").write_text(TOY, "utf-8")
        chosen = settings.load(folder / "toy.toml")
        chosen = replace(chosen, latents=settings.Latents(**given))  # type: ignore[arg-type]
        for kind in ("kokoro", "hibari", "held"):
            write_speech(chosen.work / "speech", kind)
        codec_training.run(chosen, CPU, Budget(60))
        return chosen

    return make


def encoded(chosen: settings.Settings, kind: str) -> latents.Encoded:
    return latents.Encoded.read(chosen.work / "latents" / f"{kind}-00-0000.pt")


def test_each_take_is_a_speaker_of_the_same_lines(place: Place) -> None:
    chosen = place(takes=3)
    assert latents.run(chosen, CPU, Budget(60))
    made = encoded(chosen, "kokoro")
    owns = [f"kokoro-00-0000-{own}" for own in (0, 0, 1, 1)]
    assert made.speakers == [f"{own}{take}" for take in ("", "/1", "/2") for own in owns]
    assert made.texts == [f"Line {line}." for line in range(4)] * 3
    assert len(made.patches) == len(made.phones) == sum(made.lengths)
    heard = {line.numpy().tobytes() for line in made.patches.split(made.lengths)}
    assert len(heard) == 12
    assert made.recorded_lengths == [0] * 12
    assert len(encoded(chosen, "hibari").texts) == len(encoded(chosen, "held").texts) == 4


def test_recordings_are_of_speakers_that_are_trained_on_and_not_of_the_default_one(
    place: Place,
) -> None:
    chosen = place(takes=2, recorded_share=1.0)
    assert latents.run(chosen, CPU, Budget(60))
    made = encoded(chosen, "kokoro")
    assert all(map(int.__le__, made.lengths, made.recorded_lengths))
    assert len(made.recordings) == sum(made.recorded_lengths)
    lines, recordings = (
        made.patches.split(made.lengths),
        made.recordings.split(made.recorded_lengths),
    )
    for line, recording in zip(lines, recordings, strict=True):
        assert not torch.equal(recording[: len(line)], line)
    for kind in ("hibari", "held"):
        assert not any(encoded(chosen, kind).recorded_lengths)


def test_latents_are_the_same_again(place: Place) -> None:
    one, other = (place(name, takes=2, recorded_share=0.5) for name in ("one", "other"))
    for chosen in (one, other):
        latents.run(chosen, CPU, Budget(60))
    ours, theirs = (vars(encoded(chosen, "kokoro")) for chosen in (one, other))
    for name, value in ours.items():
        is_same = torch.equal if isinstance(value, torch.Tensor) else list.__eq__
        assert is_same(value, theirs[name]), name


@pytest.mark.parametrize("broken", ["line", "recording", "short"])
def test_what_is_not_finite_or_too_short_is_not_trained_on(place: Place, broken: str) -> None:
    chosen = place(recorded_share=1.0)
    latents.run(chosen, CPU, Budget(60))
    path = chosen.work / "latents" / "kokoro-00-0000.pt"
    made = encoded(chosen, "kokoro")
    lengths = list(made.lengths)
    if broken == "line":
        made.patches[lengths[0]] = torch.nan  # of the second line
    elif broken == "recording":
        made.recordings[made.recorded_lengths[0]] = torch.inf
    else:
        first, gone = lengths[0], lengths[1] - 1
        lengths[1] = 1
        kept = [i for i in range(len(made.patches)) if not first < i <= first + gone]
        made = replace(made, lengths=lengths, patches=made.patches[kept], phones=made.phones[kept])
    made.write(path)
    store = packing.Store.read(chosen.work / "latents", Tokens(chosen.language.vocabulary))
    assert store is not None
    assert len(store.tokens) == len(store.speakers) == len(store.lengths) == 7
    for kept, line in zip((0, 2, 3), (4, 5, 6), strict=True):  # behind those of hibari
        start, length = int(store.starts[line]), int(store.lengths[line])
        begin = sum(lengths[:kept])
        assert torch.equal(store.patches[start : start + length], made.patches[begin:][:length])
        start, length = store.recordings[line]
        begin = sum(made.recorded_lengths[:kept])
        assert torch.equal(store.patches[start : start + length], made.recordings[begin:][:length])


def utterances(steps: packing.Steps, count: int) -> list[packing.Layout]:
    random = np.random.default_rng(3)
    return [steps._utterance(random) for _ in range(count)]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_so_many_references_are_recordings_and_what_is_spoken_never_is(
    place: Place, share: float
) -> None:
    chosen = place(recorded_share=1.0)
    latents.run(chosen, CPU, Budget(60))
    language = replace(chosen.language, recording_share=share, default_share=0.0, row_tokens=128)
    store = packing.Store.read(chosen.work / "latents", Tokens(language.vocabulary))
    assert store is not None
    first = 1 + store.lengths.sum()  # of the recordings
    assert len(store.patches) == first + store.recordings[:, 1].sum() == len(store.phones)
    num_recorded = num_references = 0
    for layout in utterances(packing.Steps(store, language), 600):
        tokens, places, flags = layout.arrays()
        assert (places[flags & packing.TRAINED > 0] < first).all()
        if REFERENCE_END not in tokens:
            continue
        end = int(np.flatnonzero(tokens == REFERENCE_END)[0])
        is_recorded = places[1:end] >= first
        assert is_recorded.all() or not is_recorded.any()
        line = int(np.searchsorted(store.starts, places[1], side="right")) - 1
        if is_recorded.any() or store.speakers[line] != "":  # the default one has no recordings
            num_references += 1
            num_recorded += bool(is_recorded.any())
    assert num_recorded / num_references == pytest.approx(share, abs=0.08)
