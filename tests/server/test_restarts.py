"""A server whose engine fails: everything in flight is told, and a new process takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from needs import PATIENCE_S
from running import until

from voxcli.engine.remote.find import health
from voxcli.engine.remote.place import Place
from voxcli.errors import EngineError
from voxcli.server import launch

FAULTY = Path(__file__).parents[1] / "faulty.py"
LONG = (
    "The ferry leaves at noon and the train leaves at one, so bring a jacket and be there in time."
)


def speak(url: str, text: str, **fields: Any) -> httpx.Response:
    body = {"model": "fake", "input": text, "response_format": "wav", "seed": 7, **fields}
    return httpx.post(f"{url}/v1/audio/speech", json=body, timeout=PATIENCE_S)


def is_cut_short_or_refused(asked: Future[httpx.Response]) -> bool:
    """A stream has no status left once its first samples have gone."""
    error = asked.exception()
    return isinstance(error, httpx.RemoteProtocolError) or asked.result().status_code == 503


def test_a_fault_is_told_to_all_in_flight_and_a_fresh_process_goes_on(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "faults.txt").write_text("1 2\n", "utf-8")  # as soon as two are spoken
    with (tmp_path / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, FAULTY, "serve", "--port", "0"], stderr=log,
            env={**os.environ, "FAULTY": str(tmp_path / "faults.txt")},
        )  # fmt: skip
    try:
        until(lambda: health(place).get("status") == "ready")
        holder = place.holder()
        assert holder is not None
        url = str(holder["url"])
        right = speak(url, "Hello there.")
        assert right.status_code == 200
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(speak, url, LONG), pool.submit(speak, url, LONG, stream=True)]
        assert asked[0].result().status_code == 503
        assert "illegal memory access" in asked[0].result().json()["error"]["message"]
        assert is_cut_short_or_refused(asked[1])
        until(lambda: health(place).get("restarts") == 1)  # the old one may answer first
        assert place.holder() == holder
        until(lambda: health(place).get("status") == "ready")
        assert health(place)["pid"] == process.pid
        assert speak(url, "Hello there.").content == right.content
        assert "voxcli_restarts_total 1.0" in httpx.get(f"{url}/metrics", timeout=PATIENCE_S).text
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    said = (tmp_path / "log.txt").read_text("utf-8")
    assert "illegal memory access was encountered; a new process takes over" in said
    assert place.holder() is None
    assert not place.socket.exists()


def test_faults_that_come_too_often_end_the_server() -> None:
    error = EngineError("the engine failed: out of memory")
    window_s = launch.WINDOW_S
    launch._check_restarts([0.0, 1.0, 2.0], error)
    launch._check_restarts([0.0, 1.0, 2.0, window_s + 0.5], error)
    with pytest.raises(EngineError, match="out of memory; 4 faults within 10 minutes"):
        launch._check_restarts([0.0, 1.0, 2.0, window_s - 1.0], error)
