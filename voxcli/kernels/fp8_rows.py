"""Rows in eight bits, as tensor cores read them beside an e4m3 weight, and what writes them.

A few rows are pairs: e5m2 numbers, and what these lack, in e5m2 again. A pair holds a number to
2^-6 and a row to 0.3 %, needs no scale, and any kernel can write it number by number; the second
product costs little where reading the weight takes the time. Many rows are bound by arithmetic, so
they are e4m3 numbers with a scale each (`layers/fp8.py`): rounded as the weight is.

Letters: `M` rows, `K` numbers in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.layers.fp8 import FORMAT, LARGEST, SMALLEST_SCALE, quantize

PAIR_FORMAT = torch.float8_e5m2
MAX_PAIRED_ROWS = 64
_LARGEST, _SMALLEST_SCALE = tl.constexpr(LARGEST), tl.constexpr(SMALLEST_SCALE)


@dataclass(frozen=True)
class Fp8Rows:
    """`[..., K]` in eight bits.

    Attributes:
        values: e5m2 `[2, ..., K]`, to be added up; or e4m3 `[..., K]`, to be multiplied by `scale`.
        scale: fp32 `[M, 1]`; None for pairs.
    """

    values: Tensor
    scale: Tensor | None

    @property
    def is_pair(self) -> bool:
        return self.scale is None

    @property
    def shape(self) -> torch.Size:
        return self.values.shape[1:] if self.is_pair else self.values.shape

    @property
    def num_rows(self) -> int:
        return self.shape[:-1].numel()

    def widened(self) -> Tensor:
        """fp32 `[M, K]`."""
        rows = self.values.float().flatten(-self.values.ndim if self.is_pair else 0, -2)
        return rows.view(2, -1, rows.shape[-1]).sum(0) if self.scale is None else rows * self.scale


def new_rows(shape: torch.Size | tuple[int, ...], device: torch.device) -> Fp8Rows:
    """Room for rows, in the format that so many take."""
    M = torch.Size(shape[:-1]).numel()
    if M <= MAX_PAIRED_ROWS:
        return Fp8Rows(torch.empty(2, *shape, dtype=PAIR_FORMAT, device=device), None)
    scale = torch.empty(M, 1, device=device)
    return Fp8Rows(torch.empty(shape, dtype=FORMAT, device=device), scale)


def quantized_reference(x: Tensor) -> Fp8Rows:
    if x.shape[:-1].numel() <= MAX_PAIRED_ROWS:
        high = x.float().to(PAIR_FORMAT)
        return Fp8Rows(torch.stack((high, (x.float() - high.float()).to(PAIR_FORMAT))), None)
    values, scale = quantize(x.flatten(0, -2))
    return Fp8Rows(values.view(x.shape), scale.unsqueeze(1))


def rms_norm_reference(x: Tensor, norm: Tensor, eps: float) -> Fp8Rows:
    return quantized_reference(F.rms_norm(x, norm.shape, norm, eps))


def add_norm_reference(
    parts: Tensor, residual: Tensor, norm: Tensor, eps: float
) -> tuple[Tensor, Fp8Rows]:
    total = residual + parts.sum(0)
    return total, rms_norm_reference(total, norm, eps)


def swiglu_reference(x: Tensor) -> Fp8Rows:
    gate, up = x.chunk(2, dim=-1)
    return quantized_reference(F.silu(gate) * up)


@triton.jit
def store_pair(y, values, places, step, mask):
    """Store fp32 numbers as two; `step` is from the first to the second."""
    high = y.to(tl.float8e5)
    tl.store(values + places, high, mask=mask)
    tl.store(values + step + places, (y - high.to(tl.float32)).to(tl.float8e5), mask=mask)


@triton.jit
def _store_row(y, values, scale, row, k, M, K: tl.constexpr, IS_PAIR: tl.constexpr):
    """Store a row of fp32 numbers, which are 0 beyond K."""
    if IS_PAIR:
        store_pair(y, values, row * K + k, M * K, k < K)
    else:
        largest = tl.max(tl.abs(y), axis=0)
        unit = tl.where(largest > 0.0, tl.maximum(largest / _LARGEST, _SMALLEST_SCALE), 1.0)
        y = tl.minimum(tl.maximum(y / unit, -_LARGEST), _LARGEST)
        tl.store(values + row * K + k, y.to(tl.float8e4nv), mask=k < K)
        tl.store(scale + row, unit)


@triton.jit(do_not_specialize=["M"])
def _quantize(
    x, values, scale, M,
    K: tl.constexpr, IS_PAIR: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    wait(EARLY)
    y = tl.load(x + row * K + k, mask=k < K, other=0.0).to(tl.float32)
    _store_row(y, values, scale, row, k, M, K, IS_PAIR)


def quantized(x: Tensor) -> Fp8Rows:
    """`[..., K]`."""
    assert x.is_contiguous(), x.stride()
    rows, K = new_rows(x.shape, x.device), x.shape[-1]
    launch(
        _quantize, (rows.num_rows,),
        x, rows.values, rows.scale, rows.num_rows, K, rows.is_pair, triton.next_power_of_2(K),
        num_warps=4, **options(x.device),
    )  # fmt: skip
    return rows


@triton.jit(do_not_specialize=["M"])
def _norm(
    parts, residual, norm, total, values, scale, eps, M,
    K: tl.constexpr, NUM_PARTS: tl.constexpr, IS_PAIR: tl.constexpr, BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    places = row * K + k
    weight = tl.load(norm + k, mask=k < K, other=0.0).to(tl.float32)
    wait(EARLY)
    y = tl.load(residual + places, mask=k < K, other=0.0).to(tl.float32)
    if NUM_PARTS > 0:
        for part in tl.static_range(NUM_PARTS):
            y += tl.load(parts + part * M * K + places, mask=k < K, other=0.0).to(tl.float32)
        rounded = y.to(total.dtype.element_ty)
        tl.store(total + places, rounded, mask=k < K)
        y = rounded.to(tl.float32)
    y *= tl.rsqrt(tl.sum(y * y, axis=0) / K + eps) * weight
    _store_row(y, values, scale, row, k, M, K, IS_PAIR)


def _run_norm(
    parts: Tensor | None, residual: Tensor, total: Tensor | None, norm: Tensor, eps: float
) -> Fp8Rows:
    assert residual.is_contiguous(), residual.stride()
    rows, K = new_rows(residual.shape, residual.device), residual.shape[-1]
    launch(
        _norm, (rows.num_rows,),
        parts, residual, norm, total, rows.values, rows.scale, eps, rows.num_rows, K,
        0 if parts is None else len(parts), rows.is_pair, triton.next_power_of_2(K),
        num_warps=4, **options(residual.device),
    )  # fmt: skip
    return rows


def rms_norm(x: Tensor, norm: Tensor, eps: float) -> Fp8Rows:
    """The RMS norm of `[..., K]`."""
    return _run_norm(None, x, None, norm, eps)


def add_norm(
    parts: Tensor, residual: Tensor, norm: Tensor, eps: float, *, keep: bool = False
) -> tuple[Tensor, Fp8Rows]:
    """`residual [..., K]` plus all of `parts [n, M, K]`, and its RMS norm.

    `residual` is lost unless `keep`.
    """
    total = torch.empty_like(residual) if keep else residual
    return total, _run_norm(parts, residual, total, norm, eps)


@triton.jit(do_not_specialize=["M"])
def _swiglu(
    x, values, scale, M,
    N: tl.constexpr, IS_PAIR: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    n = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    wait(EARLY)
    gate = tl.load(x + row * 2 * N + n, mask=n < N, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * N + N + n, mask=n < N, other=0.0).to(tl.float32)
    _store_row(gate / (1.0 + tl.exp(-gate)) * up, values, scale, row, n, M, N, IS_PAIR)


def swiglu(x: Tensor) -> Fp8Rows:
    """`silu(g) * u` of `[..., 2 N]`, g first."""
    assert x.is_contiguous(), x.stride()
    N = x.shape[-1] // 2
    rows = new_rows((*x.shape[:-1], N), x.device)
    launch(
        _swiglu, (rows.num_rows,),
        x, rows.values, rows.scale, rows.num_rows, N, rows.is_pair, triton.next_power_of_2(N),
        num_warps=8, **options(x.device),
    )  # fmt: skip
    return rows
