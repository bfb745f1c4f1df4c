"""Commands over a server elsewhere: what is spoken, kept and sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from asked import served
from commands import Run, runner
from replayed import SPEECH, Answer, Replay

from voxcli.audio import pcm, wav
from voxcli.audio.resample import resample
from voxcli.config import EngineConfig
from voxcli.engine.choose import open_engine
from voxcli.engine.fleet import session
from voxcli.utterance import Utterance

ROOT = Path(__file__).resolve().parents[2]
EMMA = ROOT / "samples" / "voices" / "emma.flac"
WORDS = (ROOT / "samples" / "voices" / "emma.txt").read_text("utf-8").strip()


def speech() -> np.ndarray:
    """Somebody who says `WORDS`, at the model's rate."""
    samples, rate = soundfile.read(EMMA, dtype="float32")
    return resample(samples, rate, 48_000)


def spoken() -> Answer:
    data = wav.wav_header(48_000, "16", None) + pcm.quantise(speech(), "16")
    return Answer(200, {"content-type": "audio/wav"}, (data,)).split(50_001)


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replay]:
    """A server that says `WORDS` whatever it is asked, which every command finds."""
    with Replay({**served(), SPEECH: spoken()}) as replay:
        monkeypatch.setenv("VOXCLI_ENGINE", replay.url)
        yield replay


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, monkeypatch, capfd)


def test_speak_writes_what_the_server_said(run: Run, replay: Replay) -> None:
    code, out, err = run("speak", WORDS, "-o", "a.wav", "--seed", "5")
    assert (code, out) == (0, "a.wav\n"), err
    samples, rate = soundfile.read("a.wav", dtype="float32")
    assert rate == 48_000
    assert abs(len(samples) - len(speech())) < 0.3 * rate  # silence at its ends is not all kept
    assert "vLLM-Omni 0.30.0 at http://127.0.0.1" in err
    assert replay.spoken[-1]["seed"] == 5


def test_a_voice_is_kept_as_its_recording_and_sent(run: Run, replay: Replay) -> None:
    code, _, err = run("voices", "add", "emma", "--ref", str(EMMA), "--ref-text", WORDS)
    assert code == 0, err
    assert "kept as its recording" in err
    code, out, _ = run("voices", "show", "emma", "--json")
    assert json.loads(out)["models"] == []
    code, _, err = run("speak", WORDS, "--voice", "emma", "-o", "a.wav")
    assert code == 0, err
    assert replay.spoken[-1]["ref_audio"].startswith("data:audio/wav;base64,")


def test_a_voice_need_not_be_encoded(run: Run, replay: Replay) -> None:
    run("voices", "add", "emma", "--ref", str(EMMA))
    code, _, err = run("voices", "encode", "emma")
    assert code == 2
    assert "encodes no voices; you do not need this" in err


def test_clone_sends_the_recording(run: Run, replay: Replay) -> None:
    code, _, err = run("clone", WORDS, "--ref", str(EMMA), "-o", "a.wav")
    assert code == 0, err
    assert "ref_audio" in replay.spoken[-1]
    assert "ref_text" not in replay.spoken[-1]


def test_a_batch_is_spoken_row_by_row(run: Run, replay: Replay) -> None:
    Path("rows.csv").write_text(f"text\n{WORDS}\n{WORDS}\n", "utf-8")
    code, _, err = run("batch", "rows.csv", "-o", "out")
    assert code == 0, err
    assert len(list(Path("out").glob("*.wav"))) == 2


REFUSALS = [(401, "refuses the key"), (404, "refuses it (404"), (308, "sends its clients")]


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_rows_that_one_server_does_not_take_are_spoken_by_another(
    run: Run, replay: Replay, status: int, words: str
) -> None:
    Path("rows.csv").write_text("text\n" + f"{WORDS}\n" * 30, "utf-8")
    with Replay({**served(), SPEECH: Answer(status, {})}) as other:
        code, _, err = run(
            "batch", "rows.csv", "-o", "out", "--engine", f"{other.url},{replay.url}"
        )
    assert code == 0, err
    assert other.num_spoken > 0
    assert len(list(Path("out").glob("*.wav"))) == 30


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_what_no_server_takes_fails_with_its_words(
    run: Run, replay: Replay, status: int, words: str
) -> None:
    replay.set(SPEECH, Answer(status, {}))
    code, _, err = run("speak", WORDS, "-o", "a.wav")
    assert code == 2
    assert words in err
    with Replay({**served(), SPEECH: Answer(status, {})}) as other:
        code, _, err = run("speak", WORDS, "-o", "a.wav", "--engine", f"{other.url},{replay.url}")
    assert code == 2
    assert words in err


def test_a_server_that_lost_its_key_gets_no_more_rows(replay: Replay) -> None:
    with (
        Replay({**served(), SPEECH: spoken()}) as other,
        open_engine(f"{other.url},{replay.url}", EngineConfig("mini", device="cpu")) as engine,
    ):
        for key in (SPEECH, ("GET", "/v1/models")):
            other.set(key, Answer(401, {}))
        plans = [engine.plan(Utterance(WORDS)) for _ in range(12)]
        assert len(engine.synthesize(plans)) == len(plans)
        counts = engine.server_counts()
    assert "refuses the key" in str(counts[other.url]["retired"])
    assert counts[replay.url]["rows"] == len(plans)


def test_a_server_that_never_has_room_ends_the_run_and_says_so(
    run: Run, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ROOM_S", 1.0)
    replay.set(SPEECH, Answer(429, {}, (b'{"error": {"message": "the quota is used up"}}',)))
    code, _, err = run("speak", WORDS, "-o", "a.wav")
    assert code == 4
    assert "no server has had room for 1 s" in err
    assert "the quota is used up" in err


def test_a_row_that_failed_says_what_its_server_said(run: Run, replay: Replay) -> None:
    replay.set(SPEECH, Answer(500, {}, (b'{"error": {"message": "out of blocks"}}',)))
    code, _, err = run("speak", WORDS, "-o", "a.wav")
    assert code == 4
    assert "out of blocks" in err


def test_what_is_no_speech_server_is_named_so(run: Run) -> None:
    with Replay({("GET", "/v1/models"): Answer(200, {}, (b"<html>",))}) as other:
        code, _, err = run("speak", WORDS, "-o", "a.wav", "--engine", other.url)
    assert code == 2
    assert "names no model, so it may not be a speech server; check the URL" in err


def test_a_refusal_is_one_line_and_exit_code_2(run: Run, replay: Replay) -> None:
    replay.set(SPEECH, Answer(400, {}, (b'{"error": {"message": "no\\nway"}}',)))
    code, out, err = run("speak", WORDS, "-o", "a.wav")
    assert (code, out) == (2, "")
    assert "refuses it (400: no way)" in err
    assert not Path("a.wav").exists()


def test_parameters_that_cannot_be_said_there_are_refused(run: Run, replay: Replay) -> None:
    code, _, err = run("speak", WORDS, "-o", "a.wav", "--steps", "4")
    assert code == 2
    assert "--steps is not a parameter of model 'openbmb/VoxCPM2 on vLLM-Omni 0.30.0'" in err
    assert replay.spoken == []
