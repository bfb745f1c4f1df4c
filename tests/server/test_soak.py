"""A real server under clients that come and go: nothing is lost, and nothing of them is left.

    pytest -m "speech and slow" tests/server/test_soak.py

takes eight minutes. `make test-long` has a short one, which says nothing about memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from soak import Report, soak

MAX_GROWTH = 0.03


def check(report: Report) -> None:
    before, after = report.looks[0], report.looks[-1]
    assert not report.wrong
    assert sum(report.did.values()) > 10
    assert (after.busy, after.num_files) == (0, 0)
    assert after.num_descriptors <= before.num_descriptors
    assert after.num_threads <= before.num_threads + 2  # of pools that grow to a bound
    assert after.idle_load < 0.5


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_of_clients_is_left_in_a_real_server(tmp_path: Path) -> None:
    check(soak(9.0, tmp_path))


@pytest.mark.speech
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_five_minutes_of_clients_leave_nothing(tmp_path: Path) -> None:
    report = soak(300.0, tmp_path)
    check(report)
    assert report.growth < MAX_GROWTH
