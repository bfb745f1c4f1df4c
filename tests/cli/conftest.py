"""What several tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nullsink import NullSink, require_sound


@pytest.fixture(scope="session")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NullSink]:
    """A sound card that can be recorded."""
    require_sound()
    with NullSink(tmp_path_factory.mktemp("sound")) as started:
        yield started


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
