"""Puts this folder on the import path: `checkpoints` and other helpers are shared by all tests."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from browser import CHROMIUM
from hypothesis import settings
from needs import need
from nursery import Nursery

import voxcli  # noqa: F401  before torch, whose idle threads would spin beside other processes

# A shell's background job ignores Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.load_profile("ci")  # the same cases each time, and none is too slow on a busy machine

_runtime = tempfile.TemporaryDirectory(prefix="voxcli")  # a socket's path must be short
os.environ["XDG_RUNTIME_DIR"] = _runtime.name
os.environ["VOXCLI_ENGINE"] = "native"  # a developer's running server speaks in no test but its own
if "PYTEST_XDIST_WORKER" in os.environ:  # threads of more than one worker wait for each other
    for _name in ("OMP_NUM_THREADS", "VOXCLI_THREADS"):
        os.environ.setdefault(_name, "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test-speech` looks in one folder, which takes a moment, not half a minute."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "speech" in marks and "slow" not in marks and item.path.parent.name != "speech":
            raise pytest.UsageError(f"{item.nodeid} is one of speech, but not in tests/speech")


@pytest.fixture(autouse=True)
def _log_levels() -> Iterator[None]:
    """A command with `-v` that runs in the tests' process makes no later one talk."""
    logger = logging.getLogger("voxcli")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Layers this small are faster so, above all where other work is on the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where processes start that need not import."""
    with Nursery() as started:
        yield started


@pytest.fixture
def ffmpeg() -> None:
    """The program, for formats that libsndfile lacks."""
    need(shutil.which("ffmpeg") is not None, "ffmpeg is not installed")


@pytest.fixture(scope="session")
def chromium() -> None:
    """A browser, to look at pages as people do."""
    need(CHROMIUM is not None, "chromium is not installed")


@pytest.fixture
def whisper() -> None:
    """The package that writes down what is said."""
    need(find_spec("faster_whisper") is not None, "faster_whisper is not installed: '.[asr]'")
