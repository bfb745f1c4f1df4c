"""Which kernel a residual unit takes, and that its blocks fit; without a card."""

from __future__ import annotations

import ctypes

import pytest
import torch

from voxcli.kernels import residual_unit
from voxcli.kernels.cubin import source_of
from voxcli.kernels.residual_unit import FILTER, MIN_ROWS, UNITS, Kind

CARD = torch.device("meta")
KINDS = [*UNITS.values(), FILTER]


def kind_for(C: int, dtype: torch.dtype = torch.float16, num_rows: int = MIN_ROWS) -> Kind | None:
    return residual_unit.kind_for(C, (1, 3, 9), num_rows, dtype, CARD)


def test_which_kernel_a_unit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind_for(64) is None  # no card
    monkeypatch.setattr(residual_unit, "capability", lambda device: residual_unit.CAPABILITY)
    assert [kind_for(C) for C in (32, 64, 128, 256, 1024)] == [
        *(UNITS[C] for C in (32, 64, 128)), FILTER, FILTER
    ]  # fmt: skip
    assert kind_for(96) is kind_for(16) is None
    assert kind_for(64, torch.float32) is None
    assert residual_unit.kind_for(64, (1, 2), MIN_ROWS, torch.float16, CARD) is None
    assert kind_for(64, num_rows=MIN_ROWS - 1) is None
    monkeypatch.setenv(residual_unit.SWITCH, "0")
    assert kind_for(64) is None


def test_what_is_compiled_ahead_is_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Kind] = []
    monkeypatch.setattr(residual_unit, "capability", lambda device: residual_unit.CAPABILITY)
    monkeypatch.setattr(residual_unit, "_compiling", begun.append)
    channels = (1024, 512, 256, 128, 64, 32, 16)
    residual_unit.compile_ahead(torch.device("cpu"), channels, torch.float16)
    residual_unit.compile_ahead(torch.device("cuda", 0), channels, torch.float32)
    assert not begun
    residual_unit.compile_ahead(torch.device("cuda", 0), channels, torch.float16)
    assert len(begun) == 4
    assert set(begun) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_fit(kind: Kind) -> None:
    assert kind.blocks * (kind.shared_bytes + 1024) <= 228 * 1024
    assert kind.deep * kind.channels % 64 == 0  # every thread has whole chains
    assert f"WARPS = {kind.num_threads // 32}" in source_of("residual_unit")
    assert ctypes.sizeof(residual_unit._Params) == 12 * 8 + 6 * 4  # the last four bytes are empty


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_has_two_tiles_or_the_only_one(kind: Kind) -> None:
    for num_tiles in (1, 2, 3, 54):
        for T in ((num_tiles - 1) * kind.num_rows + 1, num_tiles * kind.num_rows):
            num_blocks = residual_unit.num_blocks(T, kind)
            assert num_blocks == (num_tiles + 1) // 2
