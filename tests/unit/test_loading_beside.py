"""What is loaded beside a model is there before graphs are captured, and its faults stay quiet."""

from __future__ import annotations

import threading

import pytest
import torch

from voxcli.engine.native import card
from voxcli.engine.native.card import loading_beside

CPU = torch.device("cpu")


def test_the_products_that_load_a_library_run() -> None:
    card._multiply(CPU)


def test_a_block_ends_when_all_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, loaded = threading.Event(), []

    def slow(device: torch.device) -> None:
        may_end.wait(60)
        loaded.append(device)

    monkeypatch.setattr(card, "_multiply", slow)
    with loading_beside(CPU):
        assert not loaded
        may_end.set()
    assert loaded == [CPU]


def test_what_cannot_be_loaded_is_left_to_who_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(device: torch.device) -> None:
        raise RuntimeError("no such library")

    monkeypatch.setattr(card, "_multiply", failing)
    with loading_beside(CPU):
        pass
    assert not capsys.readouterr().err
