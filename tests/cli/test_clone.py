"""`voxcli clone`: recordings people bring, what contradicts itself, what the model is given."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from commands import Run, runner
from fakes import FakeEngine, FakeModel

from voxcli.audio.resample import resample
from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.engine import NativeEngine
from voxcli.engine.native.request import Request
from voxcli.hub.catalog import ModelSettings
from voxcli.utterance import Mode
from voxcli.voices import VoiceStore

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ROOT / "tests" / "inputs" / "reference"
EMMA = str(ROOT / "samples" / "voices" / "emma.flac")
EMMA_TEXT = str(ROOT / "samples" / "voices" / "emma.txt")
WORDS = "Hello there."

BEST = ModelSettings(  # of the bundled voice
    {"steps": 6, "guidance_scale": 1.0}, {"guidance_scale": 1.5}, 120, Mode.REFERENCE
)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeModel:
    """A model that speaks in place of the bundled one, and is told what sounds best with that."""
    fake = FakeModel()
    config = EngineConfig("fake", threads=1)
    monkeypatch.setattr(
        "voxcli.engine.choose.open_engine", lambda *_, **__: FakeEngine(fake, config, BEST)
    )
    return fake


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, monkeypatch, capfd)


# Contradictions, before a model loads


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no recording was given; add --ref FILE"),
        (["--ref-text", "Hi."], "--ref-text is about a recording, but --ref is not given"),
        (["--ref-text-file", "x"], "--ref-text-file is about a recording"),
        (["--ref-auto"], "--ref-auto is about a recording"),
        (["--prompt-text", "Hi."], "--prompt-audio is not given"),
        (["--prompt-audio", EMMA], "--prompt-audio needs its transcript"),
        (["--prompt-audio", EMMA, "--prompt-text", " "], "is empty"),
        (["--ref", EMMA, "--ref-text-file", "gone.txt"], "cannot read gone.txt: no such file"),
        (["--ref", EMMA, "--ref-text", "a", "--ref-text-file", EMMA_TEXT], "are both given"),
        (["--ref", EMMA, "--ref-text", ""], "--ref-text is empty"),
        (["--ref", EMMA, "--ref-auto", "--ref-end", "2"], "--ref-auto chooses"),
        (["--ref", EMMA, "--ref-text", "a", "--prompt-audio", EMMA, "--prompt-text", "a"], "drop"),
        (["--ref", EMMA, "--ref-text", "a", "--style", "warm"], "has no style mode"),
        (
            ["--ref", EMMA, "--style", "warm"],
            "models with it: openbmb/VoxCPM2",
        ),
        (["--ref", EMMA, "--voice", "ada"], "no option '--voice'"),
        (["--ref", EMMA, "--verify", "-o", "-"], "--verify needs a file"),
        (["--ref", EMMA, "--pause", "11"], "--pause is 11"),
        (["--ref", str(INPUTS / "ref_0p3s.wav")], "0.30 s long, at least 1 s"),
        (["--ref", str(INPUTS / "ref_0samples.wav")], "0 samples"),
        (["--ref", str(INPUTS / "ref_transcript.txt")], "is text, not audio"),
        (["--ref", "gone.wav"], "cannot read gone.wav: no such file"),
    ],
)
def test_what_cannot_work_is_refused_before_a_model_loads(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setattr(NativeEngine, "start", lambda *_: pytest.fail("a model was loaded"))
    code, out, err = run("clone", WORDS, "-o", "a.wav", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert not os.listdir()


def test_auto_without_the_package_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxcli.extras.find_spec", lambda _: None)
    code, _, err = run("clone", WORDS, "--ref", EMMA, "--ref-text", "auto", "-o", "a.wav")
    assert code == 4
    assert "pip install 'voxcli[asr]'" in err


@pytest.mark.usefixtures("whisper")
def test_auto_without_the_model_says_how_to_get_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXCLI_CACHE_DIR", str(tmp_path / "hub"))
    code, _, err = run("clone", WORDS, "--ref", EMMA, "--ref-text", "auto", "-o", "a.wav")
    assert code == 2
    assert "hf download Systran/faster-whisper-base" in err


@pytest.mark.parametrize(("noise_dbfs", "level"), [(-np.inf, "-120"), (-70, "-70")])
def test_a_muted_microphone_is_no_speech(run: Run, noise_dbfs: float, level: str) -> None:
    noise = np.random.default_rng(0).standard_normal(160_000) * 10 ** (noise_dbfs / 20)
    soundfile.write("mute.wav", noise, 16_000, subtype="FLOAT")
    code, _, err = run("clone", WORDS, "--ref", "mute.wav", "-o", "a.wav")
    assert code == 2
    assert f"no speech in mute.wav (10.0 s, level {level} dBFS)" in err
    assert os.listdir() == ["mute.wav"]


# What the model is given


def test_a_recording_alone_is_imitated(run: Run, model: FakeModel) -> None:
    code, out, err = run("clone", WORDS, "--ref", EMMA, "-o", "a.wav", "--json", "-q")
    report = json.loads(out)
    assert (code, err) == (0, "")
    given = model.prompts[0][1]
    assert given["reference"].mean() == 1.0
    assert given["prompt_audio"] is None
    assert report["mode"] == "reference"
    assert report["reference"]["path"] == EMMA
    assert report["prompt"] is None
    assert report["parameters"]["guidance_scale"] == 1.5
    assert report["recordings_encoded"] == 1


def test_a_recording_with_its_words_is_used_as_the_bundled_voice_does_best(
    run: Run, model: FakeModel
) -> None:
    words = ["--ref", EMMA, "--ref-text-file", EMMA_TEXT]
    report = json.loads(run("clone", WORDS, *words, "-o", "a.wav", "--json")[1])
    text, given = model.prompts[0]
    assert text == WORDS
    assert given["reference"].mean() == 1.0
    assert given["prompt_audio"] is None
    assert report["mode"] == "reference"


def test_another_recording_is_continued_in_the_voice_of_the_first(
    run: Run, model: FakeModel
) -> None:
    words = ["--ref", EMMA, "--prompt-audio", EMMA, "--prompt-text", Path(EMMA_TEXT).read_text()]
    report = json.loads(run("clone", WORDS, *words, "-o", "a.wav", "--json")[1])
    _, given = model.prompts[0]
    assert given["reference"].mean() == 1.0
    assert given["prompt_audio"].mean() == 2.0  # padded on the left
    assert given["prompt_text"].startswith("A good map tells you")
    assert report["mode"] == "both"


def test_a_prompt_is_continued(run: Run, model: FakeModel) -> None:
    words = ["--prompt-audio", EMMA, "--prompt-text", Path(EMMA_TEXT).read_text()]
    report = json.loads(run("clone", WORDS, *words, "-o", "a.wav", "--json")[1])
    assert report["mode"] == "continuation"
    assert report["reference"] is None
    assert model.prompts[0][1]["reference"] is None


@pytest.mark.parametrize(("channels", "rate"), [(2, 44_100), (6, 48_000)])
def test_the_report_has_original_and_used_rate_and_channels(
    run: Run, model: FakeModel, channels: int, rate: int
) -> None:
    samples = resample(*soundfile.read(EMMA, dtype="float32"), rate)
    soundfile.write("a.wav", np.outer(samples, np.linspace(1, 0.5, channels)), rate)
    code, out, _ = run("clone", WORDS, "--ref", "a.wav", "-o", "b.wav", "--json")
    heard = json.loads(out)["reference"]
    assert code == 0
    assert (heard["sample_rate"], heard["channels"]) == (rate, channels)
    assert (heard["used_rate"], heard["used_channels"]) == (16_000, 1)


@pytest.mark.parametrize("name", ["ref_mp3_named.wav", "ref_wav_named.mp3", "ref_alaw.wav"])
def test_recordings_under_false_names_work(run: Run, model: FakeModel, name: str) -> None:
    assert run("clone", WORDS, "--ref", str(INPUTS / name), "-o", "a.wav")[0] == 0


def test_a_transcript_that_is_too_long_is_a_warning(run: Run, model: FakeModel) -> None:
    text = Path(EMMA_TEXT).read_text() * 10
    code, _, err = run("clone", WORDS, "--ref", EMMA, "--ref-text", text, "-o", "a.wav")
    assert code == 0
    assert "829 characters for 3.5 s of speech" in err


# Parentheses


def test_parentheses_of_the_text_are_no_style(run: Run, model: FakeModel) -> None:
    text = "(note) Prices rose again."
    for words in ([], ["--raw-text"], ["--style", ""]):
        out = run("clone", text, "--ref", EMMA, "--dry-run", "--json", *words)[1]
        assert "(" not in json.loads(out)["text"]
        assert "note" in json.loads(out)["text"]
        run("clone", text, "--ref", EMMA, "-o", "a.wav", "--overwrite", *words)
        assert model.prompts.pop()[0].startswith("note")


def test_an_empty_style_is_no_style(run: Run, model: FakeModel) -> None:
    for name, words in (("a.wav", []), ("b.wav", ["--style", ""])):
        assert run("clone", WORDS, "--ref", EMMA, "-o", name, "--seed", "1", *words)[0] == 0
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


def test_a_chosen_pause_is_between_segments(run: Run, model: FakeModel) -> None:
    text = "One good sentence of some length here. Another good sentence after the first."
    lengths = []
    for pause in ("0", "1"):
        words = ["--ref", EMMA, "--pause", pause, "--seed", "1", "--json", "--overwrite"]
        lengths.append(json.loads(run("clone", text, *words, "-o", "a.wav")[1])["audio_s"])
    assert lengths[1] - lengths[0] == pytest.approx(1.0, abs=1e-9)


def test_verify_compares_the_result_with_the_recording(
    run: Run, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "voxcli.voices.likeness.similarity",
        lambda a, rate, b, other: 0.4 if (rate, other) == (8000, 16000) else 0.0,
    )
    code, out, err = run("clone", WORDS, "--ref", EMMA, "-o", "a.wav", "--verify", "--json")
    assert code == 0
    assert json.loads(out)["similarity"] == 0.4
    assert "likeness 0.40, below 0.7" in err


# voices


def test_a_voice_is_saved_once_and_spoken_without_its_encoder(run: Run, model: FakeModel) -> None:
    words = ["--ref", EMMA, "--ref-text-file", EMMA_TEXT, "--consent", "synthetic"]
    code, out, _ = run("voices", "add", "emma", *words)
    assert code == 0
    assert out == "emma\n"
    assert model.num_encoded == 2
    code, out, _ = run("speak", WORDS, "--voice", "emma", "-o", "a.wav", "--json")
    report = json.loads(out)
    assert (code, report["mode"], report["voice"]) == (0, "reference", "emma")
    assert model.num_encoded == 2
    assert model.prompts[-1][1]["reference"].mean() == 1.0
    assert run("voices", "add", "Emma", *words)[0] == 2


def saved(run: Run) -> list[dict[str, Any]]:
    """The rows of the user's own voices."""
    rows = json.loads(run("voices", "list", "--json")[1])["voices"]
    return [row for row in rows if row["kind"] == "saved"]


def test_saved_voices_are_listed_shown_exported_and_removed(run: Run, model: FakeModel) -> None:
    assert saved(run) == []
    code, out, _ = run("voices", "add", "emma", "--ref", EMMA, "--json", "-q")
    assert code == 0
    assert json.loads(out)["facts"]["snr_db"] > 30
    listed = saved(run)
    assert [(row["name"], row["models"], row["text"]) for row in listed] == [("emma", ["fake"], "")]
    assert "dB above the noise" in run("voices", "show", "emma")[1]
    assert run("voices", "export", "emma")[:2] == (0, "emma.safetensors\n")
    assert run("voices", "export", "emma")[:2] == (0, "emma-2.safetensors\n")
    assert run("voices", "export", "emma", "-o", "emma.safetensors")[0] == 2
    assert run("voices", "import", "emma.safetensors", "--name", "bea")[0] == 0
    assert run("voices", "remove", "emma", "--json")[0] == 0
    assert [row["name"] for row in saved(run)] == ["bea"]
    code, _, err = run("speak", WORDS, "--voice", "ada", "-o", "a.wav")
    assert code == 2
    assert "no voice 'ada'" in err


def test_a_damaged_voice_is_named_and_can_be_removed(run: Run, model: FakeModel) -> None:
    run("voices", "add", "emma", "--ref", EMMA)
    path = VoiceStore().path("emma")
    path.write_bytes(path.read_bytes()[:-100])
    code, _, err = run("speak", WORDS, "--voice", "emma", "-o", "a.wav")
    assert code == 3
    assert "voice 'emma' is damaged" in err
    assert "damaged" in run("voices", "list")[1]
    assert run("voices", "remove", "emma")[0] == 0


@pytest.mark.parametrize("content", [None, b"", b"no profile at all"])
def test_a_file_that_is_no_voice_is_unusable_input(run: Run, content: bytes | None) -> None:
    if content is not None:
        Path("got.safetensors").write_bytes(content)
    code, _, err = run("voices", "import", "got.safetensors")
    assert code == 2
    assert "got.safetensors" in err


def test_a_voice_of_another_model_is_encoded_again(
    run: Run, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("voices", "add", "emma", "--ref", EMMA)
    monkeypatch.setattr(FakeEngine, "encoder_checksum", lambda _: "another")
    code, _, err = run("speak", WORDS, "--voice", "emma", "-o", "a.wav")
    assert code == 2
    assert "run 'voxcli voices encode emma --model fake'" in err
    assert run("voices", "encode", "emma")[0] == 0
    assert run("speak", WORDS, "--voice", "emma", "-o", "a.wav")[0] == 0


def test_the_bundled_model_speaks_in_another_voice(run: Run) -> None:
    """With weights: the prompt reaches the model and changes what comes out."""
    oscar = str(ROOT / "samples" / "voices" / "oscar.flac")
    code, out, _ = run("clone", WORDS, "--ref", oscar, "-o", "a.wav", "--seed", "1", "--json")
    assert code == 0
    assert 0.5 < json.loads(out)["audio_s"] < 4
    run("speak", WORDS, "-o", "b.wav", "--seed", "1")
    assert Path("a.wav").read_bytes() != Path("b.wav").read_bytes()


def test_continuity_gives_the_engine_the_speech_before(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weights: what was spoken comes back, encoded, at the end of the next prompt."""
    requests: list[Request] = []
    add = EngineCore.add_request

    def spy(core: EngineCore, request: Request) -> None:
        requests.append(request)
        add(core, request)

    monkeypatch.setattr(EngineCore, "add_request", spy)
    oscar = str(ROOT / "samples" / "voices" / "oscar.flac")
    words = ["--ref", oscar, "-o", "a.wav", "--seed", "1", "--json", "--continuity"]
    text = "The rain fell on the harbour all night long. In the morning the boats were full."
    code, out, _ = run("clone", text, *words)
    first, second = json.loads(out)["segments"]
    assert (code, first["attempts"], second["attempts"]) == (0, 1, 1)
    alone, continued = (request.prompt for request in requests)
    assert (alone.is_continuation, continued.is_continuation) == (False, True)
    num_heard = len(alone.patches)
    assert np.array_equal(continued.patches[:num_heard], alone.patches)
    assert len(continued.patches) - num_heard == first["num_frames"]
    assert continued.is_audio[-first["num_frames"] :].all()
