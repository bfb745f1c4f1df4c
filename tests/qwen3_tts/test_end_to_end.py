"""Qwen3-TTS through the commands, as a user starts them, with tiny random checkpoints.

Random weights say nothing, but they end: the end token is made likely here, and the seeds are ones
whose first attempt has a length that the output guard takes.
"""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny
from nursery import Nursery
from safetensors.numpy import load_file, save_file
from shell import environment, post_speech, wait_until_ready

ROOT = Path(__file__).parents[2]
EMMA = ROOT / "samples" / "voices" / "emma.flac"
RATE, HOP = 24_000, 1920
TEXT = "Hi there."
END_ID, ENDING_LIKE, ENDING_FACTOR = 2150, 145, 3.0


def write_ending(folder: Path, name: str) -> Path:
    """A tiny checkpoint whose speech ends: the end's logit is another code's, and more."""
    written = tiny.write(folder, name)
    weights = load_file(written / "model.safetensors")
    head = weights["talker.codec_head.weight"]
    head[END_ID] = np.float32(ENDING_FACTOR) * head[ENDING_LIKE]
    save_file(weights, written / "model.safetensors", metadata={"format": "pt"})
    return written


@pytest.fixture(scope="module")
def place(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen")
    nursery.program(folder / "voxcli")
    for name in ("cv_0b6", "cv_1b7", "vd_1b7", "base_0b6"):
        write_ending(folder, name)
    return folder


def start(place: Path, *words: str, text: bool = True) -> subprocess.Popen[Any]:
    return subprocess.Popen(
        [place / "voxcli", *words], cwd=place, env=environment(place), text=text,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def voxcli(place: Path, *words: str, code: int = 0) -> tuple[str, str]:
    process = start(place, *words)
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def report(place: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(voxcli(place, *words, "--json")[0])
    return found


def heard(path: Path) -> np.ndarray:
    samples, rate = soundfile.read(path)
    assert rate == RATE
    assert np.abs(samples).max() > 0.05
    return np.asarray(samples)


# ---------------------------------------------------------------- preset voices


def test_speak_with_a_preset_voice(place: Path) -> None:
    words = ("speak", TEXT, "--model", "cv_0b6", "--seed", "1", "-o")
    found = report(place, *words, "one.wav", "--voice", "serena", "--temperature", "0.8")
    assert (found["parameters"]["temperature"], found["parameters"]["top_k"]) == (0.8, 50)
    assert found["segments"][0]["finish_reason"] == "stop"
    assert len(heard(place / "one.wav")) == found["segments"][0]["num_frames"] * HOP


def test_an_instruction_changes_how_a_preset_voice_speaks(place: Path) -> None:
    words = ("speak", TEXT, "--model", "cv_1b7", "--voice", "eric", "--seed", "5", "-o")
    report(place, *words, "plain.wav")
    report(place, *words, "told.wav", "--style", "the user of hello")
    assert not np.array_equal(heard(place / "plain.wav"), heard(place / "told.wav"))


def test_what_a_checkpoint_cannot_do_is_refused_by_name(place: Path) -> None:
    for model, words, message in (
        ("cv_0b6", ("--voice", "nobody"), "nobody"),
        ("cv_0b6", ("--style", "slow"), "style"),
        ("cv_0b6", ("--guidance-scale", "2"), "--temperature"),
        ("cv_0b6", ("--language", "pl"), "pl"),
        ("vd_1b7", ("--voice", "serena"), "a voice of: Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"),
        ("base_0b6", (), "zero-shot"),
    ):
        _, err = voxcli(place, "speak", TEXT, "-m", model, "-o", "no.wav", *words, code=2)
        assert message in err, (model, words)
    assert not (place / "no.wav").exists()


def test_models_info_tells_voices_languages_modes_and_parameters(place: Path) -> None:
    found = report(place, "models", "info", str(place / "cv_1b7"))
    assert found["family"] == "qwen3_tts"
    assert {each["name"] for each in found["parameters"]} >= {"temperature", "predictor_top_k"}
    assert set(found["voices"]) == set(tiny.SPEAKERS)
    assert {"en", "zh", "ru"} <= set(found["languages"])
    assert {"model.safetensors", "speech_tokenizer/model.safetensors", "config.json",
            "speech_tokenizer/config.json"} <= {*found["files"]}  # fmt: skip
    listed = report(place, "voices", "list", "--model", str(place / "cv_1b7"))["voices"]
    assert {each["name"] for each in listed} >= set(tiny.SPEAKERS)


# ---------------------------------------------------------------- design and cloning


def test_a_voice_is_designed_in_words(place: Path) -> None:
    words = ("speak", TEXT, "--model", "vd_1b7", "--seed", "12", "-o")
    for name, style in (("low", "a low voice"), ("high", "a high voice")):
        report(place, *words, f"{name}.wav", "--style", style)
    assert not np.array_equal(heard(place / "low.wav"), heard(place / "high.wav"))


def test_a_designed_voice_without_words_is_told(place: Path) -> None:
    words = ("speak", TEXT, "--model", "vd_1b7", "--dry-run")
    assert "makes its voice from --style" in voxcli(place, *words)[1]
    assert "--style" not in voxcli(place, *words, "--style", "low")[1]
    assert "--style" not in voxcli(place, *words[:3], "cv_1b7", "--dry-run")[1]


def test_clone_with_and_without_a_transcript(place: Path) -> None:
    words = (TEXT, "--model", "base_0b6", "--seed", "9", "-o")
    report(place, "clone", *words, "vector.wav", "--ref", str(EMMA))
    transcript = ("--ref-text", "the user of hello", "--ref-end", "3")
    found = report(place, "clone", *words, "text.wav", "--ref", str(EMMA), *transcript)
    assert len(heard(place / "text.wav")) == found["segments"][0]["num_frames"] * HOP
    assert not np.array_equal(heard(place / "vector.wav"), heard(place / "text.wav"))
    voxcli(place, "voices", "add", "emma", "--ref", str(EMMA), "--model", "base_0b6")
    voxcli(place, "speak", *words, "saved.wav", "--voice", "emma")
    for refused in (("speak", TEXT, "-o", "no.wav", "--voice"), ("voices", "encode")):
        _, err = voxcli(place, *refused, "emma", "--model", "vd_1b7", code=2)
        assert "models with it: Qwen/Qwen3-TTS-12Hz-0.6B-Base, " in err
    assert np.array_equal(heard(place / "saved.wav"), heard(place / "vector.wav"))


# ---------------------------------------------------------------- batch, stream, bench, serve


def test_batch_takes_parameters_and_voices_as_columns(place: Path) -> None:
    with (place / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["text", "id", "voice", "seed", "temperature", "predictor_top_k", "is_greedy"]
        )
        rows.writerow([TEXT, "a", "serena", "9", "0.7", "", ""])
        rows.writerow([TEXT, "b", "eric", "9", "", "7", ""])
        rows.writerow([TEXT, "c", "", "4", "", "", ""])
        rows.writerow([TEXT, "d", "vivian", "1", "", "", "true"])
        rows.writerow([TEXT, "e", "vivian", "2", "", "", "true"])
    words = ("--model", "cv_0b6", "--predictor-top-k", "20")
    voxcli(place, "batch", "rows.csv", "-o", "rows", *words)
    found = json.loads((place / "rows" / "report.json").read_text())["rows"]
    told = [row["parameters"] for row in found]
    assert [each["temperature"] for each in told] == [0.7, 0.9, 0.9, 0.9, 0.9]
    assert [each["predictor_top_k"] for each in told] == [20, 7, 20, 20, 20]
    sounds = [heard(place / "rows" / f"{name}.wav").tobytes() for name in "abcde"]
    assert len(set(sounds)) == 4
    assert sounds[3] == sounds[4], "a greedy speaker needs no seed"


def test_stream_sends_what_speak_writes(place: Path) -> None:
    words = (TEXT, "--model", "cv_0b6", "--voice", "serena", "--seed", "1")
    voxcli(place, "speak", *words, "-o", "whole.wav")
    process = start(place, "stream", *words, "-o", "-", "--format", "raw", text=False)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    written, _ = soundfile.read(place / "whole.wav", dtype="int16")
    sent = np.frombuffer(out, "<i2")
    assert sent.shape == written.shape
    # in smaller pieces the vocoder's sums round otherwise
    assert np.abs(sent.astype(int) - written.astype(int)).max() <= 1


def test_bench_measures_it_without_weights(place: Path) -> None:
    config = str(place / "cv_0b6" / "config.json")
    words = ("bench", "--dummy-weights", config, "--frames", "20", "--repeats", "1", "--warmup",
             "0", "--prompts", "short", "--json", "-")  # fmt: skip
    found = json.loads(voxcli(place, *words)[0])
    assert found["runs"][-1]["frames"] == 20
    assert found["cells"][0]["num_failed"] == 0


def test_serve_speaks_it_over_http_as_speak_does(place: Path) -> None:
    process = start(place, "serve", "--model", "cv_0b6", "--port", "0", "--quiet")
    try:
        url = wait_until_ready(partial(start, place))
        body = {
            "model": "cv_0b6", "input": TEXT, "voice": "serena", "seed": 1, "temperature": 0.8,
            "response_format": "wav",
        }  # fmt: skip
        (place / "http.wav").write_bytes(post_speech(url, body))
        with pytest.raises(urllib.error.HTTPError) as refused:
            post_speech(url, {**body, "guidance_scale": 2})
        assert refused.value.code == 400
        assert "predictor_top_k" in refused.value.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    words = ("--model", "cv_0b6", "--voice", "serena", "--seed", "1", "--temperature", "0.8")
    voxcli(place, "speak", TEXT, *words, "-o", "same.wav")
    assert np.allclose(heard(place / "http.wav"), heard(place / "same.wav"), atol=1.1 / 2**15)
