"""Products of rows in eight bits (`fp8_rows.py`) with weights in eight bits (`layers/fp8.py`).

Neither side is widened: tensor cores multiply e4m3 by e5m2 or e4m3 and sum in fp32. Pairs of rows
take `_few`, which reads a weight once for both and splits the sum over programs where outputs are
few. Many rows take `_wide` as long as its tiles fit on the card side by side, then torch's own.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from voxcli.kernels.fp8_rows import (
    Fp8Rows,
    add_norm,
    new_rows,
    quantized,
    rms_norm,
    store_pair,
    swiglu,
)
from voxcli.kernels.launch import counters, launch, options, stages_that_fit, wait
from voxcli.layers.fp8 import Fp8Weight

NUM_PROCESSORS = 132  # of the card that tiles are chosen for
WIDE_K = 128  # inputs of a block of `_wide`
MIN_PART = 1024  # inputs of a part of a sum


def product_reference(x: Fp8Rows, weight: Fp8Weight) -> Tensor:
    """fp64 `[M, N]`."""
    return x.widened().double() @ weight.widened(torch.float64).t()


@triton.jit(do_not_specialize=["M"])
def _few(
    x, weight, scale, residual, out, partial, counters, M,
    N: tl.constexpr, K: tl.constexpr, HAS_RESIDUAL: tl.constexpr, IS_SWIGLU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    tile, split = tl.program_id(0), tl.program_id(1)
    # with SwiGLU a block holds rows of the gate and, behind them, the same rows of the other half
    NUM_OUTPUTS: tl.constexpr = BLOCK_N // 2 if IS_SWIGLU else BLOCK_N
    n = tile * NUM_OUTPUTS + tl.arange(0, NUM_OUTPUTS)
    row = tl.arange(0, BLOCK_N)
    in_row = tile * NUM_OUTPUTS + row % NUM_OUTPUTS < N
    row = tile * NUM_OUTPUTS + row % NUM_OUTPUTS + row // NUM_OUTPUTS * N
    m = tl.arange(0, BLOCK_M)
    k = split * (K // SPLIT) + tl.arange(0, BLOCK_K)
    in_m = (m < M)[None, :]
    rows = weight + row[:, None] * K + k[None, :]
    columns = x + m[None, :] * K + k[:, None]
    wait(EARLY)
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for start in range(0, K // SPLIT, BLOCK_K):
        w = tl.load(rows + start, mask=in_row[:, None], other=0.0)
        acc = tl.dot(w, tl.load(columns + start, mask=in_m, other=0.0), acc)
        acc = tl.dot(w, tl.load(columns + M * K + start, mask=in_m, other=0.0), acc)
    places = m[None, :] * N + n[:, None]
    inside = in_m & (n < N)[:, None]
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
    acc *= tl.load(scale + row, mask=in_row, other=0.0)[:, None]
    if IS_SWIGLU:
        halves = tl.permute(tl.reshape(acc, (2, NUM_OUTPUTS, BLOCK_M)), (1, 2, 0))
        gate, up = tl.split(halves)
        store_pair(gate / (1.0 + tl.exp(-gate)) * up, out, places, M * N, inside)
    else:
        if HAS_RESIDUAL:
            acc += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + places, acc.to(out.dtype.element_ty), mask=inside)


@cache
def few_tiles(M: int, N: int, K: int, is_swiglu: bool) -> tuple[int, int, int, int, int]:
    """Rows, outputs and inputs of a block, splits and stages; measured on an H200."""
    block_m = 16 if M <= 16 else 32 if M <= 32 else 64
    block_k = min(256, K & -K)  # a power of two that divides K
    if is_swiglu:
        if block_m < 64:
            return block_m, 64, block_k, 1, 4 if block_m == 16 or K <= 1024 else 3
        return block_m, 64 if K < 2048 else 128, min(128, block_k), 1, 4
    if N > K:
        return block_m, 64, block_k, 1, 4
    num_blocks = K // block_k
    most = num_blocks & -num_blocks  # splits that leave whole blocks
    if 2 * N >= K:
        return block_m, 64, block_k, min(2, most), 4
    if K >= 6144 and block_m < 64:
        return block_m, 64, block_k, min(8, most), 3
    return block_m, 64, min(128, block_k), min(4, most), 5


def _run_few(
    x: Fp8Rows, weight: Fp8Weight, out: Tensor, residual: Tensor | None, *, is_swiglu: bool = False
) -> None:
    """Write a product of pairs, plus `residual` or through SwiGLU, to `out`."""
    M = x.num_rows
    N, K = weight.shape
    N = N // 2 if is_swiglu else N
    block_m, block_n, block_k, split, num_stages = few_tiles(M, N, K, is_swiglu)
    num_stages = stages_that_fit(num_stages, (block_n + 2 * block_m) * block_k, out.device)
    partial = torch.empty(split * M * N, device=out.device) if split > 1 else out
    launch(
        _few, (triton.cdiv(N, block_n // 2 if is_swiglu else block_n), split),
        x.values, weight.values, weight.scale, residual, out, partial, counters(out.device), M, N,
        K, residual is not None, is_swiglu, block_m, block_n, block_k, split,
        num_warps=4, num_stages=num_stages, **options(out.device),
    )  # fmt: skip


@triton.jit(do_not_specialize=["M"])
def _wide(
    x, weight, x_scale, weight_scale, out, M,
    N: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr, IS_SWIGLU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    # programs that share a weight follow each other, so that it comes from memory once
    first_m, first_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    part = tl.program_id(2)
    m, n = first_m + tl.arange(0, BLOCK_M), first_n + tl.arange(0, BLOCK_N)
    unit = tl.load(weight_scale + n, mask=n < N, other=0.0)
    wait(EARLY)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(part * (K // PARTS), (part + 1) * (K // PARTS), BLOCK_K):
        rows = x.load([first_m, k])
        acc = tl.dot(rows, weight.load([first_n, k]).T, acc)
        if IS_SWIGLU:
            up = tl.dot(rows, weight.load([N + first_n, k]).T, up)
    row_unit = tl.load(x_scale + m, mask=m < M, other=0.0)[:, None]
    acc *= row_unit * unit[None, :]
    if IS_SWIGLU:
        up_unit = tl.load(weight_scale + N + n, mask=n < N, other=0.0)
        acc = acc / (1.0 + tl.exp(-acc)) * (up * row_unit * up_unit[None, :])
    places = part.to(tl.int64) * M * N + m[:, None] * N + n[None, :]
    tl.store(out + places, acc.to(out.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@dataclass(frozen=True)
class WideTiles:
    """How `_wide` cuts a product.

    Attributes:
        rows, outputs: of a block.
        parts: of the sum.
        warps, stages: of a program.
    """

    rows: int
    outputs: int
    parts: int
    warps: int
    stages: int


_SIDE_BY_SIDE = WideTiles(64, 128, 1, 4, 5)
Size = tuple[int, int, bool]  # outputs, inputs, with SwiGLU
Rule = tuple[int, WideTiles | None]  # up to so many rows these tiles, or those of torch
_OF_OUTPUTS: tuple[Rule, ...] = (
    (176, replace(_SIDE_BY_SIDE, parts=4)), (512, replace(_SIDE_BY_SIDE, parts=2)),
    (1024, _SIDE_BY_SIDE), (1056, None), (1408, WideTiles(128, 128, 1, 8, 4)),
)  # fmt: skip
TABLE: dict[Size, tuple[Rule, ...]] = {
    # LocDiT of four streams and more; LocEnc
    (1024, 2048, False): _OF_OUTPUTS,
    (1024, 4096, False): _OF_OUTPUTS,
    (4096, 1024, True): (
        (128, None), (176, _SIDE_BY_SIDE), (1056, None), (1408, WideTiles(128, 128, 1, 8, 3)),
    ),
}  # fmt: skip
"""What was faster than others on an H200, by size; rows in ascending order."""


def wide_tiles(
    M: int, N: int, K: int, *, is_swiglu: bool = False, can_part: bool = False
) -> WideTiles | None:
    """The tiles of many rows, or None where torch's own product is faster."""
    for most, tiles in TABLE.get((N, K, is_swiglu), ()):
        if most >= M:
            return tiles if tiles is None or can_part else replace(tiles, parts=1)
    if is_swiglu:
        return None
    num_tiles = triton.cdiv(M, _SIDE_BY_SIDE.rows) * triton.cdiv(N, _SIDE_BY_SIDE.outputs)
    if num_tiles > NUM_PROCESSORS:
        return None
    can_part = can_part and 2 * num_tiles <= NUM_PROCESSORS and K % (2 * MIN_PART) == 0
    return replace(_SIDE_BY_SIDE, parts=2 if can_part else 1)


def run_wide(x: Fp8Rows, weight: Fp8Weight, tiles: WideTiles, *, is_swiglu: bool = False) -> Tensor:
    """A product of scaled rows in parts that are still to be added up, or its SwiGLU.

    Returns:
        bf16 `[parts, M, N]`.
    """
    assert x.scale is not None
    assert not (is_swiglu and tiles.parts > 1), tiles
    M, K = x.num_rows, weight.shape[1]
    N = len(weight.scale) // (2 if is_swiglu else 1)
    values = x.values.view(M, K)
    out = torch.empty(tiles.parts, M, N, dtype=torch.bfloat16, device=values.device)
    stage_bytes = (tiles.rows + tiles.outputs * (2 if is_swiglu else 1)) * WIDE_K
    launch(
        _wide, (triton.cdiv(M, tiles.rows), triton.cdiv(N, tiles.outputs), tiles.parts),
        TensorDescriptor.from_tensor(values, [tiles.rows, WIDE_K]),
        TensorDescriptor.from_tensor(weight.values, [tiles.outputs, WIDE_K]),
        x.scale, weight.scale, out, M, N, K, tiles.parts, is_swiglu,
        tiles.rows, tiles.outputs, WIDE_K, num_warps=tiles.warps,
        num_stages=stages_that_fit(tiles.stages, stage_bytes, values.device),
        **options(values.device),
    )  # fmt: skip
    return out


def _product(x: Fp8Rows, weight: Fp8Weight, *, can_part: bool) -> Tensor:
    """A product of scaled rows in parts that are still to be added up; bf16 `[parts, M, N]`."""
    assert x.scale is not None
    N, K = weight.shape
    if tiles := wide_tiles(x.num_rows, N, K, can_part=can_part):
        return run_wide(x, weight, tiles)
    y = torch._scaled_mm(
        x.values.view(-1, K), weight.values.t(), x.scale, weight.scale.unsqueeze(0),
        out_dtype=torch.bfloat16, use_fast_accum=True,
    )  # fmt: skip
    return y.unsqueeze(0)


def linear(x: Fp8Rows, weight: Fp8Weight) -> Tensor:
    """`x W^T` in bf16; `[..., K] -> [..., N]`."""
    shape = (*x.shape[:-1], len(weight.scale))
    if not x.is_pair:
        return _product(x, weight, can_part=False).view(shape)
    out = torch.empty(shape, dtype=torch.bfloat16, device=weight.scale.device)
    _run_few(x, weight, out, None)
    return out


def linear_add(x: Fp8Rows, weight: Fp8Weight, residual: Tensor, *, keep: bool = False) -> Tensor:
    """`residual + x W^T`, `[..., N]`. `residual` is lost unless `keep`."""
    assert residual.is_contiguous(), residual.stride()
    total = torch.empty_like(residual) if keep else residual
    if x.is_pair:
        _run_few(x, weight, total, residual)
    else:
        torch.add(residual, _product(x, weight, can_part=False).view(residual.shape), out=total)
    return total


def linear_add_norm(
    x: Fp8Rows, weight: Fp8Weight, residual: Tensor, norm: Tensor, eps: float, *, keep: bool = False
) -> tuple[Tensor, Fp8Rows]:
    """`residual + x W^T` and its RMS norm; `[..., N]`. `residual` is lost unless `keep`."""
    if not x.is_pair:
        return add_norm(_product(x, weight, can_part=True), residual, norm, eps, keep=keep)
    total = linear_add(x, weight, residual, keep=keep)
    return total, rms_norm(total, norm, eps)


def linear_swiglu(x: Fp8Rows, weight: Fp8Weight) -> Fp8Rows:
    """`silu(g) * u` of `g, u = x W^T`; `[..., K] -> [..., N]`, weight `[2 N, K]`."""
    if not x.is_pair:
        N, K = len(weight.scale) // 2, weight.shape[1]
        if tiles := wide_tiles(x.num_rows, N, K, is_swiglu=True):
            return quantized(run_wide(x, weight, tiles, is_swiglu=True).view(*x.shape[:-1], N))
        return swiglu(linear(x, weight))
    rows = new_rows((*x.shape[:-1], len(weight.scale) // 2), weight.scale.device)
    _run_few(x, weight, rows.values, None, is_swiglu=True)
    return rows
