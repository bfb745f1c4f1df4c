"""`voxcli stream` with the bundled voice on a sound card that can be recorded, and without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from needs import PATIENCE_S
from nullsink import RATE, NullSink, Recording, require_sound, sounding
from shell import VOXCLI

from voxcli import cli
from voxcli.audio import sound
from voxcli.audio.resample import resample
from voxcli.audio.sound import SoundDevice, choose_device
from voxcli.cli import output
from voxcli.errors import DeviceError

pytestmark = pytest.mark.usefixtures("empty_folder")

SENTENCE = "The ferry leaves at noon."
TEXT = "The ferry leaves at noon. It comes back in the evening. Bring a warm coat and some bread."
NO_SOUND = {**os.environ, "PULSE_SERVER": "unix:/nonexistent/socket"}

Run = Callable[..., tuple[int, str, str]]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["stream", *words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `voxcli stream`; what a failed test leaves running is ended."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **options: object) -> subprocess.Popen[bytes]:
        command = [VOXCLI, "stream", *words]
        children.append(
            subprocess.Popen(  # type: ignore[call-overload]
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
            )
        )
        return children[-1]

    yield start
    for child in children:
        child.kill()
        with child:  # closes its pipes
            pass


def process(*words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [VOXCLI, "stream", *words], capture_output=True, timeout=PATIENCE_S, **options
    )


def assert_same_sound(heard: np.ndarray, path: str) -> None:
    """Every sample that was heard is the file's, in place: no gap, no repeat, no click."""
    samples, rate = soundfile.read(path, dtype="float32")
    expected = sounding(resample(samples, rate, RATE))
    assert abs(len(heard) - len(expected)) <= 0.02 * RATE
    width = min(len(heard), len(expected), RATE)
    scores = np.correlate(np.pad(heard[:width], 1000), expected[:width], "valid")
    lag = int(np.argmax(scores)) - 1000
    heard, expected = heard[max(lag, 0) :], expected[max(-lag, 0) :]
    length = min(len(heard), len(expected))
    assert np.abs(heard[:length] - expected[:length]).max() < 0.01


# On the sound card


def test_what_is_heard_is_what_is_saved(sink: NullSink) -> None:
    """The whole way: engine, resampler, ring, PortAudio, a sound server, its monitor."""
    with Recording(sink) as recording:
        done = process(TEXT, "--save", "a.wav", "--json", "--seed", "3", env=sink.env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    if report["underruns"] == 0:  # a busy test machine may have them, and then says so
        assert_same_sound(recording.samples, "a.wav")
    info = soundfile.info("a.wav")
    assert report["audio_s"] == pytest.approx(info.frames / info.samplerate)
    assert report["played_s"] == pytest.approx(report["audio_s"], abs=0.001)
    assert 0 < report["ttfa_s"] <= report["first_sound_s"]
    assert (report["sound_rate"], report["seed"], report["path"]) == (RATE, 3, "a.wav")
    assert report["underrun_s"] >= 0
    assert "playing began" in report["prebuffer_reason"]
    assert b"ALSA" not in done.stderr


def test_a_line_is_heard_before_the_next_one_is_written(sink: NullSink, start: Start) -> None:
    words = ("-", "--save", "a.wav", "--sound-device", "PULSE", "--json", "--seed", "1")
    with Recording(sink) as recording:
        child = start(*words, env=sink.env, stdin=subprocess.PIPE)
        assert child.stdin is not None
        child.stdin.write(b"One line is here.\n")
        child.stdin.flush()
        recording.wait_for_sound(PATIENCE_S)
        child.stdin.write("嗯\n\nAnd another line.\n".encode())
        out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 1
    assert b"line 2" in err
    report = json.loads(out)
    assert [failed["line"] for failed in report["failed"]] == [2]
    assert [segment["text"] for segment in report["segments"]] == [
        "One line is here.", "And another line.",
    ]  # fmt: skip
    assert report["played_s"] == pytest.approx(report["audio_s"], abs=0.001)
    assert soundfile.info("a.wav").duration == pytest.approx(report["audio_s"], abs=0.001)


def test_ctrl_c_stops_the_sound_and_keeps_what_was_heard(sink: NullSink, start: Start) -> None:
    """Within 200 ms; other programs may take the processor for longer, but hardly five times."""
    delays = []
    while not delays or (delays[-1] >= 0.2 and len(delays) < 5):
        with Recording(sink) as recording:
            child = start(f"{TEXT} " * 8, "--save", "a.wav", "--overwrite", env=sink.env)
            recording.wait_for_sound(PATIENCE_S)
            time.sleep(1)
            asked_at = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=PATIENCE_S)
        delays.append(recording.ended_at - asked_at)
        assert child.returncode == 130
        assert b"Traceback" not in err
        duration = soundfile.info("a.wav").duration
        heard_s = len(recording.samples) / RATE
        assert abs(heard_s - duration) < 1.0  # pauses at its ends and a busy machine's underruns
        assert os.listdir() == ["a.wav"]
    assert delays[-1] < 0.2


def test_a_sound_card_that_goes_away_leaves_the_file_whole(
    tmp_path_factory: pytest.TempPathFactory, start: Start
) -> None:
    require_sound()
    with NullSink(tmp_path_factory.mktemp("sound")) as own, Recording(own) as recording:
        child = start(TEXT, "--save", "a.wav", "--json", "--seed", "3", env=own.env)
        recording.wait_for_sound(PATIENCE_S)
        own.kill()
        out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 4
    assert b"has gone" in err
    assert b"Expression" not in err  # PortAudio's own lines
    assert json.loads(out)["error"]["exit_code"] == 4
    assert soundfile.info("a.wav").duration > 4


def test_devices_are_listed_for_people_and_programs(sink: NullSink) -> None:
    table = process("--list-devices", env=sink.env).stdout.decode()
    assert "pulse" in table
    listed = json.loads(process("--list-devices", "--json", env=sink.env).stdout)["devices"]
    assert {"index", "name", "api", "channels", "sample_rate", "is_default"} <= set(listed[0])


# Without one


def test_an_unknown_device_is_refused_before_a_model_loads() -> None:
    require_sound()
    code = (
        "import sys; from voxcli.cli import main; code = main(); assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", f"{code}; sys.exit(code)", "stream", SENTENCE]
    done = subprocess.run(
        [*command, "--sound-device", "no such"], capture_output=True, env=NO_SOUND
    )
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"--list-devices" in done.stderr
    assert os.listdir() == []


def test_without_a_sound_card_the_file_is_made_and_the_code_says_so() -> None:
    require_sound()
    done = process(SENTENCE, "--save", "a.wav", env=NO_SOUND)
    assert done.returncode == 4
    assert b"all of it is in a.wav" in done.stderr
    assert soundfile.info("a.wav").duration > 1


def test_what_to_install_is_said(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    code, out, err = run(SENTENCE)
    assert (code, out) == (4, "")
    assert "pip install 'voxcli[play]'" in err
    monkeypatch.delitem(sys.modules, "sounddevice")
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = run(SENTENCE)
    assert code == 4
    assert "libportaudio2" in err


@pytest.mark.parametrize("container", ["wav", "raw"])
def test_a_reader_that_goes_away_is_no_error(container: str, start: Start) -> None:
    child = start(f"{TEXT} " * 6, "-o", "-", "--format", container)
    assert child.stdout is not None
    assert child.stderr is not None
    assert len(child.stdout.read(1000)) == 1000
    child.stdout.close()
    assert child.wait(timeout=PATIENCE_S) == 141
    err = child.stderr.read()
    assert b"Traceback" not in err
    assert b"error" not in err
    assert os.listdir() == []


def test_a_pipe_and_its_file_get_the_samples_of_speak() -> None:
    cli.main(["speak", SENTENCE, "-o", "speak.wav", "--seed", "4", "--quiet"])
    words = ("-o", "-", "--format", "raw", "--save", "saved.wav", "--seed", "4")
    done = process(SENTENCE, *words)
    assert done.returncode == 0, done.stderr
    spoken = soundfile.read("speak.wav", dtype="int16")[0]
    assert np.array_equal(np.frombuffer(done.stdout, "<i2"), spoken)
    assert np.array_equal(soundfile.read("saved.wav", dtype="int16")[0], spoken)


def test_a_sentence_is_heard_before_its_writer_goes_on(start: Start) -> None:
    words = ("-", "-o", "-", "--format", "raw", "--seed", "4", "--quiet")
    child = start(*words, stdin=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{SENTENCE} It comes".encode())
    child.stdin.flush()
    first = child.stdout.read(1000)
    assert len(first) == 1000  # the writer waits for it
    child.stdin.write(b" back.\n")
    child.stdin.close()
    rest = child.stdout.read()
    assert child.wait(timeout=PATIENCE_S) == 0
    cli.main(["speak", SENTENCE, "-o", "speak.wav", "--seed", "4", "--quiet"])
    spoken = soundfile.read("speak.wav", dtype="int16")[0]
    heard = np.frombuffer(first + rest, "<i2")
    num_equal = int(np.flatnonzero(np.abs(spoken) > 300)[-1])
    assert np.array_equal(heard[:num_equal], spoken[:num_equal])
    assert len(heard) > len(spoken) + 4000


@pytest.mark.parametrize("text", [b"", b"\n \n\n"])
def test_lines_without_a_word_are_refused_at_once(text: bytes) -> None:
    done = process("-", input=text)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the text is empty" in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("-o", "a.wav"), "--save a.wav"), (("--format", "raw"), "-o -"),
        (("--format", "mp3"), "--format"), (("--bits", "24"), "--bits"),
        (("--buffer-ms", "-1"), "--buffer-ms"), (("--rate", "17"), "17"),
        (("-o", "-", "--sound-device", "0"), "--sound-device"), (("-o", "-", "--json"), "--json"),
        (("--save", "a.xyz"), "xyz"), (("--seed", "-1"), "--seed"),
    ],
)  # fmt: skip
def test_options_that_cannot_work_are_named(run: Run, words: tuple[str, ...], named: str) -> None:
    code, out, err = run(SENTENCE, *words)
    assert code == 2
    assert not out or "--json" in words
    assert named in err
    assert os.listdir() == []


# Device names


def device(index: int, name: str, *, is_default: bool = False) -> SoundDevice:
    return SoundDevice(index, name, "ALSA", 2, 48_000, is_default)


DEVICES = [
    device(0, "USB Audio (hw:1,0)"), device(3, "Haut-parleurs «été»"), device(4, "2"),
    device(5, "default", is_default=True), device(6, "スピーカー\n2"), device(7, "USB Audio Pro"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        (None, 5), ("3", 3), ("2", 4), ("usb audio pro", 7), ("hw:1,0", 0), ("ÉTÉ", 3),
        ("スピーカー", 6), ("  default ", 5),
    ],
)  # fmt: skip
def test_a_device_is_found_by_number_name_or_part(asked: str | None, index: int) -> None:
    assert choose_device(DEVICES, asked).index == index


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("usb", "2 sound devices match 'usb'"),
        ("", "no sound device ''"),
        ("audio", "give the number"),
    ],
)
def test_a_device_that_is_not_clear_is_refused(asked: str, said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        choose_device(DEVICES, asked)
    with pytest.raises(DeviceError, match="there is no sound device"):
        choose_device([], asked)


def test_a_name_is_shown_on_one_line() -> None:
    assert DEVICES[4].printable_name == "スピーカー?2"


def test_a_sound_system_that_never_answers_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It hangs where sounddevice has hidden stderr; the message is seen all the same."""
    answers = threading.Event()

    def start() -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        answers.wait(PATIENCE_S)

    monkeypatch.setattr(sound, "ANSWER_S", 0.05)
    with pytest.raises(DeviceError, match="has not answered"):
        sound.in_time(start)
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"
    answers.set()


def test_a_sound_device_given_as_the_models_is_explained(run: Run) -> None:
    code, _, err = run(SENTENCE, "--device", "Speaker")
    assert code == 2
    assert "a sound device is chosen with --sound-device" in err


def test_the_live_line_is_for_terminals_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = output.LiveLine()
    line.show("hidden")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(output, "can_show_progress", lambda *, is_quiet: not is_quiet)
    line = output.LiveLine()
    line.show("1.0 s heard")
    monkeypatch.setattr(output, "LIVE_INTERVAL_S", PATIENCE_S)
    line.show("too soon")
    line.clear()
    assert capsys.readouterr().err == "\r1.0 s heard\r\r           \r"
    output.LiveLine(is_quiet=True).show("hidden")
    assert capsys.readouterr().err == ""
