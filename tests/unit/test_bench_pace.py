"""What others take of the machine is counted on our cores alone, without what we take."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from voxcli.bench import pace
from voxcli.config import num_cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux tells")
def test_work_of_others_is_counted_on_our_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    monkeypatch.setattr(pace, "_STAT", stat)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
    monkeypatch.setattr(time, "process_time", lambda: 5.0)
    # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
    core = [2 * ticks, 0, 1 * ticks, 90 * ticks, 7 * ticks, 0, 0, 3 * ticks, 2 * ticks, 0]
    row = " ".join(map(str, core))
    stat.write_text(f"cpu  {row}\ncpu0 {row}\ncpu1 {row}\ncpu2 {row}\nintr 1 2\n")
    assert pace.taken_s() == pytest.approx(2 * 6.0 - 5.0)
    assert num_cores() == 2
    stat.unlink()
    assert pace.taken_s() is None


def test_the_probe_takes_some_time() -> None:
    assert 0 < pace.probe() < 1
