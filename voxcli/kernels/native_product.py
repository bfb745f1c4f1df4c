"""Products of few rows on a CPU, with the bits of FBGEMM's in a third to nine tenths of the time.

FBGEMM reads a weight once for each block of six rows, and computes three rows for one or two. Here
a weight is read once for all rows, and no row is computed that nobody asked for.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from voxcli.kernels.native import load
from voxcli.layers.linear import ROW_BLOCK, Layout, Linear

COLUMNS = 16
# Multiply-adds from which on two threads of FBGEMM are worth it; below, one here is as fast.
MIN_THREADED = 10_000_000


def pack(weight: Tensor) -> Tensor:
    """`[N, K]` to fp16 `[N / COLUMNS, K, COLUMNS]`."""
    return weight.half().view(-1, COLUMNS, weight.shape[1]).transpose(1, 2).contiguous()


def product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """`x [M, K]` times a packed weight, plus `bias [N]`; `[M, N]`."""
    M, K = x.shape
    assert x.dtype == torch.float32, x.dtype
    assert x.is_contiguous(), x.stride()
    N = len(packed) * COLUMNS
    assert packed.shape[1] == K, (packed.shape, x.shape)
    assert packed.is_contiguous(), packed.stride()
    assert bias is None or bias.shape == (N,), (bias, N)
    y = x.new_empty(M, N)
    library = load()
    assert library is not None
    address = 0 if bias is None else bias.data_ptr()
    library.vox_product(x.data_ptr(), packed.data_ptr(), address, y.data_ptr(), M, N, K)
    return y


@cache
def is_available() -> bool:
    """Whether the kernel is there and has FBGEMM's bits on this machine, as larger products do."""
    library = load()
    if library is None or library.vox_instructions() != b"AVX2":
        return False
    weight = torch.randn(48, 1100, generator=torch.Generator().manual_seed(0)).half().float()
    plain, x = Linear(weight), weight[:ROW_BLOCK] / 7
    return plain.layout is Layout.FBGEMM and torch.equal(product(x, pack(weight), None), plain(x))


def supports(weight: Tensor) -> bool:
    """Whether a weight can be a `NativeLinear`.

    NOTE: FBGEMM cuts long sums of the columns behind its last 16; so they have other bits.
    """
    return weight.device.type == "cpu" and len(weight) % COLUMNS == 0 and is_available()


class NativeLinear(Linear):
    """`Linear` whose products of few rows are the kernel's, of a weight that it `supports`."""

    min_threaded = MIN_THREADED

    def _pack_few(self, weight: Tensor) -> None:
        self.weight = pack(weight)

    def num_rows(self, num_rows: int) -> int:
        size = num_rows * self.in_features * self.out_features
        return num_rows if size < self.min_threaded else super().num_rows(num_rows)

    def _few(self, rows: Tensor) -> Tensor:
        return product(rows.contiguous(), self.weight, self.bias)
