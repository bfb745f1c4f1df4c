"""Clients that leave, read slowly or are too many; a server that stops; an engine that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from fakes import fake_engine
from running import (
    LONG,
    TEXT,
    WAIT_S,
    Behind,
    GatedModel,
    begin,
    engine_for,
    rest,
    rest_until_end,
    run_server,
    until,
)

from voxcli.config import SamplingParams
from voxcli.engine.base import Setup, Speech, SpeechSession, Wanted
from voxcli.engine.remote.find import connect_to
from voxcli.errors import EngineError, EngineFaultError, UsageError
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.server import listener, patience
from voxcli.server.limits import WorkerLimits
from voxcli.server.worker import EngineWorker, Job, State
from voxcli.utterance import AudioChunk, Utterance


@pytest.fixture
def short_queue(monkeypatch: pytest.MonkeyPatch) -> int:
    """A client's queue holds 1.6 s, so that a test need not make megabytes."""
    monkeypatch.setattr(listener, "QUEUE_BYTES", 4 * 12_800)
    return 4 * 12_800


def test_a_client_that_leaves_frees_its_slot_at_once() -> None:
    with run_server(max_streams=1, max_queue=0) as running:
        running.model.steps_left = 3
        with begin(running, LONG) as raw:
            assert raw.recv(1)
            until(lambda: not running.model.gate.is_set())
            assert running.worker.num_running == 1
        running.model.gate.set()
        until(lambda: running.worker.num_running == 0)
        with running.client() as client:  # the one slot is free again
            answer = client.post("/v1/audio/speech", json={"model": "fake", "input": TEXT})
        assert answer.status_code == 200
        until(lambda: running.metric("voxcli_requests_total", outcome="gone") == 1)


def test_a_client_that_leaves_while_it_waits_is_forgotten() -> None:
    with run_server(max_streams=1) as running:
        running.model.gate.clear()
        first = begin(running)
        until(lambda: running.worker.num_running == 1)
        with begin(running):
            until(lambda: running.worker.num_waiting == 1)
        until(lambda: running.worker.num_waiting == 0)
        running.model.gate.set()
        assert rest_until_end(first)


def test_too_many_are_refused_with_429_and_when_to_come_back() -> None:
    with run_server(max_streams=1, max_queue=1) as running:
        running.model.gate.clear()
        held = [begin(running)]
        until(lambda: running.worker.num_running == 1)
        held.append(begin(running))
        until(lambda: running.worker.num_waiting == 1)
        with running.client() as client:
            answer = client.post("/v1/audio/speech", json={"model": "fake", "input": TEXT})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"]["type"] == "rate_limit_error"
        running.model.gate.set()
        assert all(rest_until_end(raw) for raw in held)


@pytest.mark.usefixtures("short_queue")
def test_a_slow_client_is_paused_and_stalls_no_other() -> None:
    with run_server(max_streams=2) as running:
        slow = begin(running, LONG * 20, sample_rate=48_000)  # more than sockets can hold
        until(lambda: next(iter(running.worker.jobs), None) is not None)
        job = running.worker.jobs[0]
        until(lambda: job.is_paused)
        until(lambda: not job.speech.requests if job.speech else False)  # it holds no slot
        with running.client() as client:
            answer = client.post("/v1/audio/speech", json={"model": "fake", "input": TEXT})
            assert answer.status_code == 200
        with slow:
            while job.is_paused:  # it goes on when the client has read
                assert slow.recv(1 << 20)


@pytest.mark.usefixtures("short_queue")
def test_a_client_that_takes_nothing_is_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "STALLED_S", 0.2)
    with run_server() as running:
        with begin(running, LONG * 20, sample_rate=48_000) as raw:
            until(lambda: running.metric("voxcli_requests_total", outcome="stalled") == 1)
            client = f"127.0.0.1:{raw.getsockname()[1]}"
        until(lambda: running.worker.num_running == 0)
    line = f"{client} was cut off: it took next to nothing of its speech for 0.2 s"
    assert f"{line} (POST /v1/audio/speech)" in caplog.messages


def test_a_stop_lets_what_is_spoken_end_and_refuses_what_waits() -> None:
    with run_server(max_streams=1, grace_s=WAIT_S) as running:
        running.model.gate.clear()
        spoken = begin(running)
        until(lambda: running.worker.num_running == 1)
        waiting = begin(running)
        until(lambda: running.worker.num_waiting == 1)
        running.stop()
        until(lambda: running.worker.state is State.STOPPING)
        assert b"503" in waiting.recv(1000)
        waiting.close()
        running.model.gate.set()
        assert rest_until_end(spoken)
        ending = running.join()
        assert (ending.num_aborted, ending.error) == (0, None)


def test_a_stop_without_grace_cuts_short_and_says_how_many() -> None:
    with run_server(grace_s=0.0) as running:
        running.model.steps_left = 20
        spoken = begin(running, LONG)
        assert spoken.recv(1)
        running.stop()
        until(lambda: running.worker.state is State.STOPPED)
        running.model.gate.set()
        assert not rest_until_end(spoken)
        assert running.join().num_aborted == 1


def test_an_engine_that_fails_fails_all_in_flight_and_ends_the_process() -> None:
    model = GatedModel(fail_at_step=3)
    with run_server(model=model) as running:
        model.gate.clear()
        held = [begin(running), begin(running, stream=False, response_format="wav")]
        until(lambda: running.worker.num_running + running.worker.num_waiting == 2)
        model.gate.set()
        answers = [rest(raw) for raw in held]
        assert b"illegal memory access" in answers[1]
        assert b"HTTP/1.1 503" in answers[1]
        assert not answers[0].endswith(b"0\r\n\r\n")  # cut short, so nobody takes it for whole
        ending = running.join()
        assert isinstance(ending.error, EngineError)


class Loading(Behind):
    """An engine whose model loads until it is let."""

    def __init__(self, is_loaded: threading.Event) -> None:
        super().__init__(fake_engine())
        self.is_loaded, self.is_closed = is_loaded, False

    def start(self, wanted: Iterable[Values] = ()) -> None:
        assert self.is_loaded.wait(WAIT_S)

    def close(self) -> None:
        self.is_closed = True


def test_unhealthy_and_refusing_while_it_loads() -> None:
    loading = threading.Event()

    worker = EngineWorker(Loading(loading), WorkerLimits())
    worker.start()
    plan = fake_engine().plan(Utterance(TEXT))
    with pytest.raises(Exception, match="still loading"):
        worker.submit(Job(plan, True, lambda event: None))
    loading.set()
    until(lambda: worker.state is State.READY)
    got: list[Any] = []
    worker.submit(Job(plan, True, got.append))
    until(lambda: bool(got) and isinstance(got[-1], AudioChunk) and got[-1].is_last)
    worker.stop()
    assert worker.state is State.STOPPED


class Captured(Behind):
    """An engine with graphs for six steps alone."""

    def __init__(self) -> None:
        super().__init__(engine_for(GatedModel()))

    @property
    def setup(self) -> Setup:
        return replace(self.engine.setup, num_captures=3)

    def mismatch(self, wanted: Wanted) -> str | None:
        return next((why for each in wanted.parameters if (why := lacks_graph(each))), None)

    def session(self, *, num_reserved: int = 0) -> SpeechSession:
        session = self.engine.session(num_reserved=num_reserved)
        add = session.add

        def checked(plan: Plan, *, is_live: bool = True) -> Speech:
            if why := lacks_graph(plan.parameters):
                raise UsageError(why, hint="use a captured one, or start again with --graphs")
            return add(plan, is_live=is_live)

        session.add = checked  # type: ignore[method-assign]
        return session


def lacks_graph(values: Values) -> str | None:
    steps = values["steps"]
    return None if steps == 6 else f"no graph was captured for steps {steps}; captured: steps 6"


@pytest.mark.parametrize("stream", [False, True])
def test_parameters_without_a_graph_are_a_400_and_leave_nothing(stream: bool) -> None:
    fields = {"model": "fake", "input": TEXT, "stream": stream, "response_format": "wav"}
    engine = Captured()
    with (
        run_server(engine=engine, max_streams=1, max_queue=0) as running,
        running.client() as client,
    ):
        for _ in range(3):
            answer = client.post("/v1/audio/speech", json={**fields, "steps": 7})
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert error["param"] == "steps"
            assert error["message"] == "no graph was captured for steps 7; captured: steps 6"
            assert (running.worker.num_running, running.worker.num_waiting) == (0, 0)
        assert client.post("/v1/audio/speech", json=fields).status_code == 200
    assert running.metric("voxcli_requests_total", outcome="refused") == 3


def test_a_command_learns_that_parameters_have_no_graph_before_it_speaks() -> None:
    with run_server(engine=Captured()) as running:
        assert running.metric("voxcli_graph_captures") == 3
        engine = connect_to(running.url, Wanted("fake"))
        engine.start([{"steps": 6}])
        engine.start([{"steps": 6}])
        with pytest.raises(UsageError, match="cannot be used: no graph was captured for steps 7"):
            engine.start([{"steps": 6}, {"steps": 7}])
        with pytest.raises(UsageError, match="no graph was captured for steps 7"):
            engine.synthesize([Utterance(TEXT, sampling=SamplingParams(parameters={"steps": 7}))])
        with pytest.raises(UsageError, match="cannot be used: no graph was captured"):
            connect_to(running.url, Wanted("fake", parameters=({"steps": 7},)))


class Babel(Behind):
    """An engine for a language that no header can name."""

    def plan(self, utterance: Utterance) -> Plan:
        plan = self.engine.plan(utterance)
        return replace(plan, text=replace(plan.text, language="日本"))


def test_a_response_that_cannot_be_made_leaves_nothing_behind() -> None:
    engine = Babel(engine_for(GatedModel()))
    with run_server(engine=engine) as running, running.client() as client:
        answer = client.post("/v1/audio/speech", json={"model": "fake", "input": TEXT})
        assert answer.status_code == 500
        assert (running.worker.num_running, running.worker.num_waiting) == (0, 0)


def test_the_health_of_a_failed_engine_is_told_in_words_for_clients() -> None:
    with run_server() as running, running.client() as client:
        hint = "start voxcli again"
        running.worker.error = EngineFaultError("the engine failed: no memory", hint=hint)
        running.worker.state = State.FAILED
        health = client.get("/health")
        running.worker.state = State.READY
    assert health.status_code == 503
    assert int(health.headers["retry-after"]) >= 1
    assert health.json()["error"] == "the engine failed: no memory; try again in 2 s"


def test_a_server_that_ends_waits_for_the_model_that_loads() -> None:
    loading = threading.Event()

    engine = Loading(loading)
    worker = EngineWorker(engine, WorkerLimits())
    worker.start()
    threading.Timer(0.05, loading.set).start()
    worker.stop(timeout_s=0.0)
    assert engine.is_closed


def test_a_newcomer_beside_a_long_text_is_heard_before_a_segment_of_it_ends() -> None:
    engine = fake_engine(max_slots=4)
    with engine.session(num_reserved=1) as session:
        long = session.add(engine.plan(Utterance(LONG)))
        heard: set[object] = set()
        for _ in range(3):
            heard |= {speech for speech, _ in session.step()}
        assert len(long.requests) == 3  # one slot stays free
        new = session.add(engine.plan(Utterance("Hello there.")))
        heard.clear()
        for _ in range(2):
            heard |= {speech for speech, _ in session.step()}
        assert new in heard
        session.leave(long)
        assert engine.core.scheduler.num_free_slots == 3
        while not session.is_idle:
            session.step()


def test_a_paused_speech_begins_no_segment_and_goes_on_when_resumed() -> None:
    engine = fake_engine(max_slots=2)
    with engine.session() as session:
        speech = session.add(engine.plan(Utterance(LONG)))
        session.step()
        session.pause(speech)
        while session.has_work:
            session.step()
        assert not speech.is_done
        assert not speech.requests
        session.resume(speech)
        while not session.is_idle:
            session.step()
        assert speech.is_done
