"""A batch whose server is stopped or killed goes on without it: no row is lost, or has failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batches import digests, prepare, speak, statuses
from running import Running, run_server

from voxcli.config import EngineConfig
from voxcli.engine.choose import AUTO, open_engine
from voxcli.engine.remote import transport
from voxcli.engine.remote.place import Place
from voxcli.engine.takeover import TakeOver
from voxcli.errors import UnavailableError

NUM_ROWS = 20  # more than are spoken or written at once


def stop(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    server.worker.drain()


def kill(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(transport, "send", send)


@pytest.mark.parametrize("end", [stop, kill])
def test_rows_that_a_server_did_not_speak_are_left_for_the_process_that_goes_on(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Running, pytest.MonkeyPatch], None],
) -> None:
    table, out = tmp_path / "lines.csv", tmp_path / "out"
    rows = (f"This is row {n},{4 + n % 3}" for n in range(NUM_ROWS))
    table.write_text("\n".join(["text,steps", *rows]), "utf-8")
    whole = speak(prepare(table, tmp_path / "whole"))
    with run_server(place=place) as server, monkeypatch.context() as patch:
        engine = open_engine(AUTO, EngineConfig("mini", device="cpu"))
        assert engine.facts.is_elsewhere
        session = prepare(table, out, engine=engine)
        with pytest.raises(TakeOver) as over:
            session.run(lambda: engine, on_outcome=lambda *_: end(server, patch))
    assert isinstance(over.value.fault, UnavailableError)
    partial: dict[str, Any] = json.loads((out / "report.json").read_text("utf-8"))
    assert set(statuses(partial)) == {"ok", "pending"}
    report = speak(prepare(table, out), notes=over.value.notes)
    assert statuses(report) == ["ok"] * NUM_ROWS == statuses(whole)
    assert digests(out) == digests(tmp_path / "whole")
