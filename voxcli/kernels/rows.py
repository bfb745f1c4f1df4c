"""What stands between two products and needs whole rows: RMS norm, sums, SwiGLU.

The same for rows in eight bits is in `kernels/fp8_rows.py`.

Letters: `M` rows, `K` or `N` numbers in a row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait

SWIGLU_BLOCK = 1024


def num_rows(x: Tensor) -> int:
    assert x.is_contiguous(), x.stride()
    return x.numel() // x.shape[-1]


@triton.jit
def _rms_norm(x, norm, out, eps, K: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    k = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * K
    weight = tl.load(norm + k, mask=k < K, other=0.0).to(tl.float32)
    wait(EARLY)
    a = tl.load(x + row + k, mask=k < K, other=0.0).to(tl.float32)
    a *= tl.rsqrt(tl.sum(a * a, axis=0) / K + eps) * weight
    tl.store(out + row + k, a.to(out.dtype.element_ty), mask=k < K)


def rms_norm(x: Tensor, norm: Tensor, eps: float) -> Tensor:
    """The RMS norm of `[..., K]`."""
    K = x.shape[-1]
    out = torch.empty_like(x)
    launch(
        _rms_norm, (num_rows(x),),
        x, norm, out, eps, K, triton.next_power_of_2(K),
        num_warps=4, **options(x.device),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["M"])
def _add_norm(
    parts, residual, norm, out, normed, eps, M,
    K: tl.constexpr, NUM_PARTS: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * K
    weight = tl.load(norm + k, mask=k < K, other=0.0).to(tl.float32)
    wait(EARLY)
    total = tl.load(residual + row + k, mask=k < K, other=0.0).to(tl.float32)
    for part in tl.static_range(NUM_PARTS):
        total += tl.load(parts + part * M * K + row + k, mask=k < K, other=0.0).to(tl.float32)
    total = total.to(residual.dtype.element_ty)
    tl.store(out + row + k, total, mask=k < K)
    a = total.to(tl.float32)
    a *= tl.rsqrt(tl.sum(a * a, axis=0) / K + eps) * weight
    tl.store(normed + row + k, a.to(normed.dtype.element_ty), mask=k < K)


def add_norm(
    parts: Tensor, residual: Tensor, norm: Tensor, eps: float, *, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """`residual [..., K]` plus all of `parts [n, M, K]`, and its RMS norm.

    `residual` is lost unless `keep`.
    """
    assert residual.is_contiguous(), residual.stride()
    n, M, K = parts.shape
    total = torch.empty_like(residual) if keep else residual
    normed = torch.empty_like(residual)
    launch(
        _add_norm, (M,),
        parts, residual, norm, total, normed, eps, M, K, n, triton.next_power_of_2(K),
        num_warps=4, **options(residual.device),
    )  # fmt: skip
    return total, normed


@triton.jit
def _swiglu(x, out, N: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1).to(tl.int64)
    wait(EARLY)
    gate = tl.load(x + row * 2 * N + n, mask=n < N).to(tl.float32)
    up = tl.load(x + row * 2 * N + N + n, mask=n < N).to(tl.float32)
    tl.store(out + row * N + n, (gate / (1.0 + tl.exp(-gate)) * up).to(x.dtype.element_ty), n < N)


def swiglu(x: Tensor) -> Tensor:
    """`silu(g) * u` of `[..., 2 N]`, g first."""
    N = x.shape[-1] // 2
    out = x.new_empty(*x.shape[:-1], N)
    rows = x.numel() // (2 * N)
    launch(
        _swiglu, (triton.cdiv(N, SWIGLU_BLOCK), rows),
        x, out, N, SWIGLU_BLOCK,
        num_warps=4, **options(x.device),
    )  # fmt: skip
    return out
