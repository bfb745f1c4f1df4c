"""Products with weights in half precision on a CPU, for any number of rows, in torch's threads.

FBGEMM reads a weight once for each block of six rows, and computes three rows for one or two. Here
a weight is read once for up to 96 rows, and no row is computed that nobody asked for.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from voxcli.kernels.native import load, loaded
from voxcli.layers.linear import Layout, Linear

COLUMNS = 16
# Multiply-adds from which on a product is split over threads; below, the split costs more.
MIN_THREADED = 1_000_000


def pack(weight: Tensor) -> Tensor:
    """`[N, K]` to fp16 `[N / COLUMNS, K, COLUMNS]`."""
    return weight.half().view(-1, COLUMNS, weight.shape[1]).transpose(1, 2).contiguous()


def product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """`x [M, K]` times a packed weight, plus `bias [N]`; `[M, N]`."""
    M, K = x.shape
    N = len(packed) * COLUMNS
    assert x.dtype == torch.float32, x.dtype
    assert x.is_contiguous(), x.stride()
    assert packed.shape[1] == K, (packed.shape, x.shape)
    assert bias is None or bias.shape == (N,), (bias.shape, N)
    y = x.new_empty(M, N)
    library = loaded()
    num_threads = torch.get_num_threads() if M * N * K >= MIN_THREADED else 1
    library.vox_product(
        x.data_ptr(), packed.data_ptr(), 0 if bias is None else bias.data_ptr(), y.data_ptr(),
        _parallel(), M, N, K, num_threads,
    )  # fmt: skip
    return y


@cache
def _parallel() -> int | None:
    """Address of the call that runs a function in torch's own threads, where torch has OpenMP."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


@cache
def is_available() -> bool:
    """Whether the kernel runs here, and torch lends it threads."""
    library = load()
    has_kernel = library is not None and library.vox_instructions() == b"AVX2"
    return has_kernel and _parallel() is not None


def supports(weight: Tensor, layout: Layout) -> bool:
    """Whether a weight, whose best layout is known, can be a `NativeLinear`."""
    return layout is Layout.FBGEMM and len(weight) % COLUMNS == 0 and is_available()


class NativeLinear(Linear):
    """`Linear` whose products are the kernel's, of a weight that it `supports`."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__(weight, bias, Layout.PLAIN)
        self.weight = pack(weight)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).contiguous()
        return product(rows, self.weight, self.bias).view(*x.shape[:-1], self.out_features)
