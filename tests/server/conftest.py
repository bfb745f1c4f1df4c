"""What the server's tests share: a server, and the place where commands look for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running import Running, run_server

from voxcli.engine.remote.place import Place


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with run_server() as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server for one test, without anybody's voices."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with run_server() as running:
        yield running


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where this test's commands look for a server."""
    folder: Path = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("VOXCLI_ENGINE", raising=False)
    return Place.default()
