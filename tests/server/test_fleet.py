"""Several servers as one engine: every row is spoken once, whatever becomes of a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import digests, prepare, speak, statuses
from chaos import Proxy, proxy_of
from fakes import FakeModel, fake_engine
from needs import PATIENCE_S
from running import GatedModel, Running, engine_for, hold, run_server, until

import voxcli.engine.fleet.open  # noqa: F401  before a test changes what it takes from `session`
from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine.base import SpeechEngine
from voxcli.engine.choose import open_engine
from voxcli.engine.fleet import dispatcher, session
from voxcli.engine.fleet import engine as fleet_engine
from voxcli.engine.remote import client, transport
from voxcli.errors import EngineError, TextError, UsageError, VoxError
from voxcli.server import local
from voxcli.utterance import Utterance

TEXT = "The ferry leaves at noon. Bring a warm jacket, and mind the step."
NUM_ROWS = 24


@dataclass
class Fleet:
    servers: list[Running]
    proxies: list[Proxy]

    @property
    def spec(self) -> str:
        return ",".join(proxy.url for proxy in self.proxies)

    def open(self, **given: Any) -> SpeechEngine:
        return open_engine(self.spec, EngineConfig("fake", device="cpu"), **given)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Running]]:
    with ExitStack() as stack:
        found = []
        for _ in range(3):
            engine = engine_for(model := GatedModel())
            found.append(stack.enter_context(run_server(model=model, engine=engine)))
        yield found


@pytest.fixture
def fleet(servers: list[Running], monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """The servers as new, each behind a proxy of its own."""
    answer_within(PATIENCE_S, monkeypatch)
    monkeypatch.setattr(dispatcher, "BACKOFF_S", 0.05)
    monkeypatch.setattr(dispatcher, "MAX_BACKOFF_S", 0.5)
    with ExitStack() as stack:
        yield Fleet(servers, [stack.enter_context(proxy_of(server.url)) for server in servers])
    for server in servers:
        server.model.steps_left, server.model.faults = None, {}
        server.model.gate.set()
        until(lambda server=server: not num_taken(server))  # type: ignore[misc]


def answer_within(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a server is waited for that is asked who it is."""
    for module in (transport, client):
        monkeypatch.setattr(module, "ANSWER_S", seconds)


def table(folder: Path) -> Path:
    path = folder / "lines.csv"
    rows = (f"This is row {n} of the table. {'More. ' * (n % 4)}" for n in range(NUM_ROWS))
    path.write_text("\n".join(["text", *rows]), "utf-8")
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one engine makes of the table, in this process."""
    folder = tmp_path_factory.mktemp("alone")
    report = speak(prepare(table(folder), folder / "whole"))
    assert statuses(report) == ["ok"] * NUM_ROWS
    return digests(folder / "whole")


def spoil(fleet: Fleet, how: str) -> None:
    """What may happen to servers in the middle of a batch."""
    first, second, third = fleet.proxies
    if how in ("killed", "all"):
        target, first.target = first.target, None
        first.drop_all()
        threading.Timer(1.0, lambda: setattr(first, "target", target)).start()
    if how in ("503", "all"):
        second.is_unavailable = True
        threading.Timer(1.0, lambda: setattr(second, "is_unavailable", False)).start()
    if how in ("hangs", "all"):
        third.is_hanging = True
    if how == "cut":
        # a row fails when two servers seem to be down: only the first can cut that question as well
        first.cut_after, second.cut_after, third.cut_after = [400, 2000, 20], [400], [2000]


@pytest.mark.parametrize("how", ["killed", "503", "hangs", "cut", "all", "nothing"])
def test_every_row_ends_ok_once_and_as_alone(
    fleet: Fleet,
    alone: dict[str, str],
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if how in ("hangs", "all"):  # one that is silent has to be found out in time for this test
        monkeypatch.setattr(local, "BEAT_S", 0.5)
        monkeypatch.setattr(transport, "SILENCE_S", 8.0)
        answer_within(4.0, monkeypatch)
    engine = fleet.open()
    session = prepare(table(tmp_path), tmp_path / "out", engine=engine)
    ended: list[str] = []

    def on_outcome(outcome: Any, tally: Any) -> None:
        ended.append(outcome.job.name)
        if len(ended) == 5:
            spoil(fleet, how)

    report = session.run(lambda: engine, on_outcome=on_outcome)
    assert statuses(report) == ["ok"] * NUM_ROWS
    assert len(ended) == len(set(ended)) == NUM_ROWS
    assert digests(tmp_path / "out") == alone
    servers = report["servers"]
    assert sum(each["rows"] for each in servers.values()) == NUM_ROWS
    assert {row["server"] for row in report["rows"]} <= set(servers) == set(fleet.spec.split(","))
    for server in fleet.servers:
        server.model.gate.set()
        until(lambda server=server: not server.worker.num_running)  # type: ignore[misc]


def test_who_stops_waits_for_no_row_that_nobody_speaks(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HOPE_S", 1e6)
    monkeypatch.setattr(fleet_engine, "HOPE_S", 1e6)
    engine = fleet.open()
    batch = prepare(table(tmp_path), tmp_path / "out", engine=engine)
    ended: list[str] = []

    def on_outcome(outcome: Any, tally: Any) -> None:
        ended.append(outcome.job.name)
        for proxy in fleet.proxies:
            proxy.target = None
            proxy.drop_all()

    def is_stopping() -> bool:
        return bool(ended) and not engine.facts.name.startswith("3")

    report = batch.run(lambda: engine, on_outcome=on_outcome, is_stopping=is_stopping)
    assert not report["is_complete"]
    assert statuses(report).count("pending") == NUM_ROWS - len(ended) > 0


def test_a_server_that_takes_no_connection_stops_nobody_who_adds_a_speech(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_connect = threading.Event()
    connect = transport.send

    def send(*given: Any) -> Any:
        assert may_connect.wait(PATIENCE_S)
        return connect(*given)

    with fleet.open() as engine:
        plans = [engine.plan(Utterance(TEXT)) for _ in range(3)]
        with engine.session() as running:
            monkeypatch.setattr(transport, "send", send)
            speeches = [running.add(plan, is_live=False) for plan in plans]
            running.wake()
            assert running.step() == []
            running.leave(speeches[0])
            may_connect.set()
            while not running.is_idle:
                running.step()
        assert [each.is_done for each in speeches] == [False, True, True]


def test_a_key_that_is_refused_names_its_server(fleet: Fleet) -> None:
    with run_server(api_key="other") as keyed, pytest.raises(VoxError) as caught:
        open_engine(f"{fleet.proxies[0].url},{keyed.url}", EngineConfig("fake", device="cpu"))
    assert keyed.url in caught.value.message
    assert "VOXCLI_API_KEY" in str(caught.value)


def test_rows_are_shared_and_each_server_has_no_more_than_asked(fleet: Fleet) -> None:
    for server in fleet.servers:
        hold(server)
    with fleet.open(rows_a_server=2) as engine, engine.session() as session:
        speeches = [session.add(engine.plan(Utterance(TEXT)), is_live=False) for _ in range(9)]
        session.wake()
        assert session.step() == []
        for server in fleet.servers:
            until(lambda server=server: num_taken(server) == 2)  # type: ignore[misc]
        for server in fleet.servers:
            server.model.gate.set()
        while not session.is_idle:
            session.step()
    assert all(speech.is_done for speech in speeches)
    assert {speech.made_by for speech in speeches} == set(fleet.spec.split(","))


def num_taken(server: Running) -> int:
    return server.worker.num_running + server.worker.num_waiting


def test_one_listened_to_sounds_as_alone_and_comes_in_pieces(fleet: Fleet) -> None:
    utterance = Utterance(TEXT, sampling=SamplingParams(seed=7))
    alone = fake_engine(FakeModel()).synthesize([utterance])[0]
    with fleet.open() as engine:
        plan = engine.plan(utterance)
        stream = engine.stream(plan)
        chunks = list(stream)
    assert len(chunks) > 1
    assert stream.speech.reports
    np.testing.assert_array_equal(np.concatenate([each.samples for each in chunks]), alone.samples)


def test_what_nobody_heard_yet_is_spoken_elsewhere(fleet: Fleet) -> None:
    first = fleet.servers[0]
    hold(first)
    with fleet.open() as engine:
        stream = engine.stream(engine.plan(Utterance(TEXT)))
        until(lambda: first.worker.num_running > 0 or step_a_little(stream))
        fleet.proxies[0].target = None
        fleet.proxies[0].drop_all()
        assert sum(len(chunk.samples) for chunk in stream) > 0
        assert stream.speech.made_by in {proxy.url for proxy in fleet.proxies[1:]}
        assert stream.speech.num_tries == 2
    first.model.gate.set()


def step_a_little(stream: Any) -> bool:
    stream._session.wake()
    stream._session.step()
    return False


def test_what_somebody_heard_is_not_begun_again(fleet: Fleet) -> None:
    first = fleet.servers[0]
    with fleet.open() as engine:
        hold(first, 3)
        stream = engine.stream(engine.plan(Utterance(TEXT)))
        assert len(next(stream).samples)
        fleet.proxies[0].target = None
        fleet.proxies[0].drop_all()
        with pytest.raises(EngineError, match="failed after the speech began"):
            list(stream)
    first.model.gate.set()


def test_a_row_that_cannot_be_spoken_fails_alone_and_is_tried_nowhere_else(fleet: Fleet) -> None:
    with fleet.open() as engine:
        with pytest.raises(TextError):
            engine.plan(Utterance("   "))
        plans = [engine.plan(Utterance(text)) for text in (TEXT, "Silent speech.", TEXT)]
        for server in fleet.servers:
            server.model.faults = {"Silent speech.": ["silent"] * 9}
        errors: list[VoxError] = []
        with engine.session() as session:
            speeches = [session.add(plan, is_live=False) for plan in plans]
            while not session.is_idle:
                events = session.step()
                errors += [event for _, event in events if isinstance(event, VoxError)]
    assert [type(error).__name__ for error in errors] == ["SynthesisError"]
    assert [speech.num_tries for speech in speeches] == [1, 1, 1]


def test_servers_that_leave_nothing_to_hope_for_end_the_run(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HOPE_S", 0.5)
    with fleet.open() as engine:
        plan = engine.plan(Utterance(TEXT))
        for proxy in fleet.proxies:
            proxy.target = None
        with pytest.raises(EngineError, match="no server is left to speak"):
            engine.synthesize([plan])


def test_a_server_that_is_down_at_first_joins_later(fleet: Fleet) -> None:
    late = fleet.proxies[2]
    target, late.target = late.target, None
    notes: list[str] = []
    with fleet.open(on_note=notes.append) as engine:
        assert late.url in notes[0]
        late.target = target
        for server in fleet.servers[:2]:
            hold(server)
        with engine.session() as running:
            speech = [running.add(engine.plan(Utterance(TEXT))) for _ in range(20)]
            until(lambda: (running.wake(), running.step(), fleet.servers[2].worker.num_running)[2])
            for server in fleet.servers:
                server.model.gate.set()
            while not running.is_idle:
                running.step()
        assert all(each.is_done for each in speech)


def test_servers_of_other_models_are_refused_by_name(fleet: Fleet) -> None:
    other = engine_for(GatedModel())
    other.model_checksum = lambda: "another"  # type: ignore[method-assign]
    with run_server(engine=other) as odd, pytest.raises(UsageError, match=odd.url):
        open_engine(f"{fleet.spec},{odd.url}", EngineConfig("fake", device="cpu"))


def test_leaving_frees_every_place(fleet: Fleet) -> None:
    for server in fleet.servers:
        hold(server)
    with fleet.open() as engine:
        running = engine.session()
        speeches = [running.add(engine.plan(Utterance(TEXT))) for _ in range(12)]
        running.wake()
        running.step()
        for speech in speeches:
            running.leave(speech)
        assert running.is_idle
        assert running.step() == []
    for server in fleet.servers:
        server.model.gate.set()
        until(lambda server=server: not server.worker.num_running)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("http://a:1,http://a:1", "twice"),
        ("http://a:1,b", "'b'"),
        ("http://a:1,ftp://b", "'ftp://b'"),
        (",", "','"),
        ("http://me:word@a:1", "password"),
        ("http://a:1,http://me:word@b:1", "password"),
    ],
)
def test_lists_that_cannot_be_are_refused(spec: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        open_engine(spec, EngineConfig("mini"))
