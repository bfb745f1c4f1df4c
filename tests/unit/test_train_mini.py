"""The recipe of the bundled voice: texts, speakers, steps that go on as if never interrupted."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from recipes.train_mini import (  # noqa: E402
    carry,
    checkpoint,
    codec_training,
    corpus,
    export,
    language_training,
    latents,
    settings,
    speakers,
    speech,
    templates,
)
from recipes.train_mini.language import LanguageModel  # noqa: E402
from recipes.train_mini.progress import Budget  # noqa: E402
from recipes.train_mini.resample import ToEncoderRate  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
RATE = 24_000
TOY = """
work = "work"
device = "cpu"
[codec]
encoder_dim = 2
encoder_rates = [2, 5, 8, 8]
latent_dim = 4
decoder_dim = 16
frames = 2
context_frames = 1
batch = 2
pool_hours = 0.01
min_pool_seconds = 1
steps = 6
warm_steps = 3
discriminator_start_steps = 1
report_steps = 2
period_channels = [2, 4]
spectral_channels = [2, 4]
[language]
hidden = 64
feed_forward = 64
heads = 1
kv_heads = 1
layers = 1
residual_layers = 1
quantised = 8
encoder_hidden = 64
encoder_feed_forward = 64
encoder_heads = 1
encoder_layers = 1
dit_hidden = 64
dit_feed_forward = 64
dit_heads = 1
dit_layers = 1
rows = 2
row_tokens = 64
draws = 16
steps = 6
warm_steps = 2
report_steps = 2
"""


def tone(pitch: float, seconds: float) -> np.ndarray:
    """Harmonics under a syllable's loudness, int16."""
    time = np.arange(int(seconds * RATE)) / RATE
    wave = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 20))
    return np.round(wave * (0.6 + 0.4 * np.sin(9 * time)) * 4000).astype("<i2")


def write_speech(folder: Path, kind: str, num_files: int = 1) -> None:
    """What teachers would have said: four lines of two speakers a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(num_files):
        stem = folder / f"{kind}-00-{number:04d}"
        pieces, index = [], []
        for line in range(4):
            speaker = "" if kind == "hibari" else f"{stem.name}-{line // 2}"
            samples = tone(100 + 30 * line, 0.7)
            at = sum(map(len, pieces))
            phones = [[0, 1000], [40 + line, len(samples) - 2000], [0, 1000]]
            index.append([f"Line {line}.", speaker, at, len(samples), phones])
            pieces.append(samples)
        stem.with_suffix(".json").write_text(json.dumps(index), "utf-8")
        np.save(stem.with_suffix(".npy"), np.concatenate(pieces))


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], settings.Settings]:
    """Settings of a new folder with speech in it."""

    def make(name: str) -> settings.Settings:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "toy.toml").write_text(TOY, "utf-8")
        chosen = settings.load(folder / "toy.toml")
        for kind in ("kokoro", "hibari", "held"):
            write_speech(chosen.work / "speech", kind)
        return chosen

    return make


Place = Callable[[str], settings.Settings]


def until(chosen: settings.Settings, step: int) -> None:
    """The codec's training, ended after so many steps as a spent budget would end it."""

    class Steps(Budget):
        @property
        def is_spent(self) -> bool:
            return trainers[-1].step >= step if trainers else False

    trainers: list[codec_training.Trainer] = []
    original = codec_training.Trainer.set_rates

    def watched(self: codec_training.Trainer) -> None:
        trainers.append(self)
        original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec_training.Trainer, "set_rates", watched)
        codec_training.run(chosen, CPU, Steps(60))


def average(chosen: settings.Settings, name: str) -> dict[str, torch.Tensor]:
    state = torch.load(chosen.work / name)
    return dict(state["average"])


def test_a_setting_that_no_step_knows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "typo.toml"
    path.write_text("[codec]\nstep = 3\n", "utf-8")
    with pytest.raises(SystemExit, match=r"no setting codec\.step"):
        settings.load(path)
    path.write_text("[codec]\nsteps = 'many'\n", "utf-8")
    with pytest.raises(SystemExit, match=r"codec\.steps must be of type int"):
        settings.load(path)


@pytest.mark.parametrize("step", [2, 3, 5])
def test_codec_training_goes_on_as_if_never_interrupted(place: Place, step: int) -> None:
    whole, parts = place("whole"), place("parts")
    assert codec_training.run(whole, CPU, Budget(60))
    until(parts, step)
    state = torch.load(parts.work / codec_training.STATE)
    assert state["ages"][0] == step
    assert codec_training.run(parts, CPU, Budget(60))
    ours, theirs = average(parts, codec_training.STATE), average(whole, codec_training.STATE)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0)


def test_language_training_goes_on_as_if_never_interrupted(place: Place) -> None:
    whole, parts = place("whole"), place("parts")
    for chosen in (whole, parts):
        codec_training.run(chosen, CPU, Budget(60))
        assert latents.run(chosen, CPU, Budget(60))
    assert language_training.run(whole, CPU, Budget(60))
    assert not language_training.run(parts, CPU, Budget(0))  # one step, and its state
    assert language_training.run(parts, CPU, Budget(60))
    ours = average(parts, language_training.STATE)
    for name, value in average(whole, language_training.STATE).items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0)


def test_the_rate_has_fallen_when_the_seconds_of_a_call_end(place: Place) -> None:
    assert (Budget(math.inf).share, Budget(0.0).share) == (0.0, 1.0)
    chosen = place("here")
    trainer = language_training.Trainer(chosen, None, CPU)  # type: ignore[arg-type]
    trainer.optimiser_age = chosen.language.warm_steps
    rates = [trainer.rate(done) for done in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == chosen.language.learning_rate
    assert rates[-1] == chosen.language.last_rate


def test_the_loss_of_held_speech_is_told_and_changes_no_training(place: Place) -> None:
    averages = []
    for name in ("held", "bare"):
        chosen = place(name)
        language = replace(chosen.language, steps=10, report_steps=1)
        chosen = replace(chosen, language=language)
        codec_training.run(chosen, CPU, Budget(60))
        latents.run(chosen, CPU, Budget(60))
        if name == "bare":
            (chosen.work / "latents" / "held-00-0000.pt").unlink()
        assert language_training.run(chosen, CPU, Budget(60))
        records = (chosen.work / "logs" / "language.jsonl").read_text("utf-8").splitlines()
        told = [json.loads(record).get("held") for record in records]
        assert [loss is not None for loss in told] == [False] * 9 + [name == "held"]
        averages.append(average(chosen, language_training.STATE))
    for name, value in averages[0].items():
        torch.testing.assert_close(averages[1][name], value, rtol=0, atol=0)


def test_latents_are_encoded_once_and_have_unit_variance(place: Place) -> None:
    chosen = place("here")
    codec_training.run(chosen, CPU, Budget(60))
    assert not latents.run(chosen, CPU, Budget(0))
    assert latents.run(chosen, CPU, Budget(60))
    files = sorted((chosen.work / "latents").glob("*.pt"))
    trained = [path for path in files if not path.name.startswith(latents.HELD)]
    assert [path.stem for path in trained] == ["hibari-00-0000", "kokoro-00-0000"]
    assert len(files) == 3
    times = [path.stat().st_mtime_ns for path in files]
    assert latents.run(chosen, CPU, Budget(60))
    assert [path.stat().st_mtime_ns for path in files] == times
    every = torch.cat([latents.Encoded.read(path).patches for path in trained]).flatten(0, 1)
    every = every.float()
    torch.testing.assert_close(every.std(0), torch.ones(4), rtol=2e-3, atol=0)  # half precision


def test_what_was_trained_travels_in_small_parts_and_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = place("here"), place("there")
    until(here, 4)
    monkeypatch.setattr("recipes.train_mini.progress.MAX_PART_BYTES", 20_000)
    carry.pack(here, tmp_path / "parts")
    parts = sorted((tmp_path / "parts").glob("codec.pt.*"))
    assert len(parts) > 1
    assert all(part.stat().st_size <= 20_000 for part in parts)
    carry.unpack(there, tmp_path / "parts")
    ours = average(there, codec_training.STATE)
    for name, value in average(here, codec_training.STATE).items():
        torch.testing.assert_close(ours[name].float(), value, rtol=1e-3, atol=1e-6)  # half
    assert codec_training.run(there, CPU, Budget(60))


def test_a_checkpoint_has_every_official_file(place: Place) -> None:
    chosen = place("here")
    codec_training.run(chosen, CPU, Budget(60))
    latents.run(chosen, CPU, Budget(60))
    language_training.run(chosen, CPU, Budget(60))
    assert export.run(chosen, CPU, Budget(60))
    names = {path.name for path in (chosen.work / export.FOLDER).iterdir()}
    assert names == {
        "config.json", "model.safetensors", "audiovae.safetensors", "tokenizer.json",
        "tokenizer_config.json", "special_tokens_map.json",
    }  # fmt: skip


def test_a_language_model_begins_with_what_fits_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(TOY, "utf-8")
    toy = settings.load(tmp_path / "toy.toml")
    torch.manual_seed(1)
    before = LanguageModel(toy.language, toy.codec)
    folder = tmp_path / "voice"
    export.write_folder(folder, toy, {}, before.state_dict(), torch.float32)
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    wider = replace(toy.codec, latent_dim=toy.codec.latent_dim + 1)
    after = LanguageModel(toy.language, wider)
    others = language_training.take_over(after, folder)
    weights = after.state_dict()
    names = ("in_proj.weight", "cond_proj.weight", "out_proj.weight", "out_proj.bias")
    assert others == [
        "feat_encoder.in_proj.weight",
        *(f"feat_decoder.estimator.{name}" for name in names),
    ]
    given = load_file(folder / "model.safetensors")
    embedding = weights.pop(language_training.EMBEDDING)
    for name in weights.keys() - set(others):
        assert torch.equal(weights[name], given[name])
    swapped = embedding[[ids["b"], ids["a"], ids["c"]]]
    assert torch.equal(swapped, given[language_training.EMBEDDING][[ids["a"], ids["b"], ids["c"]]])


def test_the_corpus_has_what_people_type_and_nothing_held_out(tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("The cat sat.\nBad <tag> here.\nKeep me, please.\n")
    (tmp_path / "held.txt").write_text("the cat sat!\n")
    chosen = settings.Settings(
        work=tmp_path / "work",
        corpus=settings.Corpus(("source.txt",), held_out="held.txt", num_templates=50),
    )
    lines = corpus.build(chosen)
    assert "Keep me, please." in lines
    assert not {"The cat sat.", "Bad <tag> here."} & set(lines)
    assert all(2 <= len(line) <= 300 for line in lines)
    assert any(len(line) > 150 for line in lines)
    assert any(line.endswith("?") for line in lines)
    assert any(" " not in line for line in lines)


def test_lines_with_marks_inside_keep_every_word_and_end_as_a_sentence() -> None:
    sentences = ["I came too late.", "What is that, Anna?", "Nobody knows - not even he.", "Stop!"]
    wanted = {word for text in sentences for word in re.findall(r"\w+", text.lower())}
    made = list(corpus.marked(sentences, 3000, 60, random.Random(4)))
    assert len(made) == 3000
    kinds: Counter[str] = Counter()
    for line in made:
        assert len(line) <= 60 + 10, line
        assert line.endswith((".", "!", "?")), line
        assert not re.search(r" [.,!?;:]|\s\s|[,;:][.!?]|-[.!?,;:]|[.,;:!?]-", line), line
        assert set(re.findall(r"\w+", line.lower())) <= wanted, line
        assert not re.search(r"\bi\b", line), line
        kinds.update(set(re.findall(r"(?<=\w)(\W{2,5})(?=\w)", line)))
    for mark in (*corpus.BETWEEN, *corpus.WITHIN):
        assert kinds[" - " if mark == "-" else f"{mark} "] > 20, mark
    assert sum(line.startswith("...") for line in made) > 100


def test_so_many_lines_of_a_corpus_have_marks_inside(tmp_path: Path) -> None:
    words = ("river", "letter", "garden", "window", "silver", "morning", "music", "orange")
    lines = [f"The {one} is not the {two} of the {three}." for one in words for two in words
             for three in words]  # fmt: skip
    (tmp_path / "source.txt").write_text("\n".join(lines))
    sizes = []
    for share in (0.0, 0.5):
        given = settings.Corpus(("source.txt",), num_templates=0, marked_share=share, max_chars=140)
        made = corpus.build(settings.Settings(work=tmp_path / "work", corpus=given))
        sizes.append(len(made))
        assert all(len(line) <= 140 for line in made)
        inside = [line for line in made if re.search(r"\w\W+[.!?,;:-]|[.!?,;:-]\W*\w", line)]
        assert len(inside) == len(made) - len(lines)
    assert sizes[0] == len(lines)
    assert 0.3 * len(lines) < sizes[1] - sizes[0] <= 0.5 * len(lines)


def test_a_gloss_of_wordnet_becomes_sentences(tmp_path: Path) -> None:
    gloss = 'a small domestic animal (a cat); "the cat sat on the mat"; "no"'
    (tmp_path / "data.noun").write_text(f"  1 licence\n0001 03 n 01 cat 0 000 | {gloss}\n")
    lines = list(corpus.wordnet_lines(tmp_path))
    assert lines == ["The cat sat on the mat.", "A small domestic animal."]


def test_numbers_have_words_of_their_own() -> None:
    words = [templates.number_words(number) for number in range(20_000)]
    assert len(set(words)) == len(words)
    assert words[13] == "thirteen"
    assert templates.number_words(512_042) == "five hundred twelve thousand forty-two"


def test_templates_are_the_same_for_the_same_seed() -> None:
    one, other = (list(templates.lines(random.Random(3), 20)) for _ in range(2))
    assert one == other
    assert all("{" not in line for line in one)


@given(st.integers(0, 2**32 - 1))
def test_a_mixture_is_of_the_voices_that_may_be_heard(seed: int) -> None:
    styles = {name: np.full((510, 256), i, np.float16) for i, name in enumerate("abcd")}
    with mock.patch.object(speakers, "DRAWN_SHARE", 0):
        chosen = speakers.Cast(styles)(np.random.default_rng(seed))
    style = chosen.style(styles, 40)
    for half, weights in zip(np.split(style, 2), (chosen.timbre, chosen.prosody), strict=True):
        assert set(weights) <= {"a", "b", "c", "d"}
        assert sum(weights.values()) == pytest.approx(1)
        expected = sum(weight * "abcd".index(name) for name, weight in weights.items())
        assert half == pytest.approx(np.full(128, expected), abs=1e-4)


def test_drawn_speakers_spread_like_the_voices_and_beyond() -> None:
    made = np.random.default_rng(0)
    deviations = made.uniform(0.1, 1.0, 256)
    styles = {f"{i}": np.repeat(made.normal(size=(1, 256)) * deviations, 510, 0) for i in range(12)}
    with mock.patch.object(speakers, "DRAWN_SHARE", 1):
        cast = speakers.Cast(styles)
        drawn = np.stack([cast(made).style(styles, 40) for _ in range(2000)])
    table = np.stack([style[0] for style in styles.values()])
    ratio = drawn.std(0) / table.std(0)
    assert 0.9 < np.median(ratio[:128]) < 1.4
    assert 0.5 < np.median(ratio[128:]) < 1.0
    centred = table - table.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    outside = drawn - table.mean(0)
    outside -= outside @ directions[:11].T @ directions[:11]
    assert (
        np.linalg.norm(outside[:, :128], axis=1).mean()
        > 0.2 * np.linalg.norm(centred[:, :128], axis=1).mean()
    )


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.6))
def test_a_line_ends_soon_after_its_last_sound(seed: int, silence_s: float) -> None:
    random = np.random.default_rng(seed)
    lead, sound, silence = 3000, int(random.integers(4000, 30_000)), int(silence_s * RATE)
    samples = np.concatenate(
        (np.zeros(lead), random.uniform(-0.3, 0.3, sound), random.normal(0, 1e-5, silence))
    ).astype(np.float32)
    # a voice, a full stop of which a part is silence, and the end
    durations = np.array([lead, sound - 1000, 1000 + silence - 100, 100])
    made, phones = speech.trimmed(samples, durations)
    behind = len(made) - speech.LEAD - sound
    assert -1 <= behind - min(silence, speech.TAIL) <= speech.FRAME
    assert phones.sum() == len(made)
    assert (phones >= 0).all()
    assert phones[0] == speech.LEAD
    assert phones[1] == sound - 1000
    assert np.array_equal(
        made[speech.LEAD + 60 : speech.LEAD + sound], samples[lead + 60 :][: sound - 60]
    )


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_what_is_no_sound_is_left_to_who_looks_at_it(value: float) -> None:
    samples = np.full(24_000, value, np.float32)
    made, phones = speech.trimmed(samples, np.array([3000, 18_000, 3000]))
    assert phones.sum() == len(made)
    assert not speech.is_plausible("Three words here.", made, 20.0)


@given(st.integers(0, 2**32 - 1))
def test_a_colour_changes_each_band_by_its_decibels(seed: int) -> None:
    random = np.random.default_rng(seed)
    colour = speakers.Colour(float(random.uniform(-1, 1)), tuple(random.uniform(-3, 3, 8)))
    seconds = np.arange(RATE) / RATE
    for hertz in (100, 440, 1000, 3000, 7000):
        tone = np.sin(2 * np.pi * hertz * seconds)
        made = colour(tone)
        assert made.dtype == np.float32
        gain = 20 * np.log10(np.linalg.norm(made) / np.linalg.norm(tone))
        assert gain == pytest.approx(float(colour.decibels(np.array([hertz]))[0]), abs=0.05)


def test_some_speakers_have_a_colour() -> None:
    styles = {name: np.full((510, 256), i, np.float16) for i, name in enumerate("abcd")}
    cast, random = speakers.Cast(styles), np.random.default_rng(5)
    share = np.mean([cast(random).colour is not None for _ in range(1000)])
    assert share == pytest.approx(speakers.COLOURED_SHARE, abs=0.06)


def test_a_checkpoint_is_adopted_whole(place: Place, tmp_path: Path) -> None:
    chosen = place("here")
    codec_training.run(chosen, CPU, Budget(60))
    latents.run(chosen, CPU, Budget(60))
    language_training.run(chosen, CPU, Budget(60))
    export.run(chosen, CPU, Budget(60))
    folder = chosen.work / export.FOLDER
    after = replace(chosen, work=tmp_path / "after")
    checkpoint.adopt_codec(after, folder)
    with pytest.raises(SystemExit, match="exists"):
        checkpoint.adopt_codec(after, folder)
    model = LanguageModel(after.language, after.codec)
    assert not language_training.take_over(model, folder)
    codec = latents.frozen_codec(after, CPU)
    latents.scale_latents(codec, torch.load(after.work / latents.DEVIATIONS))
    again = tmp_path / "again"
    states = codec.state_dict(), model.state_dict()
    export.write_folder(again, after, *states, is_eight_bits=True)
    for name in ("model", "audiovae"):
        before, now = (load_file(each / f"{name}.safetensors") for each in (folder, again))
        assert before.keys() == now.keys()
        for key, value in before.items():
            assert torch.allclose(value.float(), now[key].float(), rtol=2e-3, atol=1e-4), key
    assert codec_training.run(after, CPU, Budget(0)) is False  # its discriminators are new


def dominant_hz(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(spectrum.argmax() * rate / len(samples))


@pytest.mark.parametrize("rate", [0.8, 1.0, 1.2])
def test_reading_faster_moves_the_pitch_and_shortens_the_phones(rate: float) -> None:
    wave = np.sin(2 * np.pi * 400 * np.arange(RATE) / RATE).astype(np.float32)
    durations = np.array([6000, 12_000, 6000])
    read, shorter = speech.faster(wave, durations, rate)
    assert dominant_hz(read, RATE) == pytest.approx(400 * rate, rel=5e-3)
    assert len(read) == shorter.sum() == pytest.approx(RATE / rate, abs=2)


def test_the_encoder_s_rate_keeps_tones_below_its_band_and_drops_those_above() -> None:
    time = torch.arange(RATE) / RATE
    low, high = (torch.sin(2 * torch.pi * hz * time).view(1, 1, -1) for hz in (1000, 9500))
    resample = ToEncoderRate()
    kept = resample(low)[0, 0]
    assert kept.shape == (16_000,)
    expected = torch.sin(2 * torch.pi * 1000 * torch.arange(16_000) / 16_000)
    torch.testing.assert_close(kept[200:-200], expected[200:-200], rtol=0, atol=2e-3)
    assert resample(high)[0, 0, 200:-200].abs().max() < 2e-2


def test_a_throat_moves_the_pitch_and_keeps_what_has_none() -> None:
    chosen = replace(speakers.throat(np.random.default_rng(0)), pitch=0.7, melody=1.0)
    rng = np.random.default_rng(1)
    spectra = [rng.normal(size=(601, 5)).astype(np.float32) for _ in range(5)]
    pitch = np.array([0, 200, 220, 0, 180], np.float32)
    made = speakers.through(chosen, (*spectra, pitch))
    np.testing.assert_allclose(made[5], [0, 140, 154, 0, 126], rtol=1e-5)
    assert all(each.shape == (601, 5) and np.isfinite(each).all() for each in made[:5])


def test_a_latent_has_the_phone_that_sounds_at_its_middle() -> None:
    found = latents.phones_of([[7, 960], [8, 500], [9, 1400]], 4, 960)
    assert found.tolist() == [7, 8, 9, 0]


@pytest.mark.parametrize("broken", ["silent", "nan", "long", "short"])
def test_speech_that_no_text_has_is_left_out(broken: str) -> None:
    good = tone(120, 1.0).astype(np.float32) / 32768
    assert speech.is_plausible("Hello there.", good, 10)
    worse = {
        "silent": good * 0, "nan": good * np.nan, "long": np.tile(good, 6), "short": good[:1000],
    }[broken]  # fmt: skip
    assert not speech.is_plausible("Hello there.", worse, 10)


class Whistler:
    """A teacher that whistles a line for as long as it is."""

    def __init__(self, chosen: settings.Settings, kind: str, _: torch.device) -> None:
        self._settings = chosen.speech

    def cast(self, random: np.random.Generator) -> list[str]:
        return [f"{random.integers(99)}"] * self._settings.utterances

    def line(
        self, text: str, speaker: str, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, list[int]]:
        samples = tone(100 + int(speaker), 0.06 * len(text)).astype(np.float32) / 32768
        samples *= random.uniform(0.5, 1)
        return samples, np.array([100, len(samples) - 200, 100]), [0, len(text), 0]


def test_speech_goes_on_where_it_was_left_and_is_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(speech.TEACHERS, "hibari", Whistler)
    whole, parts = (
        replace(place(name), speech=settings.Speech(utterances=3)) for name in ("whole", "parts")
    )
    for chosen in (whole, parts):
        for path in (chosen.work / "speech").iterdir():
            path.unlink()
        corpus.run(replace(chosen, corpus=settings.Corpus(num_templates=5)), CPU, Budget(60))
    given = "hibari", 0, 1
    enough = 9 * 2 / 3600  # hours
    speech.work(whole, *given, enough, 60, "cpu")
    speech.work(parts, *given, 1e-6, 60, "cpu")
    first = {path.name: path.read_bytes() for path in (parts.work / "speech").iterdir()}
    assert len(first) == 2
    speech.work(parts, *given, enough, 60, "cpu")
    ours, theirs = (
        {path.name: path.read_bytes() for path in (chosen.work / "speech").iterdir()}
        for chosen in (parts, whole)
    )
    assert ours == theirs
    assert len(ours) > 2
    assert first.items() <= ours.items()
