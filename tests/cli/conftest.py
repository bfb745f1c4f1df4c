"""What several tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nullsink import NullSink, require_sound


@pytest.fixture(scope="session")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NullSink]:
    """A sound card that can be recorded."""
    require_sound()
    with NullSink(tmp_path_factory.mktemp("sound")) as started:
        yield started
