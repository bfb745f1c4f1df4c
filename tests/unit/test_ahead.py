"""Kernels compiled ahead: when it begins, what it is told, and that its failure harms nothing."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from voxcli.config import EngineConfig
from voxcli.engine.native import ahead
from voxcli.engine.native.ahead import Ahead, Order
from voxcli.models.voxcpm2.family import VoxCPM2Family

FAMILY = VoxCPM2Family()
CONFIG = EngineConfig(
    graphs=({"steps": 10, "guidance_scale": 2.0}, {"steps": 6, "guidance_scale": 1.0}),
    max_slots=3,
)


class FakeCard:
    capability = (9, 0)

    def make_context(self) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder, on a machine with a card and Triton."""
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead, "find_spec", lambda name: name)
    monkeypatch.setattr(ahead, "version", lambda name: "1")
    monkeypatch.setattr(ahead._Card, "find", lambda device: FakeCard())
    return tmp_path


def test_an_order_survives_the_way_to_its_process() -> None:
    order = Order.of(Path("/models/some"), FAMILY, CONFIG, (9, 0))
    assert Order.from_json(order.to_json()) == order


def test_the_mark_is_of_one_model_engine_and_card(folder: Path) -> None:
    marks = {
        Order.of(folder, FAMILY, config, capability).mark
        for config in (CONFIG, EngineConfig())
        for capability in ((9, 0), (8, 0))
    }
    before = Order.of(folder, FAMILY, CONFIG, (9, 0)).mark
    more_steps = replace(
        CONFIG,
        graphs=({"steps": 30, "guidance_scale": 1.0}, {"steps": 9, "guidance_scale": 3.0}),
        device="cuda:0",
        precision="bf16",
    )
    assert Order.of(folder, FAMILY, more_steps, (9, 0)).mark == before, "the same kernels"
    (folder / "config.json").write_text('{"architecture": "other"}')
    marks.add(Order.of(folder, FAMILY, CONFIG, (9, 0)).mark)
    assert len(marks) == 5
    assert before in marks


def test_nothing_begins_where_it_gains_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process began"))
    with Ahead.begin(folder, FAMILY, EngineConfig(eager=True)) as begun:
        assert not begun.is_ready()
    order = Order.of(folder, FAMILY, CONFIG, (9, 0))
    order.mark.parent.mkdir()
    order.mark.touch()
    with Ahead.begin(folder, FAMILY, CONFIG) as begun:
        assert begun.is_ready(), "the mark says that all is there"
    monkeypatch.setattr(ahead._Card, "find", lambda device: None)
    with Ahead.begin(folder, FAMILY, CONFIG) as begun:
        assert not begun.is_ready()


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda:", "nonsense"])
def test_other_devices_have_no_card(device: str) -> None:
    assert ahead._Card.find(device) is None


@pytest.mark.parametrize(("program", "is_ready"), [("raise SystemExit(0)", True), ("1 / 0", False)])
def test_the_processs_end_says_whether_the_kernels_are_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, is_ready: bool
) -> None:
    monkeypatch.setattr(ahead, "_PROGRAM", program)
    with Ahead.begin(folder, FAMILY, CONFIG) as begun:
        assert begun.is_ready() is is_ready
        assert begun.is_ready() is is_ready


def test_a_process_that_is_not_waited_for_or_hangs_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_PROGRAM", "import time; time.sleep(3600)")
    monkeypatch.setattr(ahead, "PATIENCE_S", 0.1)
    with Ahead.begin(folder, FAMILY, CONFIG):
        pass
    with Ahead.begin(folder, FAMILY, CONFIG) as begun:
        assert not begun.is_ready()


def test_a_process_that_cannot_begin_leaves_nothing_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no process is left")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with warnings.catch_warnings(record=True, action="always", category=ResourceWarning) as left:
        with Ahead.begin(folder, FAMILY, CONFIG) as begun:
            assert not begun.is_ready()
        gc.collect()
    assert not left


def test_it_can_begin_before_torch_is_imported() -> None:
    program = "import sys, voxcli.engine.native.engine; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
