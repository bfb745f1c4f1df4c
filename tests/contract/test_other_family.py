"""A family that no command was written for goes through all of them."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from nursery import Nursery
from otherfamily import HOP, SAMPLE_RATE, write_checkpoint
from shell import environment, post_speech, wait_until_ready

ROOT = Path(__file__).parents[2]
EMMA = ROOT / "samples" / "voices" / "emma.flac"


@pytest.fixture(scope="module")
def place(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chimes")
    write_checkpoint(folder / "model")
    nursery.program(folder / "voxcli", str(Path(__file__).with_name("with_chimes.py")))
    return folder


def of_chimes(place: Path) -> dict[str, str]:
    return environment(place, VOXCLI_MODEL=str(place / "model"))


def start(place: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [place / "voxcli", *words], cwd=place, env=of_chimes(place), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def voxcli(place: Path, *words: str, code: int = 0) -> tuple[str, str]:
    process = start(place, *words)
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def report(place: Path, *words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(voxcli(place, *words, "--json", code=code)[0])
    return found


def heard(path: Path) -> np.ndarray:
    samples, rate = soundfile.read(path)
    assert rate == SAMPLE_RATE
    assert np.abs(samples).max() > 0.1
    return samples


def test_speak_has_the_familys_rate_parameters_and_end(place: Path) -> None:
    text = "A sentence of ordinary length."
    words = ("speak", text, "--seed", "5", "--temperature", "0.5", "-o")
    found = report(place, *words, "one.wav")
    assert found["parameters"] == {"temperature": 0.5, "top_k": 8, "is_greedy": False}
    assert len(heard(place / "one.wav")) == len(text) * HOP, "the end has no frame"
    assert found["segments"][0]["num_frames"] == len(text)
    report(place, *words, "two.wav")
    assert (place / "one.wav").read_bytes() == (place / "two.wav").read_bytes()
    report(place, *words[:-1], "--voice", "ada", "-o", "ada.wav")
    assert not np.array_equal(heard(place / "one.wav"), heard(place / "ada.wav"))


def test_what_the_family_does_not_have_is_refused_with_its_own_list(place: Path) -> None:
    for words, message in (
        (("--steps", "6"), "--temperature (from 0.1 to 2), --top-k (from 1 to 16), --greedy"),
        (("--temperature", "9"), "give a number from 0.1 to 2; 0.1 is nearly greedy"),
        (("--style", "underwater"), "--style cannot be underwater"),
        (("--voice", "nobody"), "no voice 'nobody'"),
    ):
        _, err = voxcli(place, "speak", "Hello there.", "-o", "no.wav", *words, code=2)
        assert message in err
    assert not (place / "no.wav").exists()


def test_clone_and_saved_voices_use_the_familys_own_encoding(place: Path) -> None:
    voxcli(place, "voices", "add", "emma", "--ref", str(EMMA))
    assert voxcli(place, "voices", "show", "emma")[0].count(str(place / "model")) == 1
    words = ("Hello there, old friend.", "--seed", "3", "-o")
    voxcli(place, "clone", *words, "clone.wav", "--ref", str(EMMA))
    voxcli(place, "speak", *words, "saved.wav", "--voice", "emma")
    assert np.array_equal(heard(place / "clone.wav"), heard(place / "saved.wav"))


def test_batch_takes_its_parameters_as_columns(place: Path) -> None:
    rows = ["text,id,temperature,top_k,voice", "Hello there.,a,0.5,,", "And good night.,b,,3,bo"]
    (place / "rows.csv").write_text("\n".join(rows))
    voxcli(place, "batch", "rows.csv", "-o", "rows", "--seed", "1", "--top-k", "5")
    found = json.loads((place / "rows" / "report.json").read_text())["rows"]
    assert [(row["parameters"]["temperature"], row["parameters"]["top_k"]) for row in found] == [
        (0.5, 5),
        (0.9, 3),
    ]
    heard(place / "rows" / "a.wav")
    (place / "bad.csv").write_text("text,steps\nHello there.,6\n")
    _, err = voxcli(place, "batch", "bad.csv", "-o", "bad", code=2)
    assert "row 1" in err
    assert "--temperature" in err


def test_stream_sends_what_speak_writes(place: Path) -> None:
    voxcli(place, "speak", "The tide turns at nine.", "--seed", "2", "-o", "whole.wav")
    out = subprocess.run(
        [place / "voxcli", "stream", "The tide turns at nine.", "--seed", "2", "-o", "-",
         "--format", "raw"],
        cwd=place, env=of_chimes(place), capture_output=True, timeout=200, check=True,
    ).stdout  # fmt: skip
    written, _ = soundfile.read(place / "whole.wav", dtype="int16")
    assert np.array_equal(np.frombuffer(out, "<i2"), written)


def test_bench_measures_it_with_and_without_weights(place: Path) -> None:
    words = ("bench", "--prompts", "short", "--repeats", "1", "--temperature", "0.4")
    found = json.loads(voxcli(place, *words, "--json", "-")[0])
    assert found["cells"][0]["num_failed"] == 0
    config = str(place / "model" / "config.json")
    words = ("bench", "--dummy-weights", config, "--frames", "20", "--repeats", "1")
    found = json.loads(voxcli(place, *words, "--prompts", "short", "--json", "-")[0])
    assert found["runs"][-1]["frames"] == 20


def test_models_info_shows_its_parameters(place: Path) -> None:
    found = report(place, "models", "info", str(place / "model"))
    assert found["family"] == "chimes"
    assert [each["name"] for each in found["parameters"]] == ["temperature", "top_k", "is_greedy"]
    assert {"model.safetensors", "codec/model.safetensors", "codec/config.json"} <= {
        *found["files"]
    }


def test_serve_speaks_it_over_http_and_to_other_commands(place: Path) -> None:
    process = start(place, "serve", "--port", "0", "--quiet")
    try:
        url = wait_until_ready(partial(start, place))
        body = {
            "model": str(place / "model"), "input": "The tide turns at nine.", "seed": 2,
            "temperature": 0.5, "response_format": "wav",
        }  # fmt: skip
        assert post_speech(url, body)[:4] == b"RIFF"
        with pytest.raises(urllib.error.HTTPError) as refused:
            post_speech(url, {**body, "steps": 6})
        assert refused.value.code == 400
        assert "top_k" in refused.value.read().decode()
        words = ("The tide turns at nine.", "--seed", "2", "--temperature", "0.5", "-o")
        _, err = voxcli(place, "speak", *words, "hot.wav", "--engine", "auto")
        assert "asking the running server" in err
        voxcli(place, "speak", *words, "own.wav")
        assert (place / "hot.wav").read_bytes() == (place / "own.wav").read_bytes()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
