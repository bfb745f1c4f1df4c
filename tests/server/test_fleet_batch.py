"""A batch over three servers of their own: one is killed, one refuses, one falls silent; every row
is spoken once and as the native engine speaks it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from batches import digests
from chaos import Proxy, proxy_of
from needs import PATIENCE_S
from running import until

from voxcli.batch.manifest import DONE

pytestmark = [pytest.mark.slow, pytest.mark.long]

FEW, MANY = 90, 300
WORDS = ("Yes.", "No.", "Wait.", "Go on.", "Not now.", "Come in.")
REFUSED_S = 10.0


class Serving:
    """One `voxcli serve` with the bundled voice on a port of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["serve", "--no-socket", "--port", str(self.port), "--threads", "1"]
        words += ["--max-streams", "8"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "voxcli", *words], stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text("utf-8")
        try:
            return httpx.get(f"{self.url}/health", timeout=PATIENCE_S).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Serving]]:
    with ExitStack() as stack:
        found = [Serving(tmp_path) for _ in range(3)]
        for each in found:
            stack.callback(each.close)
            each.start()
        for each in found:
            until(each.is_ready, 10 * PATIENCE_S)
        yield found


def write_table(path: Path, num_rows: int) -> Path:
    rows = (f"r{n:03},{WORDS[n % len(WORDS)]},{n}" for n in range(num_rows))
    path.write_text("\n".join(["id,text,seed", *rows]), "utf-8")
    return path


def speak(table: Path, out: Path, engine: str) -> dict[str, Any]:
    """Run the command; its report."""
    command = [sys.executable, "-m", "voxcli", "batch", str(table), "-o", str(out), "--quiet"]
    ended = subprocess.run([*command, "--bits", "32f", "--engine", engine], capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
    return dict(json.loads((out / "report.json").read_text("utf-8")))


def num_done(out: Path) -> int:
    return len(list(out.glob("*.wav")))


def spoil(out: Path, killed: Serving, refusing: Proxy, silent: Proxy) -> None:
    """What happens to the servers while rows are spoken."""
    until(lambda: num_done(out) >= 20)
    killed.kill()
    killed.start()
    silent.is_hanging = True
    refusing.is_unavailable = True
    until(lambda: refusing.num_unavailable > 0)
    threading.Timer(REFUSED_S, setattr, (refusing, "is_unavailable", False)).start()


@pytest.mark.parametrize("num_rows", [FEW, pytest.param(MANY, marks=pytest.mark.speech)])
def test_a_batch_outlives_what_becomes_of_its_servers(
    servers: list[Serving], tmp_path: Path, num_rows: int
) -> None:
    killed, refusing, silent = servers
    table, out = write_table(tmp_path / "lines.csv", num_rows), tmp_path / "out"
    with proxy_of(refusing.url) as before_refusing, proxy_of(silent.url) as before_silent:
        names = (killed.url, before_refusing.url, before_silent.url)
        spoiling = threading.Thread(
            target=spoil, args=(out, killed, before_refusing, before_silent)
        )
        spoiling.start()
        report = speak(table, out, ",".join(names))
        spoiling.join(PATIENCE_S)
    assert [row["status"] for row in report["rows"]] == ["ok"] * num_rows
    by_server = report["servers"]
    assert tuple(by_server) == names
    assert Counter(row["server"] for row in report["rows"]) == {
        name: each["rows"] for name, each in by_server.items() if each["rows"]
    }
    assert by_server[killed.url]["failed_tries"] >= 1
    assert by_server[killed.url]["rows"] > 0
    assert before_refusing.num_unavailable
    assert by_server[before_refusing.url]["rows"] > 0
    silence = by_server[before_silent.url]
    assert silence["failed_tries"] + silence["moved_away"], silence
    lines = (out / "manifest.jsonl").read_text("utf-8").splitlines()
    done = [line["output"] for line in map(json.loads, lines) if line.get("status") == DONE]
    assert len(done) == len(set(done)) == num_rows
    speak(table, tmp_path / "native", "native")
    assert digests(out) == digests(tmp_path / "native")
