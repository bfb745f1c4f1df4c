"""A server whose replicas speak: as one that speaks itself, whatever becomes of a replica."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fakes import fake_engine
from needs import PATIENCE_S
from nursery import REPLICA, Nursery
from running import (
    LONG,
    TEXT,
    GatedModel,
    Running,
    begin,
    engine_for,
    rest,
    rest_until_end,
    run_server,
    until,
)
from talking import talk

from voxcli.audio.pcm import quantise
from voxcli.config import SamplingParams
from voxcli.engine.base import Wanted
from voxcli.engine.fleet.cap import Cap
from voxcli.engine.fleet.dispatcher import Dispatcher, Row, Server
from voxcli.engine.remote.find import connect_here, connect_to, health_at
from voxcli.engine.remote.find import health as health_of
from voxcli.engine.remote.place import Place
from voxcli.errors import (
    DeviceError,
    EngineError,
    ModelError,
    UnavailableError,
    UsageError,
    VoxError,
)
from voxcli.hub import resolve_model
from voxcli.server import listener, replicas
from voxcli.server.front import FrontEngine
from voxcli.server.layout import devices_of, threads_of
from voxcli.server.replicas import Replica, Replicas, ReplicaState
from voxcli.server.worker import State
from voxcli.utterance import Utterance

NAMES = ["replica 0 (cpu)", "replica 1 (cpu)"]
NUM_KILLS, NUM_CLIENTS = 3, 6


@dataclass
class Front:
    """A server with two replicas on the fake model."""

    running: Running
    engine: FrontEngine
    gates: Path

    @property
    def all(self) -> list[Replica]:
        return self.engine.replicas.all

    def wait_for_all(self) -> None:
        until(lambda: self.engine.replicas.num_ready == len(self.all))

    def hold_at(self, steps: int) -> None:
        """Let each process decode so often in all and no more."""
        partial = self.gates / "steps.part"
        partial.write_text(str(steps), "ascii")
        partial.rename(self.gates / "steps")

    def release(self) -> None:
        for name in ("steps", "start"):
            (self.gates / name).unlink(missing_ok=True)

    def speakers(self) -> list[Replica]:
        """Those that speak."""
        busy = {row.name for row in self.engine.rows() if row.streams}
        return [each for each in self.all if each.name in busy]

    def speak(self, text: str = TEXT, **fields: Any) -> httpx.Response:
        body = {"model": "fake", "input": text, "response_format": "pcm", "sample_rate": 8000}
        with self.running.client() as client:
            return client.post("/v1/audio/speech", json={**body, "seed": 7, **fields})

    def health(self) -> httpx.Response:
        with self.running.client() as client:
            return client.get("/health")


@contextmanager
def run_front(gates: Path, place: Place | None = None, grace_s: float = 5.0) -> Iterator[Front]:
    command = [sys.executable, REPLICA, "serve", "--quiet", "--max-streams", "4"]
    planner = engine_for(GatedModel(), is_mini=True)
    with Replicas(command, ["cpu", "cpu"], 1) as children:
        wanted = Wanted("mini", "cpu", folder=str(Path.cwd()))
        engine = FrontEngine(planner, children, resolve_model("mini"), wanted, 4)
        with run_server(
            engine=engine, max_streams=8, max_queue=64, place=place, replicas=engine.rows,
            grace_s=grace_s,
        ) as running:  # fmt: skip
            children.on_lost = running.worker.fail
            front = Front(running, engine, gates)
            try:
                yield front
            finally:
                front.release()


@pytest.fixture(scope="module", autouse=True)
def forked(nursery: Nursery) -> Iterator[None]:
    """Replicas of the fake model start as forks, without all that Python imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "subprocess", nursery)
        yield


@pytest.fixture(scope="module")
def shared(forked: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    gates = tmp_path_factory.mktemp("gates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("GATES", str(gates))
        patch.setattr(replicas, "MAX_RESTARTS", 1000)
        patch.setattr(replicas, "PAUSE_S", 0.0)
        place = Place.default()
        place.create()
        with run_front(gates, place) as front:
            yield front


@pytest.fixture
def front(shared: Front) -> Iterator[Front]:
    shared.wait_for_all()
    yield shared
    shared.release()
    until(lambda: not shared.running.worker.num_running)
    until(lambda: all(map(is_idle, shared.all)))  # else what is left would be held with the next


def expected(text: str = TEXT, seed: int = 7) -> bytes:
    utterance = Utterance(text, sampling=SamplingParams(seed=seed))
    return quantise(fake_engine().synthesize([utterance])[0].samples, "16")


def is_idle(replica: Replica) -> bool:
    health = health_at(replica.socket)
    return health.get("status") == "ready" and not health["streams"] and not health["queue"]


def kill(*victims: Replica) -> None:
    num_restarts = [replica.num_restarts for replica in victims]
    for replica in victims:
        assert replica.pid is not None
        os.kill(replica.pid, signal.SIGKILL)
    for replica, num in zip(victims, num_restarts, strict=True):
        until(lambda replica=replica, num=num: replica.num_restarts > num)  # type: ignore[misc]


# ------------------------------------------------------------------------ as one server


@pytest.mark.parametrize("is_streamed", [True, False])
def test_the_samples_are_those_of_a_server_without_replicas(
    front: Front, is_streamed: bool
) -> None:
    answer = front.speak(stream=is_streamed)
    assert answer.status_code == 200
    assert answer.content == expected()


def test_a_websocket_has_the_samples_of_a_server_without_replicas(front: Front) -> None:
    with talk(front.running, seed=7) as it:
        for number in range(3):
            it.write("The ferry lea", "ves at noon.", " Bring", " a warm jacket. ")
            it.say("response.cancel" if number == 1 else "input.done")
            it.until("response.cancelled" if number == 1 else "session.done")
    with talk(front.running, seed=7) as alone:
        alone.write("The ferry leaves at noon.")
        alone.say("input.done")
        alone.until("session.done")
    whole = np.frombuffer(expected("The ferry leaves at noon."), "<i2")
    length = np.flatnonzero(np.abs(whole) >= 33)[-1] + 1
    assert np.array_equal(alone.samples[:length], whole[:length])
    first, last = it.of("session.done")
    assert first["duration"] == last["duration"]
    assert it.audio.startswith(alone.audio)
    assert it.audio.endswith(it.audio[: first["total_bytes"]])


def test_both_speak_and_every_text_has_its_own_samples(front: Front) -> None:
    before = {row.name: row.rows for row in front.engine.rows()}
    front.hold_at(0)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(front.speak, seed=seed, stream=seed % 2 == 0) for seed in range(8)]
        until(lambda: len(front.speakers()) == 2)
        front.release()
    assert [each.result().content for each in asked] == [expected(seed=n) for n in range(8)]
    after = {row.name: row.rows for row in front.engine.rows()}
    assert all(after[name] > before[name] for name in NAMES)


def test_refusals_are_those_of_a_server_without_replicas(front: Front) -> None:
    with run_server() as plain:
        alone = Front(plain, front.engine, front.gates)
        for fields in ({"voice": "nobody"}, {"steps": 1}, {"model": "other"}, {"input": "   "}):
            ours, theirs = front.speak(**fields), alone.speak(**fields)
            assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())


def test_a_command_finds_it_and_what_it_does_not_serve_is_said(front: Front) -> None:
    found, why_not = connect_here(Wanted("mini", device="cpu"))
    assert found is not None, why_not
    sampling = SamplingParams(seed=7)
    result = found.synthesize([Utterance(TEXT, sampling=sampling)])[0]
    assert quantise(result.samples, "16") == expected()
    assert "pid" in found.facts.name
    assert connect_here(Wanted("mini", "cpu", "bf16"))[1] == "it computes in fp32"
    why_not = connect_here(Wanted("openbmb/VoxCPM2", "cpu"))[1]
    assert why_not is not None
    assert "another model" in why_not


def test_a_voice_that_is_added_is_spoken_by_every_replica(front: Front) -> None:
    sample = next((Path(__file__).resolve().parents[2] / "samples" / "voices").glob("*.flac"))
    with front.running.client() as client:
        added = client.post(
            "/v1/audio/voices",
            data={"name": "clara", "consent": "yes", "ref_text": "What she says."},
            files={"audio_sample": ("a.flac", sample.read_bytes())},
        )
    assert added.status_code == 200, added.text
    front.hold_at(0)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(front.speak, voice="clara") for _ in range(8)]
        until(lambda: len(front.speakers()) == 2)  # one that came back is not given as much at once
        front.release()
    assert {each.result().status_code for each in asked} == {200}


# ------------------------------------------------------------------------ one is killed


@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_nobody_heard_of_a_killed_replica_is_spoken_by_another(
    front: Front, is_streamed: bool
) -> None:
    front.hold_at(0)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(front.speak, seed=seed, stream=is_streamed) for seed in range(6)]
        until(lambda: len(front.speakers()) == 2)  # one that came back is not given as much at once
        kill(front.all[0])
        front.release()
    assert [each.result().status_code for each in asked] == [200] * 6
    assert [each.result().content for each in asked] == [expected(seed=n) for n in range(6)]


def start_half_heard(front: Front, **fields: Any) -> tuple[socket.socket, bytes, Replica]:
    """A long speech of which its client has a part, and who speaks it."""
    front.hold_at(0)
    raw = begin(front.running, LONG, **fields)
    until(lambda: len(front.speakers()) == 1)
    (speaker,) = front.speakers()
    heard = b""
    steps = 0
    while len(heard.partition(b"\r\n\r\n")[2]) < 100:
        steps += 1
        front.hold_at(steps)
        raw.settimeout(0.05)
        with suppress(TimeoutError):
            heard += raw.recv(1 << 16)
    raw.settimeout(PATIENCE_S)
    return raw, heard, speaker


def test_who_heard_a_part_is_cut_short_as_by_a_server_without_replicas(front: Front) -> None:
    raw, heard, speaker = start_half_heard(front)
    assert heard.startswith(b"HTTP/1.1 200")
    kill(speaker)
    front.release()
    assert not rest_until_end(raw)
    assert front.speak().content == expected()


def test_who_heard_a_part_as_events_gets_an_error_event(front: Front) -> None:
    raw, _, speaker = start_half_heard(front, stream_format="sse")
    kill(speaker)
    front.release()
    said = rest(raw)
    assert b'"type": "error"' in said
    assert speaker.name.encode() in said


def test_health_and_metrics_say_how_each_replica_is(front: Front) -> None:
    front.speak()
    killed = front.all[1]
    before = killed.num_restarts
    front.hold_at(0)
    (front.gates / "start").touch()  # it does not come back at once
    kill(killed)
    found = front.health()
    assert (found.status_code, found.json()["status"]) == (200, "ready")
    first, second = found.json()["replicas"]
    assert [first["name"], second["name"]] == NAMES
    assert (first["status"], second["status"]) == ("ready", "loading")
    assert second["restarts"] == before + 1
    assert second["error"] == "replica 1 (cpu) was killed (SIGKILL)"
    metrics = httpx.get(f"{front.running.url}/metrics", timeout=PATIENCE_S).text
    assert 'voxcli_replica_ready{replica="replica 1 (cpu)"} 0.0' in metrics
    assert f'voxcli_replica_restarts_total{{replica="{NAMES[1]}"}} {before + 1}.0' in metrics
    kill(front.all[0])
    found = front.health()
    assert (found.status_code, found.json()["status"]) == (503, "loading")
    assert "Retry-After" in found.headers
    assert front.speak().status_code == 503
    front.release()
    front.wait_for_all()
    assert front.health().status_code == 200
    assert front.speak().content == expected()
    assert front.running.worker.state is State.READY


def test_a_replica_that_hangs_is_killed_and_what_it_had_is_spoken_by_another(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "WATCH_S", 0.2)
    front.hold_at(0)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(front.speak)
        until(lambda: len(front.speakers()) == 1)
        (hanging,) = front.speakers()
        num_restarts = hanging.num_restarts
        assert hanging.pid is not None
        os.kill(hanging.pid, signal.SIGSTOP)
        front.release()
        assert asked.result().content == expected()
    until(lambda: hanging.num_restarts > num_restarts)
    assert hanging.fault is not None
    assert "SIGKILL" in hanging.fault.message


@pytest.mark.long
def test_what_waits_while_no_replica_is_there_is_spoken_by_the_first_that_is(front: Front) -> None:
    front.hold_at(0)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(front.speak)
        until(lambda: len(front.speakers()) == 1)
        (front.gates / "start").touch()
        kill(*front.all)
        front.release()
        assert asked.result().content == expected()


@dataclass
class Crowd:
    """Clients that ask, and some that leave.

    Attributes:
        num_done: requests of each.
    """

    front: Front
    num_done: list[int] = field(default_factory=lambda: [0] * NUM_CLIENTS)
    wrong: list[str] = field(default_factory=list)
    num_cut: int = 0
    is_over: bool = False

    def run(self, index: int) -> None:
        chance = random.Random(index)
        while not self.is_over:
            deed = chance.choice([self.read, self.read, self.leave])
            try:
                deed(chance)
            except Exception as err:
                self.wrong.append(repr(err))
            self.num_done[index] += 1

    def read(self, chance: random.Random) -> None:
        seed, is_streamed = chance.randrange(4), chance.random() < 0.5
        try:
            answer = self.front.speak(seed=seed, stream=is_streamed)
        except httpx.RemoteProtocolError:
            self.num_cut += 1
            if not is_streamed:
                self.wrong.append("a whole file was cut short")
            return
        if answer.status_code != 200:
            self.wrong.append(f"{answer.status_code}: {answer.text}")
        elif answer.content != WANTED[seed]:
            self.wrong.append("the samples differ")

    def leave(self, chance: random.Random) -> None:
        raw = begin(self.front.running, LONG)
        with raw, suppress(OSError):
            if chance.random() < 0.7:
                raw.recv(chance.randrange(1, 20_000))

    def wait_for_each(self) -> None:
        """Until what was asked for when this was called is over."""
        before = list(self.num_done)
        until(lambda: all(now > then for now, then in zip(self.num_done, before, strict=True)))


WANTED = {seed: b"" for seed in range(4)}


def num_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.long
def test_killed_replicas_and_clients_that_leave_leave_nothing(front: Front) -> None:
    WANTED.update({seed: expected(seed=seed) for seed in WANTED})
    chance = random.Random(1)
    crowd = Crowd(front)
    folder = front.all[0].socket.parent
    looks: list[tuple[int, int]] = []
    for num_kills in (1, NUM_KILLS):  # pools have grown in the first round
        crowd.is_over = False
        clients = [threading.Thread(target=crowd.run, args=(n,)) for n in range(NUM_CLIENTS)]
        for client in clients:
            client.start()
        try:
            for _ in range(num_kills):
                front.wait_for_all()
                crowd.wait_for_each()
                kill(chance.choice(front.all))
            front.wait_for_all()
            crowd.wait_for_each()
        finally:
            crowd.is_over = True
            for client in clients:
                client.join(PATIENCE_S)
        until(lambda: front.running.worker.num_running == 0)
        until(lambda: not front.speakers())
        looks.append((threading.active_count(), num_descriptors()))
    assert not crowd.wrong
    until(lambda: threading.active_count() <= looks[0][0] + 2)
    until(lambda: num_descriptors() <= looks[0][1] + 2)
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]
    assert [path.name for path in folder.parent.glob("r-*")] == [folder.name]


# ------------------------------------------------------------------------ start and end


def run_script(code: str, num: int = 2) -> Replicas:
    return Replicas([sys.executable, "-c", code], ["cpu"] * num, 1)


def test_what_a_replica_says_at_its_first_start_ends_the_server(place: Place) -> None:
    code = "import sys; print('voxcli: error: no such model', file=sys.stderr); sys.exit(3)"
    with run_script(code) as children:
        children.start()
        with pytest.raises(ModelError, match=r"replica \d \(cpu\): no such model"):
            children.wait_for_one()
        assert [each.num_restarts for each in children.all] == [0, 0]
    assert not list(place.folder.iterdir())


@pytest.mark.long
def test_replicas_that_die_again_and_again_are_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "PAUSE_S", 0.0)
    monkeypatch.setattr(replicas, "MAX_RESTARTS", 3)
    lost: list[VoxError] = []
    with run_script("import os; os.kill(os.getpid(), 9)") as children:
        children.on_lost = lost.append
        children.start()
        with pytest.raises(EngineError, match="killed \\(SIGKILL\\)"):
            children.wait_for_one()
        until(lambda: bool(lost))
        assert [each.num_restarts for each in children.all] == [replicas.MAX_RESTARTS] * 2
        assert {each.state for each in children.all} == {ReplicaState.RESTING}


def test_pauses_grow_and_too_many_faults_let_a_replica_rest_until_they_are_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicas, "PAUSE_S", 0.5)
    monkeypatch.setattr(replicas, "MAX_RESTARTS", 3)
    replica = Replica(replicas.Order("replica 0 (cpu)", "/nowhere", "cpu", 1))
    replica.was_ready = True
    pauses = []
    for number in range(1, replicas.MAX_RESTARTS + 2):
        replica.faults = [100.0 + 10 * each for each in range(number)]
        pauses.append(replicas._pause_s(replica))
    *short, long = pauses
    assert short == [replicas.PAUSE_S * 2**n for n in range(replicas.MAX_RESTARTS)]
    assert long == replicas.WINDOW_S - 10 * replicas.MAX_RESTARTS


@pytest.mark.long
def test_a_server_ends_when_no_replica_is_left(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATES", str(tmp_path))
    monkeypatch.setattr(replicas, "MAX_RESTARTS", 0)
    with run_front(tmp_path) as front:
        front.wait_for_all()
        for replica in front.all:
            assert replica.pid is not None
            os.kill(replica.pid, signal.SIGKILL)
        ending = front.running.join()
        assert isinstance(ending.error, EngineError)
        assert "SIGKILL" in ending.error.message
    assert not list(place.folder.iterdir())


def test_a_stop_lets_what_is_spoken_end_and_the_replicas_with_it(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATES", str(tmp_path))
    with run_front(tmp_path, grace_s=PATIENCE_S) as front:
        pids = [each.pid for each in front.all]
        front.hold_at(0)
        spoken = begin(front.running)
        until(lambda: len(front.speakers()) == 1)
        front.running.stop()
        until(lambda: front.running.worker.state is State.STOPPING)
        front.release()
        assert rest_until_end(spoken)
        ending = front.running.join()
        assert (ending.num_aborted, ending.error) == (0, None)
    assert not any(each.pid for each in front.all)
    assert None not in pids
    assert not list(place.folder.iterdir())


def test_a_stop_while_replicas_load_waits_for_none(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATES", str(tmp_path))
    monkeypatch.setattr(replicas, "END_S", 0.2)  # it waits at the gate, and does not listen
    (tmp_path / "start").touch()
    planner = engine_for(GatedModel(), is_mini=True)
    with Replicas([sys.executable, REPLICA, "serve"], ["cpu"], 1) as children:
        engine = FrontEngine(planner, children, resolve_model("mini"), Wanted("mini", "cpu"), 4)
        thread = threading.Thread(target=engine.start)
        thread.start()
        until(lambda: children.all[0].pid is not None)
        with pytest.raises(UnavailableError):
            engine.check_up()
        engine.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert children.all[0].pid is None


def is_alive(pid: int) -> bool:
    """Whether a process that is no child of this one runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_real_replicas_speak_as_one_engine_and_end_with_a_killed_server(
    place: Place, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "voxcli", "serve", "--device", "cpu", "--port", "0"]
    command += ["--replicas", "2", "--threads", "1"]
    front = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: health_of(place).get("status") == "ready")
        engine = connect_to(place.socket, Wanted("mini", "cpu"))
        found = engine.synthesize([Utterance("Hello there.", sampling=SamplingParams(seed=7))])
        until(lambda: all(row["pid"] for row in health_of(place)["replicas"]))
        pids = [row["pid"] for row in health_of(place)["replicas"]]
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
    finally:
        front.kill()
        front.wait()
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert not list(place.folder.glob("r-*"))
    alone = tmp_path / "alone.wav"
    said = ["speak", "Hello there.", "--seed", "7", "--engine", "native", "--threads", "1"]
    subprocess.run(
        [sys.executable, "-m", "voxcli", *said, "--device", "cpu", "-q", "-o", str(alone)],
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    assert alone.read_bytes().endswith(quantise(found[0].samples, "16"))


def test_folders_of_killed_servers_are_removed_and_those_in_use_are_not(place: Place) -> None:
    place.create()
    left = place.folder / "r-left"
    left.mkdir()
    (left / "0").touch()
    with run_script("pass") as first, run_script("pass") as second:
        assert not left.exists()
        folders = {each.all[0].socket.parent for each in (first, second)}
        assert len(folders) == 2
        assert all(folder.is_dir() for folder in folders)
        assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


# ------------------------------------------------------------------------ who reads slowly


def test_a_speech_that_is_paused_is_paused_at_the_server_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "QUEUE_BYTES", 1 << 16)
    long = " ".join([LONG] * 4)
    with run_server() as running:
        engine = connect_to(running.url, Wanted("fake"))
        with engine.session() as session:
            plan = engine.plan(Utterance(long, sampling=SamplingParams(seed=7)))
            speech = session.add(plan)
            session.pause(speech)
            until(lambda: any(job.is_paused for job in running.worker.jobs))
            session.resume(speech)
            samples = []
            while not session.is_idle:
                for _, event in session.step():
                    assert not isinstance(event, VoxError), event
                    samples.append(event.samples)
    assert quantise(np.concatenate(samples), "16") == expected(long)


def test_who_is_paused_takes_no_place_of_another() -> None:
    server = Server(0, "one", Cap(1, 1))
    dispatcher = Dispatcher([server], is_endless=True)
    first, second = Row(1.0), Row(1.0)
    dispatcher.add(first)
    dispatcher.add(second)
    assert [row for row, _ in dispatcher.next(0.0)] == [first]
    dispatcher.pause(first, True)
    assert [row for row, _ in dispatcher.next(0.0)] == [second]


# ------------------------------------------------------------------------ what options say


@pytest.mark.parametrize(
    ("device", "num", "cards", "devices"),
    [
        ("auto", None, 0, ()),
        ("cuda:1", None, 2, ()),
        ("cpu", 1, 0, ("cpu",)),
        ("cpu", 3, 0, ("cpu",) * 3),
        ("auto", 2, 0, ("cpu", "cpu")),
        ("auto", 2, 4, ("cuda:0", "cuda:1")),
        ("cuda", 2, 2, ("cuda:0", "cuda:1")),
        ("cuda:3", 1, 4, ("cuda:3",)),
        ("cuda:0,cuda:2", None, 3, ("cuda:0", "cuda:2")),
        ("cuda:1, cuda:0", 2, 2, ("cuda:1", "cuda:0")),
    ],
)
def test_options_are_a_device_for_each_replica(
    device: str, num: int | None, cards: int, devices: Sequence[str]
) -> None:
    assert devices_of(device, num, lambda: cards) == devices


@pytest.mark.parametrize(
    ("device", "num", "cards", "kind", "named"),
    [
        ("cpu", 0, 0, UsageError, "--replicas is 0"),
        ("cuda", 3, 2, DeviceError, "needs a GPU for each, and 2"),
        ("cuda", 1, 0, DeviceError, "and 0"),
        ("cuda:1", 2, 4, UsageError, "'cuda:1'"),
        ("cuda:0,cuda:5", None, 2, DeviceError, "'cuda:5' is not available"),
        ("cuda:0,cuda:0", None, 2, UsageError, "twice"),
        ("cuda:0,cpu", None, 2, UsageError, "'cpu'"),
        ("cuda:0,", None, 2, UsageError, "''"),
        ("cuda:0,cuda:1", 3, 4, UsageError, "for 2 replicas"),
    ],
)
def test_options_that_cannot_be_are_one_line(
    device: str, num: int | None, cards: int, kind: type[VoxError], named: str
) -> None:
    with pytest.raises(kind, match=named.replace("(", "\\(")):
        devices_of(device, num, lambda: cards)


def test_threads_are_shared_out_unless_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxcli.server.layout.num_cores", lambda: 8)
    assert [threads_of(0, 2), threads_of(0, 3), threads_of(0, 16), threads_of(5, 2)] == [4, 2, 1, 5]
