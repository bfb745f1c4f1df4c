"""Commands that speak through a running server, and do without one that is not there any more."""

from __future__ import annotations

import gc
import http.client
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import fake_engine
from running import WAIT_S, Running, hold, run_server, until

from voxcli import cli
from voxcli.audio.pcm import quantise
from voxcli.cli import serve
from voxcli.config import DEFAULT_MODEL, EngineConfig, SamplingParams
from voxcli.engine.base import Wanted
from voxcli.engine.choose import open_engine
from voxcli.engine.remote import client, find, wire
from voxcli.engine.remote.client import RemoteEngine
from voxcli.engine.remote.find import connect_here, connect_to, health_at
from voxcli.engine.remote.place import HeldError, Hold, Place
from voxcli.errors import (
    EngineError,
    OutputError,
    TextError,
    UnavailableError,
    UsageError,
    VoxError,
)
from voxcli.server import launch
from voxcli.server.door import Door
from voxcli.server.limits import Listening
from voxcli.server.run import Ending
from voxcli.utterance import Recording, Use, Utterance

TEXT = "The ferry leaves at noon. Bring a warm jacket, and mind the step."
WANTED = Wanted("mini", device="cpu")


def utterance(seed: int = 7, text: str = TEXT) -> Utterance:
    return Utterance(text, sampling=SamplingParams(seed=seed))


def own(seed: int = 7) -> np.ndarray:
    return fake_engine().synthesize([utterance(seed)])[0].samples


@pytest.fixture
def hot(place: Place) -> Iterator[Running]:
    """A server on the socket where commands look; it passes a fake model off as the bundled one."""
    with run_server(place=place) as running:
        yield running


@pytest.fixture
def remote(hot: Running) -> RemoteEngine:
    found, why_not = connect_here(WANTED)
    assert found is not None, why_not
    return found


# ------------------------------------------------------------------------ the same calls


def test_a_stream_through_the_server_has_the_same_bytes(remote: RemoteEngine) -> None:
    for is_live in (True, False):
        with remote.stream(remote.plan(utterance()), is_live=is_live) as stream:
            chunks = list(stream)
        samples = np.concatenate([chunk.samples for chunk in chunks])
        assert samples.tobytes() == own().tobytes()
        assert chunks[-1].is_last
        speech = stream.speech
        assert speech.num_samples == len(samples)
        assert [report.text for report in speech.reports] == [
            segment.text for segment in speech.plan.text.segments
        ]
        assert speech.ttfa_s is not None
        assert 0 < speech.ttfa_s <= speech.wall_s


def test_max_seconds_cuts_through_the_server_as_without_it(remote: RemoteEngine) -> None:
    limited = Utterance(TEXT, sampling=SamplingParams(seed=7, max_seconds=3.0))
    result, expected = remote.synthesize([limited])[0], fake_engine().synthesize([limited])[0]
    assert np.array_equal(result.samples, expected.samples)
    assert result.finish_reason == expected.finish_reason == "length"
    assert result.audio_s == 3.0


def test_a_pipe_gets_the_same_samples_as_integers(remote: RemoteEngine) -> None:
    plan = remote.plan(utterance())
    remote.begin(plan, takes_integers=True)
    with remote.stream(plan) as stream:
        data = b"".join(chunk.samples.data for chunk in stream)
    assert data == quantise(own(), "16")
    assert stream.speech.num_samples == len(own())


def test_a_stream_that_was_begun_is_taken_up_once(hot: Running, remote: RemoteEngine) -> None:
    plan = remote.plan(utterance())
    remote.begin(plan)
    with remote.stream(plan) as stream, remote.stream(plan) as second:
        assert b"".join(chunk.samples.tobytes() for chunk in stream) == own().tobytes()
        assert b"".join(chunk.samples.tobytes() for chunk in second) == own().tobytes()
    hold(hot)
    remote.begin(plan)
    until(lambda: hot.worker.num_running == 1)
    remote.close()  # nobody took it up
    hot.model.gate.set()
    until(lambda: hot.worker.num_running == 0)


def test_a_session_speaks_side_by_side(remote: RemoteEngine) -> None:
    results = remote.synthesize([utterance(seed) for seed in range(12)])  # more than its queue has
    for seed, result in enumerate(results):
        assert result.samples.tobytes() == own(seed).tobytes()
        assert result.seed == seed


def test_a_speech_of_a_session_fails_alone(remote: RemoteEngine) -> None:
    plan = remote.plan(utterance())
    silent = replace(plan, utterance=replace(plan.utterance, text=" "))
    with remote.session() as session:
        whole, refused = session.add(plan), session.add(silent)
        left = session.add(plan, is_live=False)
        session.leave(left)
        events = []
        while not session.is_idle:
            events += session.step()
        errors = [(speech, event) for speech, event in events if isinstance(event, VoxError)]
        assert [(speech, type(error)) for speech, error in errors] == [(refused, TextError)]
        assert whole.is_done
        assert left not in {speech for speech, _ in events}


def test_plans_and_refusals_are_those_of_an_engine_of_ones_own(remote: RemoteEngine) -> None:
    here, there = fake_engine().plan(utterance()), remote.plan(utterance())
    assert there.text == here.text
    assert there == here
    with pytest.raises(TextError) as mine:
        fake_engine().plan(utterance(text="你好，今天天气很好。"))
    with pytest.raises(TextError) as theirs:
        remote.plan(utterance(text="你好，今天天气很好。"))
    assert vars(theirs.value) == vars(mine.value)


def test_facts_are_those_of_the_engine_that_serves(hot: Running, remote: RemoteEngine) -> None:
    served, told = hot.worker.engine.facts, remote.facts
    assert (told.engine, told.name) == ("voxcli serve", f"pid {os.getpid()}, {hot.url}")
    assert told.is_elsewhere
    here = {"engine": served.engine, "name": "", "max_streams": 4, "stages": served.stages}
    assert replace(told, **here) == served  # type: ignore[arg-type]
    assert remote.setup == hot.worker.engine.setup
    assert remote.encoder_checksum() == hot.worker.engine.encoder_checksum()
    assert remote.model_checksum() == hot.worker.engine.model_checksum() != ""


def test_a_recording_is_encoded_by_the_server(hot: Running, remote: RemoteEngine) -> None:
    recording = Recording(np.ones(16_000, np.float32), 16_000, "One.")
    there = remote.encode(recording, tuple(Use))
    here = hot.worker.engine.encode(recording, tuple(Use))
    assert (there.model, there.encoder) == (here.model, here.encoder)
    assert there.arrays.keys() == here.arrays.keys() == {"reference", "prompt"}
    for name, array in here.arrays.items():
        assert there.arrays[name].tobytes() == array.tobytes()
        assert there.arrays[name].shape == array.shape
    voiced = utterance()
    heard = replace(recording, encoding=there)
    voiced = replace(voiced, reference=heard, prompt=heard)
    result = remote.synthesize([voiced])[0]
    assert result.samples.tobytes() == fake_engine().synthesize([voiced])[0].samples.tobytes()


def test_an_encoding_of_another_model_is_refused(remote: RemoteEngine) -> None:
    recording = Recording(np.ones(16_000, np.float32), 16_000)
    odd = remote.encode(recording, [Use.REFERENCE])
    odd = replace(odd, arrays={"reference": np.ones((3, 7, 9), np.float32)})
    other = replace(utterance(), reference=replace(recording, encoding=odd))
    with pytest.raises(UsageError, match="encoded for another model"):
        remote.synthesize([other])


# ------------------------------------------------------------------------ whether it fits


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (replace(WANTED, precision="bf16"), "computes in fp32"),
        (replace(WANTED, eager=True), "--eager"),
        (replace(WANTED, device="cuda:7"), "device 'cuda:7' is not available"),
        (replace(WANTED, model="openbmb/VoxCPM2"), "another model"),
    ],
)
def test_a_server_that_does_not_fit_is_not_used(hot: Running, wanted: Wanted, why: str) -> None:
    found, why_not = connect_here(wanted)
    assert found is None
    assert why_not is not None
    assert why in why_not


def test_a_url_has_to_answer_and_to_fit(hot: Running) -> None:
    for model in ("fake", None):  # None is whichever it has
        found = connect_to(hot.url, replace(WANTED, model=model))
        assert found.synthesize([utterance()])[0].samples.tobytes() == own().tobytes()
    with pytest.raises(UsageError, match="serves model 'fake', not 'mini'"):
        connect_to(hot.url, WANTED)
    with pytest.raises(EngineError, match="no voxcli server answers"):
        connect_to("http://127.0.0.1:1", WANTED)


@pytest.mark.parametrize("is_several", [False, True])
def test_a_server_elsewhere_speaks_with_its_model_unless_one_is_named(
    hot: Running, is_several: bool
) -> None:
    config, rows = EngineConfig(DEFAULT_MODEL), 2 if is_several else None
    with open_engine(hot.url, config, rows_a_server=rows) as engine:
        engine.start([])
        assert engine.synthesize([utterance()])[0].samples.tobytes() == own().tobytes()
    with pytest.raises(UsageError, match="serves model 'fake', not 'mini'"):
        open_engine(hot.url, config, rows_a_server=rows, is_model_named=True)


OWN = "".join(f"{name}: {value}\r\n" for name, value in wire.HEADERS.items()).encode()
OTHERS = {
    "an own answer of nothing": b"HTTP/1.1 200 OK\r\n" + OWN + b"Content-Length: 0\r\n\r\n",
    "an own answer that is cut": b"HTTP/1.1 200 OK\r\n" + OWN + b"Content-Length: 9\r\n\r\n\x01",
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "other JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "half a match": b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"mismatch": null}',
    "rubbish": bytes(range(32, 250)) + b"\r\n",
    "nothing": b"",
    "brackets": b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"[" * 99_999,
}


@pytest.mark.parametrize("answer", OTHERS.values(), ids=OTHERS)
def test_another_program_at_the_url_is_told_from_a_server(answer: bytes) -> None:
    with another_program(answer) as url, pytest.raises(EngineError, match="no voxcli server"):
        connect_to(url, WANTED)


def test_an_answer_without_an_end_is_not_read() -> None:
    num_sent = 0

    def serve() -> None:
        nonlocal num_sent
        client, _ = listening.accept()
        with client, suppress(OSError), client.makefile("rb") as asked:
            asked.readline()
            asked.read(int(http.client.parse_headers(asked).get("Content-Length", "0")))
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while num_sent < 1 << 28:
                client.sendall(b" " * (1 << 20))
                num_sent += 1 << 20

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(EngineError, match="no voxcli server"):
            connect_to(url, WANTED)
        thread.join(WAIT_S)
    assert num_sent < 1 << 26


def test_what_a_stranger_says_is_short_and_without_signs_for_the_terminal() -> None:
    said = json.dumps({"error": {"message": "\x1b[31mno\n" + "x" * 5000}}).encode()
    head = f"HTTP/1.1 503 So\r\nContent-Length: {len(said)}\r\n\r\n".encode()
    with another_program(head + said) as url, pytest.raises(UnavailableError) as caught:
        connect_to(url, WANTED)
    assert "503: ?[31mno?xxx" in caught.value.message
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_an_answer_that_trickles_in_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    for module in (client, find):
        monkeypatch.setattr(module, "ANSWER_S", 0.2)
    begun = f"HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: 109\r\n\r\n".encode()
    trickle = b'{"pid": 1' + b" " * 99 + b"}"  # takes five seconds
    with (
        another_program(begun, trickle) as url,
        pytest.raises(EngineError, match=r"its answer does not end within 0.2 s"),
    ):
        connect_to(url, WANTED)
    with another_program(begun, trickle) as url:
        assert health_at(url, 0.2) == {}


@contextmanager
def another_program(answer: bytes, trickle: bytes = b"") -> Iterator[str]:
    """Something that listens, says this to its first client, and then goes on a byte at a time."""

    def serve() -> None:
        client, _ = listening.accept()
        with client, suppress(OSError), client.makefile("rb") as asked:
            asked.readline()
            length = http.client.parse_headers(asked).get("Content-Length", "0")
            asked.read(int(length))  # all of it: what is left unread would reset the connection
            client.sendall(answer)
            for byte in trickle:
                client.sendall(bytes([byte]))
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(WAIT_S)


@pytest.mark.parametrize("what", ["the socket", "the lock"])
def test_a_door_that_cannot_be_opened_leaves_nothing_open(
    place: Place, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def is_full(*_: object) -> None:
        raise OutputError("no space left on device")

    hold = place.hold()
    if what == "the lock":
        monkeypatch.setattr(Hold, "write", is_full)
    else:
        place.socket.touch()
    with warnings.catch_warnings(record=True, action="always", category=ResourceWarning) as left:
        with suppress(OutputError):
            Door.open(Listening(port=0), hold, model="fake").close()
            raise AssertionError("it could be opened")
        gc.collect()
    hold.release()
    assert not left


URLS = ("http://[::1", "http://127.0.0.1:99999", "http://", "ftp://x", "on", "off", "")


@pytest.mark.parametrize("spec", URLS)
def test_what_names_no_engine_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="use auto, native, vllm-omni or URLs"):
        open_engine(spec, EngineConfig("mini"))


ODD = {
    "nonsuch": "cannot be used (no such file or directory)",
    "file": "is not a folder",
    "x" * 80: "is too long for a socket",
    "run": "is another user's",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_runtime_folder_is_told_with_the_one_in_its_place(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for folder in ("run", "x" * 80, "tmp"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / name))
    if "another" in ODD[name]:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    told = f"{tmp_path}/tmp/voxcli-{os.getuid()}: XDG_RUNTIME_DIR is '{tmp_path / name}', which "
    told += ODD[name]
    assert cli.main(["serve", "--status"]) == 1
    assert capsys.readouterr().err == f"the server's files are in {told}\n"
    assert cli.main(["doctor"]) == 0
    assert told in capsys.readouterr().out


def test_a_relative_runtime_folder_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "tests")
    assert Place.default().why.endswith("'tests', which is not an absolute path")


def test_no_runtime_folder_is_told_of_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert Place.default() == Place(tmp_path / f"voxcli-{os.getuid()}")
    assert cli.main(["serve", "--status"]) == 1
    assert capsys.readouterr().err == ""


def test_a_folder_that_others_can_enter_is_not_trusted(
    hot: Running, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stat.S_IMODE(place.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    place.folder.chmod(0o755)
    assert connect_here(WANTED) == (None, None)
    for option in ("--status", "--stop"):
        assert cli.main(["serve", option]) == 5
        assert f"chmod 700 '{place.folder}'" in capsys.readouterr().err
    place.folder.chmod(0o700)


def test_a_stale_socket_is_passed_over_and_replaced(place: Place) -> None:
    place.create()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place.socket))
    assert connect_here(WANTED) == (None, None)
    assert place.holder() is None
    with run_server(place=place):
        assert connect_here(WANTED)[0] is not None


@pytest.mark.parametrize("name", ["engine.lock", "engine.sock", "serve.log"])
def test_a_file_of_the_place_that_cannot_be_used_is_named(
    place: Place, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.create()
    (place.folder / name).mkdir()
    assert cli.main(["serve", "--background", "--port", "0"]) == 5
    assert f"cannot use {place.folder / name}: " in capsys.readouterr().err


def test_a_second_server_is_told_who_holds_the_socket(hot: Running, place: Place) -> None:
    with pytest.raises(HeldError, match=rf"pid {os.getpid()}, model mini, {hot.url}"):
        place.hold()


def test_a_second_server_is_told_who_holds_the_port(
    hot: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    port = hot.url.rsplit(":", 1)[1]
    assert cli.main(["serve", "--no-socket", "--port", port, "--device", "cpu"]) == 2
    assert (
        f"taken by another voxcli server (pid {os.getpid()}, model fake)" in capsys.readouterr().err
    )


# ------------------------------------------------------------------------ commands


def test_speak_uses_the_server_and_says_so(
    hot: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.wav"
    words = ["speak", TEXT, "--device", "cpu", "--seed", "7", "-o", str(out)]
    assert cli.main([*words, "--json"]) == 0
    printed = capsys.readouterr()
    assert f"asking the running server (pid {os.getpid()}, {hot.url}) to speak" in printed.err
    report = json.loads(printed.out)
    assert (report["model"], report["seed"]) == ("fake", 7)
    assert report["segments"][0]["finish_reason"] == "stop"
    until(lambda: hot.metric("voxcli_requests_total", outcome="ok") == 1)
    for command in ("speak", "stream"):
        assert cli.main([command, " ", "--device", "cpu"]) == 2
        said = capsys.readouterr().err
        assert "the text is empty" in said
        assert "asking the" not in said


def test_clone_stream_and_batch_use_it_too(
    hot: Running, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    voices = Path(__file__).resolve().parents[2] / "samples" / "voices"
    reference, wav = str(voices / "clara.flac"), str(tmp_path / "clone.wav")
    said = f"asking the running server (pid {os.getpid()}, {hot.url}) to speak".encode()
    words = ["clone", TEXT, "--ref", reference, "--device", "cpu", "-o", wav, "--json"]
    assert cli.main(words) == 0
    printed = capfdbinary.readouterr()
    assert said in printed.err
    assert json.loads(printed.out)["reference"]["used_rate"] == 16000

    words = ["stream", TEXT, "--device", "cpu", "--seed", "7", "-o", "-"]
    assert cli.main(words) == 0
    printed = capfdbinary.readouterr()
    assert said in printed.err
    assert len(printed.out) == 44 + 2 * len(own())

    table = tmp_path / "lines.csv"
    table.write_text("text\nThe ferry leaves at noon.\nBring a warm jacket.\n", "utf-8")
    words = ["batch", str(table), "-o", str(tmp_path / "out"), "--device", "cpu", "--json"]
    assert cli.main(words) == 0
    printed = capfdbinary.readouterr()
    assert said in printed.err
    assert len(list((tmp_path / "out").glob("*.wav"))) == 2


def test_status_tells_what_runs(
    hot: Running, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "--status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["pid"], found["url"]) == ("ready", os.getpid(), hot.url)


def test_status_and_stop_without_a_server(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--status"]) == 1
    assert capsys.readouterr().out == "no server runs\n"
    assert cli.main(["serve", "--stop"]) == 2


def test_a_stop_asks_who_lives_and_waits_for_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has the place: one that is gone, the one that is asked, and then another one."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    asked = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    pids = iter((gone.pid, gone.pid))

    def holder(place: Place) -> dict[str, int]:
        pid = next(pids, asked.pid if asked.poll() is None else os.getpid())
        return {"pid": pid, "idle_s": 300}  # which a server that is gone does not wait for

    monkeypatch.setattr(Place, "holder", holder)
    assert cli.main(["serve", "--stop"]) == 0
    assert asked.poll() == -signal.SIGTERM
    assert capsys.readouterr().err == f"stopped: pid {asked.pid}\n"


LATE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), os._exit(0)))
print("here", flush=True)
while True: time.sleep(1)
"""


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_server_is_stopped_once_its_process_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_held: bool,
    is_stopped: bool,
) -> None:  # fmt: skip
    """Whether or not it gave its place back at once; one that cannot go is told with a way out."""
    with subprocess.Popen([sys.executable, "-c", LATE], stdout=subprocess.PIPE) as asked:
        try:
            assert asked.stdout is not None
            assert asked.stdout.readline() == b"here\n"
            infos = iter([{"pid": asked.pid}])
            monkeypatch.setattr(
                Place, "holder", lambda _: next(infos, {"pid": asked.pid} if is_held else None)
            )
            if is_stopped:
                os.kill(asked.pid, signal.SIGSTOP)
                monkeypatch.setattr(serve, "STOP_MARGIN_S", 0.7)
            code = cli.main(["serve", "--stop"])
            said = capsys.readouterr().err
            if is_stopped:
                assert (code, f"kill -9 {asked.pid}" in said) == (4, True)
                assert "stopped:" not in said
            else:
                assert (code, said) == (0, f"stopped: pid {asked.pid}\n")
                assert asked.wait(0.0) == 0
        finally:
            asked.kill()


# The program, which stands still after its first call of the function that its first word names.
STANDING = """
import os, signal, sys
from importlib import import_module
from voxcli.__main__ import main

module, *outer, name = sys.argv.pop(1).split()
owner = import_module(module)
for each in outer:
    owner = getattr(owner, each)
call = getattr(owner, name)

def stand(*given, **named):
    setattr(owner, name, call)
    found = call(*given, **named)
    os.kill(os.getpid(), signal.SIGSTOP)
    return found

setattr(owner, name, stand)
sys.exit(main())
"""


@contextmanager
def standing(after: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`voxcli serve` at one moment of its start, until it gets SIGCONT."""
    command = [sys.executable, "-c", STANDING, after, "serve", "--port", "0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it said, after it has gone on."""
    said = process.communicate(timeout=WAIT_S)[1]
    return process.returncode, said


def go_on_once_stopped(process: subprocess.Popen[str]) -> None:
    status, name = Path(f"/proc/{process.pid}/status"), "ShdPnd:"

    def is_told() -> bool:
        pending = next(line for line in status.read_text().splitlines() if line.startswith(name))
        return bool(int(pending.removeprefix(name), 16) & 1 << signal.SIGTERM - 1)

    until(is_told)
    process.send_signal(signal.SIGCONT)


TAKEN = "voxcli.engine.remote.place Hold write"
SPAWNED = "voxcli.cli.serve spawn"
BACKGROUND = ("--background", "--device", "cpu")
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_server_that_starts_is_seen_and_can_be_stopped(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with standing(TAKEN, "--device", "cpu") as process:
        assert cli.main(["serve", "--status"]) == 0
        assert capsys.readouterr().out == f"starting: pid {process.pid}, model mini\n"
        assert cli.main(["serve", "--port", "0"]) == 2
        assert f"runs already: pid {process.pid}, model mini" in capsys.readouterr().err
        process.send_signal(signal.SIGCONT)
        assert cli.main(["serve", "--stop"]) == 0
        assert ended(process) == (0, "")
    assert place.holder() is None


@needs_proc
def test_a_server_in_the_background_has_its_place_from_the_first_moment(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with standing(TAKEN, *BACKGROUND) as process:
        assert (place.holder() or {}).get("pid") == process.pid  # the server itself has not begun
        assert cli.main(["serve", "--port", "0", *BACKGROUND]) == 2
        said = capsys.readouterr().err
        assert "error: a server runs already: pid " in said
        assert "exit code" not in said
        going_on = threading.Thread(target=go_on_once_stopped, args=(process,))
        going_on.start()
        assert cli.main(["serve", "--stop"]) == 0
        going_on.join(WAIT_S)
        assert ended(process) == (
            4, "voxcli: error: the server was stopped before it was ready\n"
        )  # fmt: skip
    assert place.holder() is None


def test_the_place_passes_from_process_to_process_without_a_gap(place: Place) -> None:
    with standing(SPAWNED, *BACKGROUND) as process:
        until(lambda: _pid(place) != process.pid)
        process.terminate()  # as meant for the server
        process.send_signal(signal.SIGCONT)
        assert ended(process)[0] == 4
    assert place.holder() is None


def _pid(place: Place) -> int | None:
    holder = place.holder()
    assert holder is not None
    return holder.get("pid")


def test_why_a_server_in_the_background_ended_is_told_in_its_own_words(
    hot: Running, tmp_path: Path
) -> None:
    port = hot.url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "voxcli", "serve", "--background", "--port", port]
    environ = {**os.environ, "XDG_RUNTIME_DIR": tempfile.mkdtemp(dir=tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 2
    assert done.stderr.startswith(f"voxcli: error: port {port} is taken by another voxcli server")


def test_what_a_server_logs_is_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(*_: object, **__: object) -> Ending:
        logging.getLogger("voxcli.server.guard").warning("1.2.3.4:5 was let go")
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        return Ending(0, None, None)

    monkeypatch.setattr(launch, "serve", serve)
    assert cli.main(["serve"]) == 0
    assert capsys.readouterr().err == "voxcli: warning: 1.2.3.4:5 was let go\n"
    assert place.holder() is None


def test_ctrl_c_while_it_waits_for_a_server_in_the_background_ends_both(place: Place) -> None:
    with standing(SPAWNED, *BACKGROUND) as process:
        until(lambda: (place.holder() or {}).get("pid") not in (None, process.pid))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert ended(process) == (130, "voxcli: interrupted\n")
        until(lambda: place.holder() is None)


def test_ctrl_c_in_the_moment_of_the_start_leaves_no_server(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: Any, **given: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*words, **given))
        os.kill(os.getpid(), signal.SIGINT)  # before anybody has the child
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", ["voxcli", "serve", "--background", "--port", "0"])
    assert cli.main(sys.argv[1:]) == 130
    (child,) = started
    assert child.wait(WAIT_S) != 0
    assert place.holder() is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "no API key is set"),
        (["--host", "0.0.0.0", "--api-key", "short"], "fewer than 8 characters"),
        (["--port", "70000"], "--port is 70000"),
        (["--max-streams", "0"], "--max-streams is 0"),
        (["--grace", "-1"], "--grace is -1"),
        (["--background", "--stop"], "cannot be used together"),
        (["--model", "nonsuch"], "no model 'nonsuch'"),
        (["--graphs", "temperature=1"], "--temperature is not a parameter of model 'mini'"),
        (["--graphs", "steps=6", "--graphs", "steps=1"], "--steps is 1; give a whole number"),
        (["--graphs", "fast"], "'fast' is not a setting"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(
    place: Place, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", *words]) in (2, 3)
    assert message in capsys.readouterr().err


def test_graphs_are_captured_for_what_serve_was_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[EngineConfig] = []

    def open_engine(spec: str, config: EngineConfig, *_: object, **__: object) -> None:
        told.append(config)
        raise UsageError("that was all")

    monkeypatch.setattr(launch, "open_engine", open_engine)
    assert cli.main(["serve", "--graphs", "steps=4, cfg=2", "--graphs", "steps=8"]) == 2
    assert told[0].graphs == ({"steps": 4, "guidance_scale": 2.0}, {"steps": 8})


def test_the_client_side_imports_nothing_heavy() -> None:
    code = (
        "import sys; import voxcli.engine.remote.find; "
        "print({'torch', 'numpy', 'fastapi', 'pydantic', 'uvicorn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.usefixtures("hot")
@pytest.mark.parametrize("command", ["speak --device cpu", "stream --device cpu"])
def test_speech_reaches_a_pipe_through_few_modules(command: str) -> None:
    """Imports are most of the time from the shell to the first byte; seconds depend on machines."""
    code = (
        "import sys; from voxcli.cli import main; code = main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    words = [*command.split(), TEXT, "-q", "-o", "-", "--format", "raw", "--seed", "7"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == quantise(own(), "16")
    modules = done.stderr.decode().split()
    heavy = {"torch", "numpy", "rich", "pydantic", "tokenizers", "safetensors", "soundfile"}
    assert heavy.isdisjoint(modules)
    assert not [name for name in modules if name.startswith("voxcli.text.norm")]
    assert len(modules) < 275


# ------------------------------------------------------------------------ a real process


def test_a_server_that_is_killed_is_noticed_and_done_without(place: Place, tmp_path: Path) -> None:
    """kill -9 during a stream: a clear error, a stale socket; the next command speaks itself."""
    voxcli = [sys.executable, "-m", "voxcli"]
    started = subprocess.run(
        [*voxcli, "serve", "--background", "--port", "0", "--device", "cpu", "--json"],
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    pid = json.loads(started.stdout)["pid"]
    try:
        found, why_not = connect_here(WANTED)
        assert found is not None, why_not
        words = {"text": "Go.", "seed": 5}
        with found.stream(utterance(**words), is_live=False) as stream:  # type: ignore[arg-type]
            hot = np.concatenate([chunk.samples for chunk in stream])
        with found.stream(utterance(text=TEXT * 20)) as stream:
            next(stream)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(UnavailableError, match=f"the server \\(pid {pid}"):
                for _ in stream:
                    pass
    finally:
        _kill(pid)
    assert place.holder() is None
    out = tmp_path / "own.wav"
    own = subprocess.run(
        [*voxcli, "speak", "Go.", "--seed", "5", "--device", "cpu", "--bits", "32f", "-o", out],
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert own.returncode == 0, own.stderr
    assert "running server" not in own.stderr
    assert out.read_bytes().endswith(hot.astype("<f4").tobytes())


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
