"""Peak memory is counted in parts, and no part's peak is forgotten."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from voxcli.bench.memory import PeakMemory

SIZE = 200_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux restarts the count")
def test_a_part_has_its_own_peak_and_the_whole_has_the_largest() -> None:
    memory = PeakMemory("cpu")
    block = np.ones(SIZE, np.uint8)
    block.fill(2)
    large = memory.overall()["peak_rss_bytes"]
    del block
    memory.restart()
    small = memory.since_restart()["peak_rss_bytes"]
    assert large is not None
    assert small is not None
    assert small < large - SIZE / 2
    assert memory.overall()["peak_rss_bytes"] >= 0.99 * large  # the kernel counts in batches
    assert memory.overall()["peak_gpu_allocated_bytes"] is None
