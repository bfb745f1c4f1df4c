"""Products on a CPU for any number of rows and columns, in threads of their own.

FBGEMM reads a weight once for each block of six rows, and computes three rows for one or two. Here
a weight is read once for up to 96 rows, and no row is computed that nobody asked for. oneDNN leaves
half of a processor idle where a product is 18 or 36 numbers wide, as the vocoder's last ones are.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels import arrays
from voxcli.kernels.native import load, loaded
from voxcli.kernels.structs import MIN_THREADED, VECTORS, PanelsStruct
from voxcli.layers import cores
from voxcli.layers.linear import Layout, Linear


@dataclass(frozen=True)
class Panels:
    """A weight and its bias as `native_panels.h` reads them.

    Attributes:
        weight: panels of `[K, columns]`, one behind the other; fp16 or fp32.
        bias: `[N]` and zeros up to a whole vector; None for no bias.
        vector: numbers of a vector.
    """

    weight: Tensor
    bias: Tensor | None
    vector: int
    out_features: int
    in_features: int

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Panels:
        """Of a weight `[N, K]`, kept in `dtype`."""
        N, K = weight.shape
        vector = loaded().vox_vector()
        num_vectors = -(-N // vector)
        num_panels = -(-num_vectors // VECTORS)
        missing = num_vectors * vector - N
        ends = [vector * (num_vectors * i // num_panels) for i in range(num_panels + 1)]
        rows = weight.to(dtype)
        packed = rows.new_zeros((N + missing) * K) if missing else rows.new_empty(N * K)
        for first, stop in pairwise(ends):
            panel = packed[first * K : stop * K].view(K, stop - first)
            panel[:, : N - first].copy_(rows[first:stop].T)
        return cls(packed, None if bias is None else F.pad(bias, (0, missing)), vector, N, K)

    def as_struct(self, *, is_sum: bool = False) -> PanelsStruct:
        """As C reads them.

        Args:
            is_sum: the product is added to what it is written to.
        """
        is_half = self.weight.dtype == torch.half
        return PanelsStruct(*self.addresses, self.out_features, self.in_features, is_half, is_sum)

    @property
    def addresses(self) -> tuple[int, int]:
        """Of weight and bias."""
        return self.weight.data_ptr(), 0 if self.bias is None else self.bias.data_ptr()


def product(x: Tensor, panels: Panels) -> Tensor:
    """`x [M, K]` times a weight, plus its bias; `[M, N]`."""
    M, K = x.shape
    N = panels.out_features
    assert x.dtype == torch.float32, x.dtype
    assert x.is_contiguous(), x.stride()
    assert panels.in_features == K, (panels.in_features, x.shape)
    y = x.new_empty(M, N)
    num_threads = cores.num_threads() if M * N * K >= MIN_THREADED else 1
    loaded().vox_product(
        x.data_ptr(), *panels.addresses, y.data_ptr(), parallel(),
        M, N, K, panels.weight.dtype == torch.half, panels.vector, num_threads,
    )  # fmt: skip
    return y


def parallel() -> int | None:
    """Address of the call that runs a function in the kernels' own threads, where they have any."""
    return arrays.parallel() if sys.platform == "linux" else None


def is_available() -> bool:
    """Whether the kernel runs here, and in threads."""
    library = load()
    has_kernel = library is not None and library.vox_vector() > 0
    return has_kernel and parallel() is not None


class NativeLinear(Linear):
    """`Linear` whose products are the kernel's, where it `is_available`.

    Args:
        dtype: in which the weight is kept; fp16 where that holds it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__(weight, bias, Layout.PLAIN)
        self.panels = Panels.of(weight, bias, dtype)
        self.weight = self.panels.weight

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).contiguous()
        return product(rows, self.panels).view(*x.shape[:-1], self.out_features)
