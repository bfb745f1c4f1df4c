"""What is held of a speech comes back as it was, and takes memory only up to a bound."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.engine.fleet import held
from voxcli.engine.fleet.held import Held
from voxcli.errors import OutputError
from voxcli.utterance import AudioChunk

RATE = 48_000


def chunk(number: int, size: int) -> AudioChunk:
    return AudioChunk(np.full(size, number, np.float32), RATE, number, False)


@pytest.mark.parametrize("limit", [0, 100, 1 << 20])
@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(0, 60), max_size=12))
def test_chunks_come_back_as_they_were(limit: int, sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "IN_MEMORY_BYTES", limit)
        kept = Held()
        for _ in range(2):  # what was taken or thrown away is gone
            kept.clear()
            for number, size in enumerate(sizes):
                kept.append(chunk(number, size))
        found = kept.take()
    assert [each.segment for each in found] == list(range(len(sizes)))
    for number, (each, size) in enumerate(zip(found, sizes, strict=True)):
        np.testing.assert_array_equal(each.samples, np.full(size, number, np.float32))
    assert kept.take() == []


def test_an_hour_is_held_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    num_minutes, minute = 60, RATE // 8 * 60  # at an eighth of the rate: 86 MB
    kept = Held()
    tracemalloc.start()
    try:
        for number in range(num_minutes):
            kept.append(chunk(number, minute))
        found = kept.take()
        for number, each in enumerate(found):
            assert float(each.samples[0]) == float(each.samples[-1]) == number
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == num_minutes
    assert peak < held.IN_MEMORY_BYTES + 3 * 4 * minute < num_minutes * 4 * minute / 3


def test_a_folder_that_takes_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    monkeypatch.setattr(held, "IN_MEMORY_BYTES", 0)
    with pytest.raises(OutputError, match="/nowhere"):
        Held().append(chunk(1, 1000))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "IN_MEMORY_BYTES", 0)
    before = len(os.listdir("/proc/self/fd"))
    for is_taken in (True, False):
        kept = Held()
        kept.append(chunk(1, 1000))
        if is_taken:
            kept.take()
        else:
            kept.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
