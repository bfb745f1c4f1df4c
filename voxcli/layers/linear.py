"""`y = x W^T + b`, in the layout that is fastest on the device the weights are on.

On CPU a weight is packed once, in one of two ways:

* FBGEMM, where half precision holds every weight (a checkpoint in fp16, or in bf16 but for numbers
  below 6e-5): the weights stay fp16 in memory, inputs and sums are fp32, and the result is that of
  fp32 weights. Half the bytes are read, which is what bounds a few rows.
* oneDNN's blocked layout for any other fp32 weight. The oneDNN of torch 2.11 sums the last rows of
  each thread's share in another order; where a try shows that, blocks are computed one by one.

In both a row's result has the same bits whatever other rows are in the batch, which `F.linear` does
not promise. The plain product is the reference, and the path wherever neither is there.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

import warnings
from enum import Enum, auto
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

# Above this many multiply-adds a product is split over threads; below, the split costs more.
MIN_THREADED_PRODUCT = 4_000_000
# What rounding to half precision may change: the tail of bf16 numbers that are subnormal in fp16.
MAX_HALF_ERROR = 2.0**-25
# FBGEMM works in blocks of up to 6 rows; blocks of 1 and 2 rows sum in another order.
ROW_BLOCK, MIN_ROW_BLOCK = 6, 3


class Layout(Enum):
    """How a weight is kept."""

    PLAIN = auto()
    ONEDNN = auto()
    FBGEMM = auto()


def _has_onednn() -> bool:
    return bool(torch._C._has_mkldnn) and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


@cache
def _has_row_tails() -> bool:
    """Whether oneDNN's product of a row has other bits among others."""
    weight = torch.linspace(-1, 1, 64 * 384).view(64, 384).sin()
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    rows = torch.linspace(-3, 3, ROW_BLOCK * 384).view(ROW_BLOCK, 384).cos()

    def product(x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")

    whole = product(rows)
    return any(not torch.equal(product(rows[:M]), whole[:M]) for M in range(1, ROW_BLOCK))


def has_half_storage() -> bool:
    """Whether fp32 products can run on fp16 weights here."""
    return (
        "fbgemm" in torch.backends.quantized.supported_engines
        and torch.backends.cpu.get_cpu_capability() != "DEFAULT"
        and hasattr(torch, "fbgemm_pack_gemm_matrix_fp16")
    )


def best_layout(weight: Tensor) -> Layout:
    """The fastest layout that keeps the weight's values."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return Layout.PLAIN
    # in place: to get new memory takes longer than to compute
    if has_half_storage() and weight.half().float().sub_(weight).abs_().max() <= MAX_HALF_ERROR:
        return Layout.FBGEMM
    return Layout.ONEDNN if _has_onednn() else Layout.PLAIN


class Linear:
    """A frozen linear map.

    Args:
        weight: `[N, K]`.
        bias: `[N]` or None.
        layout: None for the best.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, layout: Layout | None = None):
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        self.layout = layout or best_layout(weight)
        if self.layout is Layout.FBGEMM:
            self._pack_half(weight)
        elif self.layout is Layout.ONEDNN:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        else:
            self.weight = weight

    def _pack_half(self, weight: Tensor) -> None:
        self._threaded = torch.ops.quantized.linear_prepack_fp16(weight, self.bias)
        if MIN_ROW_BLOCK * weight.numel() >= MIN_THREADED_PRODUCT:
            return  # so large that every product is split: one copy will do
        with warnings.catch_warnings():
            # Deprecated in torch; where it is gone, `has_half_storage` says no. Torch warns once a
            # process, so the first pack and the first product are made in here.
            warnings.simplefilter("ignore")
            self.weight = torch.fbgemm_pack_gemm_matrix_fp16(weight)
            self(weight.new_zeros(1, self.in_features))

    def __call__(self, x: Tensor) -> Tensor:
        """`[..., K] -> [..., N]`."""
        if self.layout is Layout.FBGEMM:
            return self._fbgemm(x)
        if self.layout is Layout.ONEDNN:
            return self._onednn(x)
        return F.linear(x, self.weight, self.bias)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """`residual + x W^T + b`, `[..., N]`."""
        if self.layout is Layout.ONEDNN and not _has_row_tails():
            return torch.ops.mkldnn._linear_pointwise.binary(
                x, residual, self.weight, self.bias, "add"
            )
        return self(x).add_(residual)

    def num_rows(self, num_rows: int) -> int:
        """The rows it computes for so many; inputs of that size need no padding here."""
        if self.layout is Layout.ONEDNN and _has_row_tails():
            return -(-num_rows // ROW_BLOCK) * ROW_BLOCK
        is_padded = self.layout is Layout.FBGEMM and 0 < num_rows % ROW_BLOCK < MIN_ROW_BLOCK
        return num_rows + MIN_ROW_BLOCK - num_rows % ROW_BLOCK if is_padded else num_rows

    def _onednn(self, x: Tensor) -> Tensor:
        product = torch.ops.mkldnn._linear_pointwise
        if not _has_row_tails():
            return product(x, self.weight, self.bias, "none", [], "")
        rows = x.reshape(-1, self.in_features)
        M = len(rows)
        blocks = F.pad(rows, (0, 0, 0, self.num_rows(M) - M)).split(ROW_BLOCK)
        done = [product(block, self.weight, self.bias, "none", [], "") for block in blocks]
        return torch.cat(done)[:M].view(*x.shape[:-1], self.out_features)

    def _fbgemm(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        M = len(rows)
        num_missing = self.num_rows(M) - M
        if num_missing:
            rows = F.pad(rows, (0, 0, 0, num_missing))
        if len(rows) * self.in_features * self.out_features < MIN_THREADED_PRODUCT:
            y = torch.fbgemm_linear_fp16_weight_fp32_activation(rows, self.weight, self.bias)
        else:
            y = torch.ops.quantized.linear_dynamic_fp16(rows, self._threaded)
        if num_missing:
            y = y[:M]
        return y.view(*x.shape[:-1], self.out_features)
