"""Servers that commands leave behind: started where it is allowed, and gone when nobody asks."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeEngine, fake_engine
from running import LONG, Running, begin, run_server, until

from voxcli import cli
from voxcli.cli.background import leave_server
from voxcli.cli.engine_options import WarmOptions
from voxcli.config import EngineConfig, UserSettings
from voxcli.engine.remote.place import Place

CONFIG = EngineConfig("mini", device="cpu")
IDLE_S = 0.05


def _end_when_idle(running: Running) -> None:
    loop = running.process.loop
    assert loop is not None
    asyncio.run_coroutine_threadsafe(running.process._end_when_idle(IDLE_S), loop)


def test_a_server_that_nobody_asks_ends_by_itself() -> None:
    with run_server() as running:
        _end_when_idle(running)
        ending = running.join()
    assert (ending.signal, ending.error, ending.num_aborted) == (None, None, 0)


def test_a_server_that_speaks_is_not_idle() -> None:
    with run_server() as running:
        running.model.gate.clear()
        with begin(running, LONG) as raw:
            until(lambda: running.worker.num_running == 1)
            _end_when_idle(running)
            threading.Event().wait(10 * IDLE_S)
            assert running.thread.is_alive()
            running.model.gate.set()
            while raw.recv(1 << 16):
                pass
        assert running.join().num_aborted == 0


def test_a_server_is_left_behind_once_and_stops_like_any_other(place: Place) -> None:
    assert leave_server("auto", CONFIG, 60.0)
    assert (place.holder() or {})["idle_s"] == 60.0  # can be seen from the first moment on
    assert not leave_server("auto", CONFIG, 60.0)
    until(lambda: "url" in (place.holder() or {}))
    holder = place.holder()
    assert holder is not None
    assert holder["url"] == str(place.socket)  # and no port
    assert (holder["model"], holder["idle_s"]) == ("mini", 60.0)
    assert cli.main(["serve", "--stop"]) == 0
    assert place.holder() is None


def _elsewhere() -> FakeEngine:
    engine = fake_engine()
    engine.facts = replace(engine.facts, name="the server")
    return engine


@pytest.mark.parametrize(
    ("engine", "spec", "time"),
    [
        (fake_engine(), "auto", None),  # nobody allowed it
        (fake_engine(), "auto", "0"),
        (fake_engine(), "native", "5 min"),  # the next command would not ask it
        (_elsewhere(), "auto", "5 min"),
    ],
)
def test_no_server_is_left_behind(
    engine: FakeEngine, spec: str, time: str | None, place: Place
) -> None:
    WarmOptions(time).leave_server(engine, UserSettings(engine=spec), CONFIG)
    assert not place.folder.exists()


def test_a_command_says_what_is_no_time(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "a.wav")
    assert cli.main(["speak", "Hello.", "-o", out, "--keep-warm", "soon"]) == 2
    assert "--keep-warm is 'soon'; give a time such as '5 min'" in capsys.readouterr().err
    assert cli.main(["serve", "--no-port", "--no-socket"]) == 2
    assert cli.main(["serve", "--idle", "0"]) == 2
    assert place.holder() is None
