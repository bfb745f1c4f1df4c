"""Every layout of a weight gives the plain product, with bits that are the row's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from voxcli.layers import linear
from voxcli.layers.linear import Layout, Linear, best_layout

# (in, out): those of the bundled checkpoint and odd ones
SIZES = [(384, 768), (384, 2048), (1024, 384), (32, 384), (384, 32), (126, 1), (48, 7), (13, 5)]


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


# a weight that is a half-precision number, and one that is not: all layouts this machine packs
PACKED = [best_layout(torch.tensor([[value]])) for value in (0.5, 0.1)]


def test_a_layout_is_packed_on_this_machine() -> None:
    """Without one the tests below compare the plain product with itself."""
    assert Layout.PLAIN not in PACKED


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("fan_in", "fan_out"), SIZES)
def test_packed_products_equal_the_plain_one(fan_in: int, fan_out: int, has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = (torch.randn(fan_out, fan_in, generator=generator) / fan_in**0.5).half().float()
    bias = torch.randn(fan_out, generator=generator) if has_bias else None
    x = torch.randn(11, fan_in, generator=generator)
    residual = torch.randn(11, fan_out, generator=generator)
    plain = Linear(weight, bias, Layout.PLAIN)
    for layout in PACKED:
        packed = Linear(weight, bias, layout)
        torch.testing.assert_close(packed(x), plain(x), atol=1e-5, rtol=0)
        torch.testing.assert_close(
            packed.add(x, residual), plain.add(x, residual), atol=1e-5, rtol=0
        )
        assert packed(x.view(1, 11, 1, fan_in)).shape == (1, 11, 1, fan_out)
        assert packed(x[:0]).shape == (0, fan_out)


@pytest.mark.parametrize(("fan_in", "fan_out"), SIZES)
def test_a_rows_product_is_bit_equal_in_any_batch(fan_in: int, fan_out: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = (torch.randn(fan_out, fan_in, generator=generator) / fan_in**0.5).half().float()
    x = torch.randn(170, fan_in, generator=generator)
    residual = torch.randn(170, fan_out, generator=generator)
    for layout in PACKED:
        packed = Linear(weight, None, layout)
        whole, added = packed(x), packed.add(x, residual)
        for start, count in ((0, 1), (7, 2), (7, 3), (3, 5), (1, 6), (5, 7), (2, 32), (9, 97)):
            rows = slice(start, start + count)
            assert torch.equal(packed(x[rows]), whole[rows]), (layout, start, count)
            assert torch.equal(packed.add(x[rows], residual[rows]), added[rows])


def test_half_precision_layout_is_only_for_weights_that_lose_nothing() -> None:
    exact, inexact = torch.full((8, 8), 0.5), torch.full((8, 8), 0.1)
    assert torch.equal(Linear(exact)(torch.eye(8)), exact)
    assert torch.equal(Linear(inexact)(torch.eye(8)), inexact)
    too_large = torch.full((8, 8), 65536.0 * 2)  # no half-precision number
    assert torch.equal(Linear(too_large)(torch.eye(8)), too_large)


@pytest.mark.skipif(Layout.ONEDNN not in PACKED, reason="torch has no oneDNN")
@pytest.mark.parametrize("num_rows", [0, 1, 5, 6, 7, 20])
def test_a_product_in_blocks_is_the_same(num_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, bias = torch.randn(48, 32), torch.randn(48)
    x, residual = torch.randn(num_rows, 32), torch.randn(num_rows, 48)
    plain = Linear(weight, bias, Layout.PLAIN)
    monkeypatch.setattr(linear, "_has_row_tails", lambda: True)  # as with torch 2.11
    packed = Linear(weight, bias, Layout.ONEDNN)
    assert packed.num_rows(num_rows) % linear.ROW_BLOCK == 0
    torch.testing.assert_close(packed(x), plain(x), atol=1e-5, rtol=0)
    torch.testing.assert_close(packed.add(x, residual), plain.add(x, residual), atol=1e-5, rtol=0)
