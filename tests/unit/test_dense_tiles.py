"""Tiles of `kernels/dense.py` without a card: what fits, and which product takes which."""

from __future__ import annotations

import logging
import re
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from voxcli.kernels import cubin, dense
from voxcli.kernels.cubin import CubinError
from voxcli.kernels.dense import MAX_SHARED_BYTES, Tiles

ALL = [Tiles(w, d, rows) for w, d in ((1, 1), (2, 1), (2, 2)) for rows in (16, 96, 176, 192)]


@pytest.mark.parametrize("tiles", ALL, ids=str)
def test_tiles_fit_into_a_processor(tiles: Tiles) -> None:
    assert tiles.shared_bytes <= MAX_SHARED_BYTES
    assert tiles.num_stages >= 3
    taken = tiles.consumer_registers * 128 * tiles.warpgroups + 24 * tiles.num_producers
    assert taken <= 65536
    assert not tiles.consumer_registers or tiles.consumer_registers % 8 == 0


@pytest.mark.parametrize("num_rows", [16, 176, 256])
def test_the_product_names_each_sum_once(num_rows: int) -> None:
    text = dense.wgmma(num_rows)
    assert f"m64n{num_rows}k16." in text
    sums = [int(index) for index in re.findall(r'"\+f"\(d\[(\d+)\]\)', text)]
    assert sums == list(range(num_rows // 2))
    places = [int(index) for index in re.findall(r"%(\d+)", text)]
    assert sorted(places) == list(range(num_rows // 2 + 3))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[dense.Size, tuple[dense.Rule, ...]]:
    monkeypatch.setattr(dense, "is_available", lambda device: True)
    rules: dict[dense.Size, tuple[dense.Rule, ...]] = {}
    monkeypatch.setattr(dense, "TABLE", rules)
    return rules


def test_a_product_takes_the_tiles_of_the_next_larger_number_of_rows(
    table: dict[dense.Size, tuple[dense.Rule, ...]],
) -> None:
    few, many = Tiles(1, 1, 16), Tiles(2, 2, 176, parts=2)
    table[64, 128, False] = ((16, few), (32, None), (1408, many))
    weight = torch.empty(64, 128, dtype=torch.bfloat16)

    def chosen(num_rows: int, *, can_part: bool = True) -> Tiles | None:
        return dense.choice(torch.empty(num_rows, 128), weight, can_part=can_part)

    assert [chosen(rows) for rows in (1, 16, 17, 32, 33, 1408, 1409)] == [
        few, few, None, None, many, many, None,
    ]  # fmt: skip
    assert chosen(1408, can_part=False) is None


def test_sizes_that_nobody_measured_are_left_to_others(
    table: dict[dense.Size, tuple[dense.Rule, ...]],
) -> None:
    table[64, 128, True] = ((1408, Tiles(1, 1, 16)),)
    weight = torch.empty(128, 128, dtype=torch.bfloat16)
    rows = torch.empty(9, 128)
    assert dense.choice(rows, weight, is_swiglu=True, can_part=False) is not None
    assert dense.choice(rows, weight, can_part=False) is None
    assert dense.choice(rows, weight[:64], is_swiglu=True, can_part=False) is None
    eight = weight.to(torch.float8_e4m3fn)
    assert dense.choice(rows, eight, is_swiglu=True, can_part=False) is None


def test_the_switch_leaves_products_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "capability", lambda device: dense.CAPABILITY)
    assert dense.is_available.__wrapped__(torch.device("meta"))
    monkeypatch.setenv(dense.SWITCH, "0")
    assert not dense.is_available.__wrapped__(torch.device("meta"))


def test_a_kernel_that_cannot_be_compiled_leaves_products_to_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(source: bytes, options: tuple[str, ...]) -> Future[bytes]:
        future: Future[bytes] = Future()
        future.set_exception(CubinError("NVRTC: no"))
        return future

    monkeypatch.setattr(dense, "capability", lambda device: dense.CAPABILITY)
    monkeypatch.setattr(dense, "compiling", refuse)
    with caplog.at_level(logging.INFO):
        assert not dense.is_available.__wrapped__(torch.device("cuda", 0))
    assert "NVRTC: no" in caplog.text


def test_a_source_is_compiled_once_and_its_refusal_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def refuse(source: bytes, options: tuple[str, ...], folder: Path) -> bytes:
        calls.append(source)
        raise CubinError("NVRTC: no")

    monkeypatch.setattr(cubin, "compiled", refuse)
    monkeypatch.setattr(cubin, "_started", {})
    first, second = (cubin.compiling(b"x", ("-a",)) for _ in range(2))
    other = cubin.compiling(b"x", ("-b",))
    assert first is second
    for future in (first, other):
        with pytest.raises(CubinError, match="NVRTC: no"):
            future.result()
    assert len(calls) == 2


def test_what_is_compiled_ahead_is_what_the_table_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dense.Kernel] = []
    monkeypatch.setattr(dense, "capability", lambda device: dense.CAPABILITY)
    monkeypatch.setattr(dense, "_compiling", begun.append)
    weights = [
        (torch.empty(2 * N if is_swiglu else N, K, dtype=torch.bfloat16), is_swiglu)
        for N, K, is_swiglu in dense.TABLE
    ]
    dense.compile_ahead(torch.device("cpu"), weights)
    assert not begun
    dense.compile_ahead(torch.device("cuda", 0), weights)
    wanted = {
        (replace(tiles, parts=1), is_swiglu)
        for (_, _, is_swiglu), rules in dense.TABLE.items()
        for _, tiles in rules
        if tiles is not None
    }
    assert set(begun) == wanted
    begun.clear()
    dense.compile_ahead(
        torch.device("cuda", 0), [(torch.empty(7, 64, dtype=torch.bfloat16), False)]
    )
    assert not begun
    dense.compile_ahead(torch.device("cuda", 0), weights[:1])
    assert dense._TRIED in begun  # which stands before any choice
    begun.clear()
    monkeypatch.setenv(dense.SWITCH, "0")
    dense.compile_ahead(torch.device("cuda", 0), weights)
    assert not begun


def test_every_entry_of_the_table_can_run() -> None:
    for (N, K, is_swiglu), rules in dense.TABLE.items():
        rows = [most for most, _ in rules]
        assert rows == sorted(rows), (N, K)
        assert any(tiles is not None for _, tiles in rules), (N, K)
        for _, tiles in rules:
            if tiles is not None:
                assert K % (dense.SLICE_BYTES // 2 * tiles.parts) == 0, (N, K, tiles)
                assert not is_swiglu or tiles.parts == 1, (N, K, tiles)
                assert tiles.shared_bytes <= MAX_SHARED_BYTES, (N, K, tiles)
