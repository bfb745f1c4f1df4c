"""`voxcli speak` with the bundled voice: the contract of the command, and inputs people bring."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from needs import PATIENCE_S
from shell import VOXCLI

from voxcli import cli
from voxcli.engine.native.engine import NativeEngine

pytestmark = pytest.mark.usefixtures("empty_folder")

SENTENCE = "The ferry leaves at noon."
WORDS = ("river stone garden window paper candle mountain yellow market silver " * 70).split()

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["speak", *words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def process(*words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [VOXCLI, "speak", *words], capture_output=True, timeout=PATIENCE_S, **options
    )  # type: ignore[call-overload, no-any-return]


def digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# The result


def test_speech_is_written_and_the_path_is_all_there_is_on_stdout(run: Run) -> None:
    code, out, err = run(SENTENCE, "-o", "ferry.wav", "--seed", "7")
    samples, rate = soundfile.read("ferry.wav")
    assert (code, out, rate) == (0, "ferry.wav\n", 24000)
    assert 1.0 < len(samples) / rate < 4.0
    assert np.sqrt(np.mean(samples**2)) > 10 ** (-50 / 20)
    assert "real time" in err
    assert "seed 7" in err
    assert os.listdir() == ["ferry.wav"]


def test_json_has_every_number_of_the_run(run: Run) -> None:
    code, out, _ = run(SENTENCE, "-o", "a.wav", "--seed", "7", "--json", "--quiet")
    report = json.loads(out)
    samples, rate = soundfile.read("a.wav")
    assert code == 0
    assert report["audio_s"] == round(len(samples) / rate, 6)
    # The report is in whole microseconds, and in millionths of them a second of audio.
    assert report["rtf"] == pytest.approx(report["wall_s"] / report["audio_s"], abs=2e-6)
    assert (report["finish_reason"], report["seed"], report["device"]) == ("stop", 7, "cpu")
    assert report["parameters"] == {"steps": 6, "guidance_scale": 1.0}
    assert report["attempts"] == 1
    assert 0 < report["ttfa_s"] <= report["wall_s"]


def test_the_same_seed_gives_the_same_bytes_in_two_processes(run: Run) -> None:
    run(SENTENCE, "-o", "a.wav", "--seed", "3")
    assert process(SENTENCE, "-o", "b.wav", "--seed", "3").returncode == 0
    assert digest("a.wav") == digest("b.wav")


def test_an_unset_seed_is_reported_and_reproduces_the_file(run: Run) -> None:
    seed = json.loads(run(SENTENCE, "-o", "a.wav", "--json")[1])["seed"]
    run(SENTENCE, "-o", "b.wav", "--seed", str(seed))
    assert digest("a.wav") == digest("b.wav")


def test_without_a_name_a_free_one_is_made_from_the_text(run: Run) -> None:
    names = [run(SENTENCE, "--seed", "1")[1].strip() for _ in range(2)]
    assert len(set(names)) == 2
    assert all(name.startswith("the-ferry-leaves") for name in names)
    assert sorted(os.listdir()) == sorted(names)


def test_text_comes_from_a_file_or_from_stdin_alike(run: Run) -> None:
    Path("t.txt").write_bytes(b"\xef\xbb\xbf" + SENTENCE.encode() + b"\r\n")
    run("--file", "t.txt", "-o", "a.wav", "--seed", "2")
    done = process("-", "-o", "b.wav", "--seed", "2", input=SENTENCE.encode())
    assert done.returncode == 0
    assert digest("a.wav") == digest("b.wav")


# Texts


@pytest.mark.parametrize("text", ["", "   ", "\n \n\t"])
def test_empty_text_is_refused_before_a_model_loads(run: Run, text: str) -> None:
    code, out, err = run(text, "-o", "a.wav")
    assert (code, out) == (2, "")
    assert "the text is empty" in err
    assert not os.listdir()


def test_empty_stdin_is_refused() -> None:
    done = process("-", "-o", "a.wav", input=b"")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the text is empty" in done.stderr


@pytest.mark.parametrize("text", ["A", "No.", "7", "1次"])
def test_very_short_texts_stay_short_and_audible(run: Run, text: str) -> None:
    code, out, _ = run(text, "-o", "a.wav", "--seed", "1", "--json")
    assert code == 0
    samples, rate = soundfile.read("a.wav")
    assert 0.15 <= len(samples) / rate <= 3.0
    assert np.sqrt(np.mean(samples**2)) > 10 ** (-50 / 20)
    assert json.loads(out)["finish_reason"] == "stop"


def test_a_text_longer_than_max_seconds_is_cut_and_the_exit_code_says_so(run: Run) -> None:
    text = " ".join([SENTENCE, "Nobody was there to see it go.", "We shall meet again."] * 2)
    code, out, err = run(text, "-o", "a.wav", "--json", "--seed", "1", "--max-seconds", "6")
    report = json.loads(out)
    assert (code, report["finish_reason"]) == (1, "length")
    assert 5.9 < report["audio_s"] <= 6 == round(soundfile.info("a.wav").duration, 2)
    assert "cut at 6 s, the longest that was asked for" in err
    piped = process(text, "-o", "-", "--seed", "1", "--max-seconds", "6", "--format", "raw")
    assert (piped.returncode, len(piped.stdout)) == (1, 2 * 6 * 24000)
    code, out, _ = run(text, "-o", "b.wav", "--json", "--seed", "1", "--max-seconds", "60")
    assert (code, json.loads(out)["finish_reason"]) == (0, "stop")


def test_what_the_voice_cannot_say_is_reported(run: Run) -> None:
    """A character is left out with a warning, a whole text is refused."""
    assert "cannot say '次'" in run("1次", "--dry-run")[2]
    code, _, err = run("嗯", "-o", "a.wav")
    assert code == 2
    assert "openbmb/VoxCPM2" in err


def test_numbers_and_abbreviations_are_never_split(run: Run) -> None:
    text = (
        "The bill is $1,299.50, due 03/04/2026 at 5:30 p.m.; call 555-0142. "
        "Dr. J. R. Lee weighed 3.5 kg of e.g. 1/2 in. screws."
    )
    for option in ((), ("--raw-text",)):
        plan = json.loads(run(text, "--dry-run", "--json", *option)[1])
        joined = " ".join(segment["text"] for segment in plan["segments"])
        assert joined == plan["text"]
        for ending in ("Dr.", "J.", "J. R.", "e.g.", "1,299.", "3.", "Doctor", "point"):
            assert not any(s["text"].endswith(ending) for s in plan["segments"][:-1])
    assert run(text, "-o", "a.wav", "--seed", "1")[0] == 0


def test_long_text_without_punctuation_loses_no_word(run: Run) -> None:
    plan = json.loads(run(" ".join(WORDS), "--dry-run", "--json")[1])
    assert " ".join(s["text"] for s in plan["segments"]).split() == WORDS


def test_duration_grows_with_the_number_of_words(run: Run) -> None:
    seconds = []
    for count in (39, 210):  # one to 5.4
        text = " ".join(WORDS[:count])
        code, out, _ = run(text, "-o", f"{count}.wav", "--seed", "1", "--steps", "4", "--json")
        report = json.loads(out)
        assert code == 0
        assert len(report["segments"]) >= 2
        assert " ".join(s["text"] for s in report["segments"]).split() == WORDS[:count]
        seconds.append(report["audio_s"])
    assert 4.3 <= seconds[1] / seconds[0] <= 6.5


def test_parentheses_of_the_user_are_spoken(run: Run) -> None:
    """They are not taken as a style, and the rewrite is shown."""
    plan = json.loads(run("(note) Prices rose again.", "--dry-run", "--json")[1])
    assert not plan["text"].startswith("(")
    assert "note" in plan["text"]
    assert any(change["kind"] == "bracket" for change in plan["changes"])


@pytest.mark.long
def test_twelve_clauses_that_start_alike_are_all_spoken(run: Run) -> None:
    nouns = ["bread", "fire", "rain", "salt", "iron", "wool", "glass", "corn", "smoke", "stone"]
    nouns += ["milk", "bells"]
    clauses = [f"it was the hour of {noun}" for noun in nouns]
    separate = sum(
        json.loads(run(clause, "--seed", "1", "--json")[1])["audio_s"] for clause in clauses
    )
    report = json.loads(run(", ".join(clauses) + ".", "--seed", "1", "--json")[1])
    spoken = " ".join(segment["text"] for segment in report["segments"])
    assert all(noun in spoken for noun in nouns)
    assert abs(report["audio_s"] - separate) <= 0.25 * separate


def test_a_language_the_voice_does_not_speak_names_a_model_that_does(run: Run) -> None:
    code, _, err = run("Guten Morgen, wie geht es dir heute?", "-o", "a.wav")
    assert code == 2
    assert "German" in err
    assert "openbmb/VoxCPM2" in err


def test_a_style_the_model_cannot_follow_names_a_model_that_can(run: Run) -> None:
    code, out, err = run("Hello.", "--style", "warm", "-o", "a.wav")
    assert (code, out) == (2, "")
    assert "'mini' has no style mode; models with it: openbmb/VoxCPM2" in err


# Files and pipes


@pytest.mark.parametrize(("container", "reader"), [("wav", "head -c 1000"), ("raw", "true")])
def test_a_reader_that_goes_away_is_no_error(container: str, reader: str) -> None:
    text = "This is a longer text that takes a while to speak. " * 6
    command = f"{VOXCLI} speak '{text}' -o - --format {container}"
    done = subprocess.run(
        ["bash", "-c", f"{command} | {reader} > /dev/null; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode in (0, 141)
    assert b"Traceback" not in done.stderr
    assert b"error" not in done.stderr
    assert not os.listdir()


def test_a_pipe_gets_the_samples_of_the_file(run: Run) -> None:
    """Live and held speech are the same; raw is whole 16-bit samples."""
    run(SENTENCE, "-o", "a.wav", "--seed", "4")
    done = process(SENTENCE, "-o", "-", "--format", "raw", "--seed", "4")
    assert np.array_equal(
        np.frombuffer(done.stdout, "<i2"), soundfile.read("a.wav", dtype="int16")[0]
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [("folder", 5), ("missing/a.wav", 5), ("/proc/a.wav", 5), ("a.xyz", 2), ("kept.wav", 2)],
)
def test_an_output_that_cannot_be_written_is_refused_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.setattr(NativeEngine, "start", lambda *_: pytest.fail("a model was loaded"))
    Path("folder").mkdir()
    Path("kept.wav").write_bytes(b"kept")
    before = sorted(os.listdir())
    found, out, err = run(SENTENCE, "-o", name)
    assert (found, out) == (code, "")
    assert err.startswith("voxcli: error: ")
    assert sorted(os.listdir()) == before
    assert Path("kept.wav").read_bytes() == b"kept"


def test_overwriting_is_asked_for(run: Run) -> None:
    Path("a.wav").write_bytes(b"old")
    assert run(SENTENCE, "-o", "a.wav", "--overwrite")[0] == 0
    assert soundfile.info("a.wav").frames > 0


@pytest.mark.parametrize(
    ("bits", "subtype"), [("8", "PCM_U8"), ("16", "PCM_16"), ("24", "PCM_24"), ("32f", "FLOAT")]
)
def test_rate_and_depth_are_as_asked_and_the_duration_stays(
    run: Run, bits: str, subtype: str
) -> None:
    plain = json.loads(run(SENTENCE, "-o", "p.wav", "--seed", "1", "--json")[1])
    run(SENTENCE, "-o", "a.wav", "--seed", "1", "--bits", bits, "--rate", "16000")
    info = soundfile.info("a.wav")
    assert (info.samplerate, info.subtype) == (16000, subtype)
    assert abs(info.frames / 16000 - plain["audio_s"]) < 0.001
    assert np.abs(soundfile.read("a.wav")[0]).max() <= 1.0
    assert plain["sample_rate"] == plain["model_sample_rate"] == 24000


def test_an_interrupt_leaves_no_file_and_ends_with_130() -> None:
    text = "This is a longer text that takes a while to speak. " * 200
    command = [VOXCLI, "-v", "speak", text, "-o", "a.wav"]
    environ = os.environ | {"VOXCLI_DEBUG": "1"}  # each step is told
    child = subprocess.Popen(command, stderr=subprocess.PIPE, env=environ)
    assert child.stderr is not None
    assert next(line for line in child.stderr if b": step 20:" in line)  # it speaks
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert b"Traceback" not in err
    assert not os.listdir()


def test_audio_and_json_do_not_share_stdout(run: Run) -> None:
    assert run(SENTENCE, "-o", "-", "--json")[0] == 2


# Model and device


def broken_models(folder: Path) -> dict[str, Path]:
    """Model folders with one fault each."""
    mini = Path(cli.__file__).parents[1] / "assets" / "mini"
    made = {}
    for fault in ("no config", "cut weights", "other architecture", "pointer"):
        target = folder / fault.replace(" ", "-")
        target.mkdir()
        for file in mini.glob("*.json"):
            (target / file.name).write_bytes(file.read_bytes())
        for file in mini.glob("*.safetensors"):
            os.link(file, target / file.name)
        made[fault] = target
    (made["no config"] / "config.json").unlink()
    weights = made["cut weights"] / "model.safetensors"
    data = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(data[: len(data) * 9 // 10])
    config = made["other architecture"] / "config.json"
    config.write_text(config.read_text().replace('"voxcpm2"', '"llama"'))
    pointer = made["pointer"] / "model.safetensors"
    pointer.unlink()
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    return made


def test_a_broken_model_is_named_and_nothing_is_written(
    run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("models")
    named = {
        "no config": "config.json", "cut weights": "model.safetensors",
        "other architecture": "llama", "pointer": "model.safetensors",
    }  # fmt: skip
    for fault, path in broken_models(folder).items():
        code, out, err = run(SENTENCE, "-o", "a.wav", "--model", str(path))
        assert (code, out) == (3, ""), fault
        assert named[fault] in err, fault
    assert run(SENTENCE, "-o", "a.wav", "--model", str(folder / "missing"))[0] == 3
    assert not os.listdir()


@pytest.mark.parametrize(("device", "code"), [("cuda:9", 4), ("mps", 4), ("tpu", 2)])
def test_a_device_that_is_not_here_is_refused_with_what_is(
    run: Run, device: str, code: int
) -> None:
    found, _, err = run(SENTENCE, "-o", "a.wav", "--device", device)
    assert found == code
    assert device.split(":")[0] in err
    assert not os.listdir()


def test_auto_takes_the_cpu_without_an_alarm_where_the_model_is_made_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, err = run(SENTENCE, "-o", "a.wav", "--device", "auto", "--json")
    assert (code, json.loads(out)["device"]) == (0, "cpu")
    assert "warning" not in err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--seed", "-1"), "--seed"), (("--steps", "1"), "--steps"),
        (("--guidance-scale", "11"), "--guidance-scale"), (("--cfg", "11"), "--guidance-scale"),
        (("--speed", "5"), "--speed"), (("--max-seconds", "0"), "--max-seconds"),
        (("--max-seconds", "0.1"), "--max-seconds"), (("--voice", "albba"), "albba"),
        (("--bits", "12"), "12"), (("--rate", "17"), "17"), (("--threads", "-1"), "--threads"),
        (("--retries", "-1"), "--retries"), (("--file", "missing.txt"), "--file"),
        (("--format", "mp3"), "--format"), (("--language", "fr"), "fr"),
        (("--language", ""), "--language"), (("--encoding", "latin-1"), "--encoding"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_work_is_named(
    run: Run, options: tuple[str, ...], named: str
) -> None:
    code, out, err = run(SENTENCE, "-o", "a.wav", *options)
    assert (code, out) == (2, "")
    assert named in err
    assert not os.listdir()
