"""Threads of the server that no ending process waits for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from needs import PATIENCE_S

from voxcli.server.desk import Desk
from voxcli.server.threads import DaemonThreads

STUCK = """
import threading
from voxcli.server.threads import DaemonThreads
threads, has_begun = DaemonThreads(1, "stuck"), threading.Event()
threads.submit(lambda: (has_begun.set(), threading.Event().wait()))
threads.submit(print)
has_begun.wait()
"""


def test_calls_are_made_in_order_and_tell_what_they_raise() -> None:
    threads, made = DaemonThreads(1, "one"), list[int]()
    futures = [threads.submit(lambda number=number: made.append(number)) for number in range(50)]
    failed = threads.submit(lambda: [][1])
    threads.end()
    with pytest.raises(IndexError):
        failed.result(PATIENCE_S)
    assert all(future.result(PATIENCE_S) is None for future in futures)
    assert made == list(range(50))


def test_as_many_calls_run_at_once_as_there_are_threads() -> None:
    threads, meeting = DaemonThreads(3, "three"), threading.Barrier(3)
    futures = [threads.submit(lambda: meeting.wait(PATIENCE_S)) for _ in range(3)]
    assert sorted(future.result(PATIENCE_S) for future in futures) == [0, 1, 2]
    threads.end()


def _no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_system_without_threads_fails_a_call_and_no_later_one() -> None:
    async def worked() -> list[object]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Thread, "start", _no_thread)
            refused = await asyncio.gather(
                *(desk.run(lambda: 1) for _ in range(3)), return_exceptions=True
            )
        return [*map(type, refused), await desk.run(lambda: 2), desk.num_open]

    desk = Desk("works", 1, max_waiting=1)
    assert asyncio.run(worked()) == [RuntimeError] * 3 + [2, 0]


def test_threads_that_there_are_do_what_no_further_one_can_be_made_for() -> None:
    threads = DaemonThreads(2, "two")
    assert threads.submit(lambda: 1).result(PATIENCE_S) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        assert threads.submit(lambda: 2).result(PATIENCE_S) == 2
    threads.end()


def test_a_call_that_never_ends_keeps_no_process() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], check=False, timeout=PATIENCE_S)
    assert done.returncode == 0
