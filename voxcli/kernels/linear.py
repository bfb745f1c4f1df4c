"""Products of a few rows with a large weight, with what stands around them in a transformer layer.

With few rows a product is bound by reading its weight. One row takes `_gemv`, which has its
weights on their way before the kernel in front has finished, and carries norm, activation and
residual along. Up to `MAX_TALL_ROWS` rows take `_tall`, on the tensor cores, with the sum split
over programs where there are few outputs. Above that cuBLAS takes over, with the sum in parts where
its own tiles would leave most of the card idle. Where `dense.py` was faster than either, it comes
first.

A weight may have eight bits (`layers/fp8.py`). One row takes `_gemv` all the same, which widens it
in registers; more rows get eight bits too, in `kernels/fp8.py`.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels import dense, fp8
from voxcli.kernels.fp8_rows import Fp8Rows, quantized
from voxcli.kernels.fp8_rows import rms_norm as fp8_norm
from voxcli.kernels.launch import counters, launch, options, wait
from voxcli.kernels.rows import add_norm, num_rows, rms_norm, swiglu
from voxcli.layers.fp8 import Fp8Weight

MAX_TALL_ROWS = 32
NUM_PROCESSORS = 132  # of the card that tiles are chosen for
MIN_PART, MAX_PARTS = 1024, 4  # inputs of a part of a sum, parts

Weight = Tensor | Fp8Weight


def rms_linear_reference(
    x: Tensor, norm: Tensor, eps: float, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    return F.linear(F.rms_norm(x, norm.shape, norm, eps), weight, bias)


def rms_swiglu_reference(x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
    gate, up = rms_linear_reference(x, norm, eps, weight).chunk(2, dim=-1)
    return F.silu(gate) * up


def linear_add_norm_reference(
    x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    total = linear_add_reference(x, weight, residual)
    return total, F.rms_norm(total, norm.shape, norm, eps)


def linear_add_reference(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    return F.linear(x, weight) + residual


@triton.jit
def _gemv(
    x, weight, scale, norm, bias, residual, out, eps,
    N: tl.constexpr, K: tl.constexpr, HAS_SCALE: tl.constexpr,
    HAS_NORM: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    IS_SWIGLU: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    in_n = n < N
    rows = weight + n[:, None] * K + k[None, :]
    w = tl.load(rows, mask=in_n[:, None], other=0.0, eviction_policy="evict_first")
    if IS_SWIGLU:
        u = tl.load(rows + N * K, mask=in_n[:, None], other=0.0, eviction_policy="evict_first")
    wait(EARLY)
    sums = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    ups = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    squares = tl.zeros((BLOCK_K,), tl.float32)
    for start in tl.static_range(0, K, BLOCK_K):
        if start > 0:
            w = tl.load(rows + start, mask=in_n[:, None], other=0.0, eviction_policy="evict_first")
            if IS_SWIGLU:
                u = tl.load(
                    rows + N * K + start, mask=in_n[:, None], other=0.0,
                    eviction_policy="evict_first",
                )  # fmt: skip
        a = tl.load(x + start + k).to(tl.float32)
        if HAS_NORM:
            squares += a * a
            a *= tl.load(norm + start + k).to(tl.float32)
        sums += w.to(tl.float32) * a[None, :]
        if IS_SWIGLU:
            ups += u.to(tl.float32) * a[None, :]
    y = tl.sum(sums, axis=1)
    up = tl.sum(ups, axis=1)
    if HAS_SCALE:
        y *= tl.load(scale + n, mask=in_n, other=0.0)
        if IS_SWIGLU:
            up *= tl.load(scale + N + n, mask=in_n, other=0.0)
    if HAS_NORM:
        factor = tl.rsqrt(tl.sum(squares, axis=0) / K + eps)
        y *= factor
        up *= factor
    if HAS_BIAS:
        y += tl.load(bias + n, mask=in_n, other=0.0).to(tl.float32)
    if IS_SWIGLU:
        y = y / (1.0 + tl.exp(-y)) * up
    if HAS_RESIDUAL:
        y += tl.load(residual + n, mask=in_n, other=0.0).to(tl.float32)
    tl.store(out + n, y.to(out.dtype.element_ty), mask=in_n)


@triton.jit(do_not_specialize=["M"])
def _tall(
    x, weight, bias, residual, out, partial, counters, M,
    N: tl.constexpr, K: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, IS_SWIGLU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    tile, split = tl.program_id(0), tl.program_id(1)
    n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    k = split * (K // SPLIT) + tl.arange(0, BLOCK_K)
    in_m, in_n = m < M, n < N
    rows = weight + n[:, None] * K + k[None, :]
    columns = x + m[None, :] * K + k[:, None]
    wait(EARLY)
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    up = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for start in range(0, K // SPLIT, BLOCK_K):
        w = tl.load(rows + start, mask=in_n[:, None], other=0.0)
        a = tl.load(columns + start, mask=in_m[None, :], other=0.0)
        acc = tl.dot(w, a, acc)
        if IS_SWIGLU:
            w = tl.load(rows + N * K + start, mask=in_n[:, None], other=0.0)
            up = tl.dot(w, a, up)
    places = m[None, :] * N + n[:, None]
    inside = in_m[None, :] & in_n[:, None]
    if SPLIT > 1:
        tl.store(partial + split * M * N + places, acc, mask=inside)
        tl.debug_barrier()
        # the last program of a tile to arrive adds the parts up, always in the same order
        if tl.atomic_add(counters + tile, 1, sem="acq_rel") < SPLIT - 1:
            return
        tl.store(counters + tile, 0)
        acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
        for other in tl.static_range(SPLIT):
            acc += tl.load(
                partial + other * M * N + places, mask=inside, other=0.0, cache_modifier=".cg"
            )
    if HAS_BIAS:
        acc += tl.load(bias + n, mask=in_n, other=0.0).to(tl.float32)[:, None]
    if IS_SWIGLU:
        acc = acc / (1.0 + tl.exp(-acc)) * up
    if HAS_RESIDUAL:
        acc += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + places, acc.to(out.dtype.element_ty), mask=inside)


def _divisor(K: int, limit: int) -> int:
    """The largest power of two up to `limit` that divides K."""
    return min(limit, K & -K)


@cache
def gemv_tiles(K: int, has_norm: bool, is_swiglu: bool, is_fp8: bool) -> tuple[int, int, int]:
    """Outputs and inputs of a block, warps; measured on an H100, fp8 on an H200."""
    if is_fp8:
        return 2 if K > 4096 else 4, _divisor(K, 2048), 4
    num_outputs = 8 if K > 4096 else 4 if is_swiglu else 2
    return num_outputs, _divisor(K, 1024 if has_norm else 2048), 8 if K > 4096 else 4


@cache
def tall_tiles(M: int, N: int, K: int, is_swiglu: bool) -> tuple[int, int, int, int, int, int]:
    """Rows, outputs and inputs of a block, splits, warps, stages; measured on an H100."""
    block_m = 16 if M <= 16 else 32
    is_wide = block_m == 32
    if is_swiglu and K >= 2048:
        return block_m, 64, _divisor(K, 128), 1, 4, 3
    if is_swiglu or N >= 2 * K:
        return block_m, 64, _divisor(K, 128 if N < 4096 else 64), 1, 4, 5
    if K % 1024:
        return block_m, 64, _divisor(K, 256), 1, 4, 3
    if N > K:
        return (block_m, 32, 256, 4, 4, 3) if is_wide else (block_m, 64, 128, 4, 4, 3)
    if 4 * N <= K:
        return block_m, 64, 128, 8, 4, 5
    return (block_m, 64, 128, 4, 4, 5) if is_wide and N == K else (block_m, 64, 256, 4, 4, 3)


def _run_gemv(
    x: Tensor,
    weight: Weight,
    norm: Tensor | None = None,
    eps: float = 0.0,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    is_swiglu: bool = False,
) -> Tensor:
    if isinstance(weight, Fp8Weight):
        values, scale = weight.values, weight.scale
    else:
        values, scale = weight, None
    assert values.is_contiguous(), values.stride()
    K = x.shape[-1]
    N = len(values) // (2 if is_swiglu else 1)
    out = x.new_empty(*x.shape[:-1], N)
    is_fp8 = scale is not None
    block_n, block_k, num_warps = gemv_tiles(K, norm is not None, is_swiglu, is_fp8)
    launch(
        _gemv, (triton.cdiv(N, block_n),),
        x, values, scale, norm, bias, residual, out, eps, N, K, is_fp8, norm is not None,
        bias is not None, residual is not None, is_swiglu, block_n, block_k,
        num_warps=num_warps, **options(x.device),
    )  # fmt: skip
    return out


def _run_tall(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    is_swiglu: bool = False,
) -> Tensor:
    assert weight.is_contiguous(), weight.stride()
    K = x.shape[-1]
    N = weight.shape[0] // (2 if is_swiglu else 1)
    M = x.numel() // K
    out = x.new_empty(*x.shape[:-1], N)
    block_m, block_n, block_k, split, num_warps, num_stages = tall_tiles(M, N, K, is_swiglu)
    partial = torch.empty(split * M * N, device=x.device) if split > 1 else out
    launch(
        _tall, (triton.cdiv(N, block_n), split),
        x, weight, bias, residual, out, partial, counters(x.device), M, N, K, bias is not None,
        residual is not None, is_swiglu, block_m, block_n, block_k, split,
        num_warps=num_warps, num_stages=num_stages, **options(x.device),
    )  # fmt: skip
    return out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x W^T + b`; `[..., K] -> [..., N]`."""
    if bias is None and (tiles := dense.choice(x, weight, can_part=False)):
        return dense.product(x, weight, tiles)[0]
    if num_rows(x) <= MAX_TALL_ROWS:
        return _run_tall(x, weight, bias)
    return F.linear(x, weight, bias)


def linear_swiglu(x: Tensor, weight: Tensor) -> Tensor:
    """`silu(g) * u` of `g, u = x W^T`; `[..., K] -> [..., N]`, weight `[2 N, K]`."""
    if tiles := dense.choice(x, weight, is_swiglu=True, can_part=False):
        return dense.product(x, weight, tiles, is_swiglu=True)[0]
    if num_rows(x) <= MAX_TALL_ROWS:
        return _run_tall(x, weight, is_swiglu=True)
    return swiglu(F.linear(x, weight))


def num_parts(M: int, N: int, K: int) -> int:
    """In how many parts to sum a product of many rows, so that its tiles fill the card.

    cuBLAS computes 704 x 1024 in tiles that leave most multiprocessors idle, however long K is.
    """
    tiles = triton.cdiv(M, 128) * triton.cdiv(N, 128)
    parts = min(MAX_PARTS, K // MIN_PART)
    return parts if tiles <= NUM_PROCESSORS // 2 and parts > 1 and K % parts == 0 else 1


def linear_add_norm(
    x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float, *, keep: bool = False,
    can_part: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`residual + x W^T` and its RMS norm; `[..., N]`. `residual` is lost unless `keep`.

    Args:
        can_part: whether cuBLAS may sum in parts, which was measured for patches alone.
    """
    if tiles := dense.choice(x, weight, can_part=True):
        products = dense.product(x, weight, tiles).flatten(1, -2)  # [parts, M, N]
        return add_norm(products, residual, norm, eps, keep=keep)
    M = num_rows(x)
    N, K = weight.shape
    parts = num_parts(M, N, K) if can_part and M > MAX_TALL_ROWS else 1
    if parts == 1:
        total = linear_add(x, weight, residual.clone() if keep else residual)
        return total, rms_norm(total, norm, eps)
    products = torch.bmm(
        x.view(M, parts, -1).transpose(0, 1), weight.view(N, parts, -1).permute(1, 2, 0)
    )  # [parts, M, N]
    return add_norm(products, residual, norm, eps, keep=keep)


def rms_linear(
    x: Tensor, norm: Tensor, eps: float, weight: Weight, bias: Tensor | None = None
) -> Tensor:
    """`rms_norm(x) W^T + b`; `[..., K] -> [..., N]`."""
    if num_rows(x) == 1:
        return _run_gemv(x, weight, norm, eps, bias)
    if isinstance(weight, Fp8Weight):
        assert bias is None, "no product in eight bits has a bias"
        return fp8.linear(fp8_norm(x, norm, eps), weight)
    return linear(rms_norm(x, norm, eps), weight, bias)


def linear_add(x: Tensor | Fp8Rows, weight: Weight, residual: Tensor) -> Tensor:
    """`residual + x W^T`, which may be written over `residual`; `[..., K] -> [..., N]`."""
    assert residual.is_contiguous(), residual.stride()
    if isinstance(x, Tensor) and num_rows(x) == 1:
        return _run_gemv(x, weight, residual=residual)
    if isinstance(weight, Fp8Weight):
        return fp8.linear_add(quantized(x) if isinstance(x, Tensor) else x, weight, residual)
    assert isinstance(x, Tensor)
    M = num_rows(x)
    if M <= MAX_TALL_ROWS:
        return _run_tall(x, weight, residual=residual)
    # in place, because otherwise the residual is copied first
    residual.view(M, -1).addmm_(x.view(M, -1), weight.t())
    return residual


def rms_swiglu(x: Tensor, norm: Tensor, eps: float, weight: Weight) -> Tensor | Fp8Rows:
    """`silu(g) * u` of `g, u = rms_norm(x) W^T`, for `linear_add` to read.

    `[..., K] -> [..., N]`, weight `[2 N, K]`.
    """
    if num_rows(x) == 1:
        return _run_gemv(x, weight, norm, eps, is_swiglu=True)
    if isinstance(weight, Fp8Weight):
        return fp8.linear_swiglu(fp8_norm(x, norm, eps), weight)
    return linear_swiglu(rms_norm(x, norm, eps), weight)
