"""Products of a few rows with a large weight, with what stands around them in a transformer layer.

With few rows a product is bound by reading its weight, so norm, activation and residual ride along:
RMSNorm needs one number a row, which is summed while the row is read and applied to the result.
Above `MAX_ROWS` rows the tensor cores are the bound and cuBLAS takes over.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import options, prefetch, wait

MAX_ROWS = 64
LINE = 64  # bf16 numbers in one line of the L2 cache


def rms_linear_reference(
    x: Tensor, norm: Tensor, eps: float, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    return F.linear(F.rms_norm(x, norm.shape, norm, eps), weight, bias)


def rms_swiglu_reference(x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
    gate, up = rms_linear_reference(x, norm, eps, weight).chunk(2, dim=-1)
    return F.silu(gate) * up


def linear_add_reference(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    return F.linear(x, weight) + residual


@triton.jit
def _linear(
    x, weight, norm, bias, residual, out, M, eps,
    N: tl.constexpr, K: tl.constexpr,
    HAS_NORM: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    IS_SWIGLU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PREFETCH: tl.constexpr, LINE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    in_n, in_m = n < N, m < M
    if EARLY:
        lines = tl.arange(0, PREFETCH // LINE) * LINE
        rows = tl.minimum(n, N - 1)
        prefetch(weight + rows[:, None] * K + lines[None, :], EARLY)
        if IS_SWIGLU:
            prefetch(weight + (N + rows[:, None]) * K + lines[None, :], EARLY)
    wait(EARLY)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    square = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + m[:, None] * K + k[None, :], mask=in_m[:, None], other=0.0)
        if HAS_NORM:
            wide = a.to(tl.float32)
            square += tl.sum(wide * wide, axis=1)
            a = (wide * tl.load(norm + k).to(tl.float32)[None, :]).to(a.dtype)
        b = tl.load(weight + n[None, :] * K + k[:, None], mask=in_n[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        if IS_SWIGLU:
            b = tl.load(weight + (N + n[None, :]) * K + k[:, None], mask=in_n[None, :], other=0.0)
            up = tl.dot(a, b, up)
    if HAS_NORM:
        scale = tl.rsqrt(square / K + eps)[:, None]
        acc *= scale
        up *= scale
    if HAS_BIAS:
        acc += tl.load(bias + n, mask=in_n, other=0.0).to(tl.float32)[None, :]
    if IS_SWIGLU:
        acc = acc / (1.0 + tl.exp(-acc)) * up
    places = m[:, None] * N + n[None, :]
    inside = in_m[:, None] & in_n[None, :]
    if HAS_RESIDUAL:
        acc += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + places, acc.to(out.dtype.element_ty), mask=inside)


@cache
def tiles(M: int, N: int, K: int, is_swiglu: bool) -> tuple[int, int, int, int, int]:
    """Rows, outputs and inputs of a block, warps, stages; found by measuring on an H100."""
    block_m = 16 if M <= 16 else 32 if M <= 32 else 64
    block_n = 16 if N <= 2048 else 32
    block_k = next(size for size in (256, 128, 64, 32, 16) if K % size == 0)
    return block_m, block_n, block_k, 4, 3 if is_swiglu else 4


def _run(
    x: Tensor,
    weight: Tensor,
    *,
    norm: Tensor | None = None,
    eps: float = 0.0,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    is_swiglu: bool = False,
) -> Tensor:
    K = x.shape[-1]
    N = weight.shape[0] // (2 if is_swiglu else 1)
    M = x.numel() // K
    assert x.is_contiguous() and weight.is_contiguous(), (x.stride(), weight.stride())
    assert residual is None or residual.is_contiguous(), residual.stride()
    out = x.new_empty(*x.shape[:-1], N)
    block_m, block_n, block_k, num_warps, num_stages = tiles(M, N, K, is_swiglu)
    _linear[(triton.cdiv(N, block_n), triton.cdiv(M, block_m))](
        x, weight, norm, bias, residual, out, M, eps, N, K,
        norm is not None, bias is not None, residual is not None, is_swiglu,
        block_m, block_n, block_k, prefetched(K), LINE,
        num_warps=num_warps, num_stages=num_stages, **options(x.device),
    )  # fmt: skip
    return out


def prefetched(K: int) -> int:
    """How much of each weight row is fetched early: a power of two up to 1024 numbers."""
    return max(LINE, min(1024, 1 << (K.bit_length() - 1)))


def rms_linear(
    x: Tensor, norm: Tensor, eps: float, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """`rms_norm(x) W^T + b`; `[..., K] -> [..., N]`."""
    if x.numel() // x.shape[-1] > MAX_ROWS:
        return rms_linear_reference(x, norm, eps, weight, bias)
    return _run(x, weight, norm=norm, eps=eps, bias=bias)


def linear_add(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    """`residual + x W^T`; `[..., K] -> [..., N]`."""
    if x.numel() // x.shape[-1] > MAX_ROWS:
        flat = torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.t())
        return flat.view_as(residual)
    return _run(x, weight, residual=residual)


def rms_swiglu(x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
    """`silu(g) * u` of `g, u = rms_norm(x) W^T`; `[..., K] -> [..., N]`, weight `[2 N, K]`."""
    if x.numel() // x.shape[-1] > MAX_ROWS:
        return swiglu(rms_linear_reference(x, norm, eps, weight))
    return _run(x, weight, norm=norm, eps=eps, is_swiglu=True)


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
    _swiglu[(triton.cdiv(N, 1024), rows)](x, out, N, 1024, num_warps=4, **options(x.device))
    return out
