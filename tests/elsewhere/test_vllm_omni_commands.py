"""Commands with --engine vllm-omni, over packages that stand in for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from standins import machine

from voxcli import cli
from voxcli.cli.doctor import OK, WARN
from voxcli.engine.vllm_omni.packages import Machine

ROOT = Path(__file__).resolve().parents[2]
EMMA = ROOT / "samples" / "voices" / "emma.flac"
WORDS = (ROOT / "samples" / "voices" / "emma.txt").read_text("utf-8").strip()
TEXT = "The ferry leaves at noon."

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ready(
    omni: Any, checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command finds vLLM-Omni, and a tiny VoxCPM2 for it."""
    monkeypatch.setattr(Machine, "this", classmethod(lambda cls: machine()))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("VOXCLI_ENGINE", "vllm-omni")
    monkeypatch.setenv("VOXCLI_MODEL", str(checkpoint("voxcpm2")))
    omni.rate, omni.frame_s, omni.release = 30_000, 0.16, (0, 26)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def run(ready: None, omni: Any, capfd: pytest.CaptureFixture[str]) -> Run:
    """A command in this process; none speaks of a running server, and all shut down what is up."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        out, err = capfd.readouterr()
        assert "running server" not in out + err
        assert not omni.made or omni.made[-1].is_shut
        return code, out, err

    return run


@pytest.mark.parametrize(
    ("has_card", "code", "said"),
    [(True, 3, "voxcli models pull"), (False, 4, "vLLM-Omni needs an NVIDIA GPU")],
)
def test_nobody_is_sent_for_a_model_that_could_not_run_here(
    run: Run, monkeypatch: pytest.MonkeyPatch, has_card: bool, code: int, said: str
) -> None:
    here = replace(machine(), has_card=has_card)
    monkeypatch.setattr(Machine, "this", classmethod(lambda cls: here))
    ended, _, err = run("speak", TEXT, "-o", "a.wav", "--model", "openbmb/VoxCPM2")
    assert (ended, said in err) == (code, True), err


def test_speak_writes_a_file_and_says_what_its_start_does(run: Run, omni: Any) -> None:
    code, out, err = run("speak", TEXT, "-o", "a.wav")
    assert (code, out) == (0, "a.wav\n"), err
    assert "vLLM-Omni starts" in err
    samples, rate = soundfile.read("a.wav")
    assert (rate, len(samples) > rate) == (30_000, True)


def test_quiet_says_nothing_of_the_start(run: Run) -> None:
    code, _, err = run("speak", TEXT, "-o", "a.wav", "-q")
    assert (code, "captures" in err) == (0, False)


def test_json_is_all_of_stdout(run: Run) -> None:
    code, out, err = run("speak", TEXT, "-o", "a.wav", "--json")
    assert code == 0, err
    assert json.loads(out)["path"] == "a.wav"


@pytest.mark.parametrize("command", ["speak", "stream"])
def test_a_pipe_gets_samples_alone(
    command: str, ready: None, omni: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cli.main([command, TEXT, "-o", "-", "--format", "raw"]) == 0
    out, err = capfdbinary.readouterr()
    assert b"a banner of the package" in err
    assert b"banner" not in out
    assert b"C code" not in out
    samples = np.frombuffer(out, "<i2")
    assert 0.2 < np.abs(samples / 32768).max() < 0.4  # as loud as what was made, and no louder
    assert len(samples) <= -(-len(TEXT) // 2) * 0.16 * 30_000


def test_clone_gives_the_recording(run: Run, omni: Any) -> None:
    code, _, err = run("clone", TEXT, "--ref", str(EMMA), "-o", "a.wav")
    assert code == 0, err
    assert "reference_audio" in omni.made[-1].requests[-1].information
    code, _, err = run("clone", TEXT, "--ref", str(EMMA), "--ref-text", WORDS, "-o", "b.wav")
    assert code == 0, err
    assert omni.made[-1].requests[-1].information["prompt_text"] == [WORDS]


def test_a_voice_is_kept_as_its_recording(run: Run, omni: Any) -> None:
    num_made = len(omni.made)
    code, _, err = run("voices", "add", "emma", "--ref", str(EMMA))
    assert code == 0, err
    assert "kept as its recording" in err
    assert len(omni.made) == num_made, "nothing is started for it"
    code, _, err = run("speak", TEXT, "--voice", "emma", "-o", "a.wav")
    assert code == 0, err
    assert "reference_audio" in omni.made[-1].requests[-1].information


def test_a_batch_has_as_many_streams_as_slots(run: Run, omni: Any) -> None:
    rows = [f"Row {number} has words." for number in ("one", "two", "three", "four", "five")]
    Path("rows.txt").write_text("\n".join(rows), "utf-8")
    code, _, err = run("batch", "rows.txt", "-o", "out", "--slots", "3")
    assert code == 0, err
    assert len(list(Path("out").glob("*.wav"))) == 5
    assert omni.made[-1].deploy["stages"][0]["max_num_seqs"] == 3


def test_a_row_of_a_batch_fails_alone(run: Run) -> None:
    Path("rows.txt").write_text("A good row.\nOdd is this one.\nAnother good row.\n", "utf-8")
    code, _, err = run("batch", "rows.txt", "-o", "out", "--slots", "2")
    assert code == 1
    assert "vLLM-Omni failed: request error" in err
    assert len(list(Path("out").glob("*.wav"))) == 2


def test_bench_names_the_engine_and_its_version(run: Run) -> None:
    words = ("--engine", "vllm-omni", "--prompts", "p.txt", "--repeats", "1", "--json", "b.json")
    Path("p.txt").write_text(f"{TEXT}\nRain again.\n", "utf-8")
    code, out, err = run("bench", *words)
    assert code == 0, err
    who = json.loads(Path("b.json").read_text())["identity"]
    assert (who["engine"], who["device_name"]) == ("vllm-omni", "vLLM-Omni 0.26.0")
    assert "vLLM-Omni 0.26.0" in out + err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--device", "cpu"], "--device is cpu"),
        (["--precision", "fp8"], "--precision is fp8"),
        (["--eager"], "--eager"),
        (["--steps", "5"], "steps"),
        (["--guidance-scale", "3"], "guidance-scale"),
        (["--model", "mini"], "use --model openbmb/VoxCPM2"),
    ],
)
def test_what_it_cannot_be_told_is_refused_before_it_starts(
    words: list[str], shown: str, run: Run, omni: Any
) -> None:
    num_made = len(omni.made)
    code, out, err = run("speak", TEXT, "-o", "a.wav", *words)
    assert (code, out) == (2, "")
    assert shown in err
    assert len(omni.made) == num_made


@pytest.mark.parametrize(
    ("changes", "status", "shown"),
    [
        ({}, OK, "use it with --engine vllm-omni"),
        ({"has_card": False}, OK, "not for this machine"),
        ({"platform": "darwin"}, OK, "not for this machine"),
        ({"versions": {"torch": "2.13.0"}}, OK, "'vllm-omni==0.30.*'"),
        ({"versions": {"torch": "2.14.0"}}, OK, "'torch==2.11.*'"),
        ({"has_ninja": False}, WARN, "ninja is missing"),
        ({"versions": {**machine().versions, "vllm": "0.30.0"}}, WARN, "are not compatible"),
    ],
)
def test_doctor_says_what_fits_and_alarms_nobody_without_a_fault(
    changes: dict[str, Any], status: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from voxcli.cli.doctor import _vllm_omni

    monkeypatch.setattr(Machine, "this", classmethod(lambda cls: replace(machine(), **changes)))
    check = _vllm_omni()
    assert check.status == status
    assert shown in f"{check.detail}; {check.advice}"
