"""A batch whose server is stopped or killed goes on without it: no row is lost, or has failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from batches import digests, prepare, speak, statuses
from running import Running, run_server

from voxcli.errors import UnavailableError
from voxcli.engine.remote.client import RemoteSynthesizer
from voxcli.engine.remote.find import Wanted, connect
from voxcli.engine.remote.place import Place
from voxcli.engine.native.engine import Synthesizer
from voxcli.engine.takeover import TakeOver

NUM_ROWS = 20  # more than are spoken or written at once


def stop(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    server.worker.drain()


def kill(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(RemoteSynthesizer, "ask", ask)


@pytest.mark.parametrize("end", [stop, kill])
def test_rows_that_a_server_did_not_speak_are_left_for_the_process_that_goes_on(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Running, pytest.MonkeyPatch], None],
) -> None:
    table, out = tmp_path / "lines.csv", tmp_path / "out"
    table.write_text("\n".join(["text", *(f"This is row {n}." for n in range(NUM_ROWS))]), "utf-8")
    whole = speak(prepare(table, tmp_path / "whole"))
    with run_server(place=place) as server, monkeypatch.context() as patch:
        remote, why_not = connect("auto", Wanted("mini", device="cpu"))
        assert remote is not None, why_not
        engine = cast("Synthesizer", remote)
        with pytest.raises(TakeOver) as over:
            prepare(table, out).run(lambda: engine, on_outcome=lambda *_: end(server, patch))
    assert isinstance(over.value.fault, UnavailableError)
    partial: dict[str, Any] = json.loads((out / "report.json").read_text("utf-8"))
    assert set(statuses(partial)) == {"ok", "pending"}
    report = speak(prepare(table, out), notes=over.value.notes)
    assert statuses(report) == ["ok"] * NUM_ROWS == statuses(whole)
    assert digests(out) == digests(tmp_path / "whole")
