"""Products of the AudioVAE decoder whose result goes on through a Snake, in half precision.

A pointwise convolution with its residual, or an upsampling one, and behind it what `vocoder.pad`
does for the reader of the sum: one kernel writes both, or the one that is wanted. Channels must be
few, because a program computes whole rows of one of them from all inputs.

Letters: `B` rows, `T` time steps, `C` channels, `J` context length, `K` inputs, `N` outputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.kernels.vocoder import bump_tile, is_fast, pad_reference

MAX_CHANNELS = 256
BLOCK_K, BLOCK_J = 64, 64  # inputs and context rows of a program


def supports(num_channels: int, dtype: torch.dtype) -> bool:
    """Whether `product_pad` makes this many channels; fp32 products would be rounded to tf32."""
    is_power_of_two = num_channels & (num_channels - 1) == 0
    return dtype != torch.float32 and is_power_of_two and 16 <= num_channels <= MAX_CHANNELS


def product_pad_reference(
    rows: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    scale: Tensor, shift: Tensor, context: Tensor, slots: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x = F.linear(rows, weight, bias).view(len(rows), -1, len(scale))
    if residual is not None:
        x = x + residual
    return x, pad_reference(x, scale, shift, context, slots)


@triton.jit(do_not_specialize=["T", "J"])
def _product(
    rows, weight, bias, residual, scale, shift, context, own_context, slots, x, padded, T, J,
    row_step, row_batch, N: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_OWN: tl.constexpr,
    IS_KEPT: tl.constexpr, HAS_READER: tl.constexpr, IS_FAST: tl.constexpr, BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_J: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    tile, b = tl.program_id(0), tl.program_id(2).to(tl.int64)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    new_rows = padded + b * (T * N + J * C)
    wait(EARLY)
    if tile * BLOCK_T >= T:  # contexts: the reader's, and its own new one
        if tl.program_id(1) == 0:
            slot = tl.load(slots + b)
            if HAS_OWN:
                i = K // 2 + tl.arange(0, K // 2)
                kept = tl.load(rows + b * row_batch + (T - 1) * row_step + i)
                tl.store(own_context + (slot - 1) * (K // 2) + i, kept)
            if HAS_READER:
                j, c = tl.arange(0, BLOCK_J)[:, None], tl.arange(0, C)[None, :]
                past = tl.load(context + (slot * J + j) * C + c, mask=j < J, other=0.0)
                tl.store(new_rows + j * C + c, past, mask=j < J)
        return
    t = tile * BLOCK_T + tl.arange(0, BLOCK_T)
    in_t = (t < T)[:, None]
    left = rows + b * row_batch + t[:, None] * row_step + k[None, :]
    right = weight + n[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_T, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(left + start, mask=in_t, other=0.0), tl.load(right + start), acc)
    if HAS_BIAS:
        acc += tl.load(bias + n).to(tl.float32)[None, :]
    places = t[:, None] * N + n[None, :]
    if HAS_RESIDUAL:
        acc += tl.load(residual + b * T * N + places, mask=in_t, other=0.0).to(tl.float32)
    new = acc.to(x.dtype.element_ty)
    if IS_KEPT:
        tl.store(x + b * T * N + places, new, mask=in_t)
    if HAS_READER:
        c = n % C
        read = bump_tile(
            new.to(tl.float32) * tl.load(scale + c)[None, :] + tl.load(shift + c)[None, :], IS_FAST
        )
        tl.store(new_rows + J * C + places, read.to(x.dtype.element_ty), mask=in_t)


def tiles(num_outputs: int, num_channels: int, *, has_reader: bool) -> tuple[int, int, int]:
    """Time steps and outputs of a program, and warps."""
    # a reader's Snake is that of whole rows of channels
    width = num_channels if has_reader else num_outputs & -num_outputs
    return 64, min(128, width), 4


def product_pad(
    rows: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    scale: Tensor, shift: Tensor, context: Tensor, slots: Tensor, *,
    own_context: Tensor | None = None, is_kept: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A product, the sum with a residual, and that sum padded for its reader.

    Args:
        rows: `[B, T, K]`, its last axis contiguous; rows may overlap.
        weight: `[N, K]`, N a multiple of C: each row gives N / C time steps.
        bias: `[N]` or None.
        residual: `[B, T N / C, C]`, written over if the sum is kept, or None.
        scale, shift: fp32 `[C]` of the reader's Snake.
        context: `[slots, J, C]` of the reader, read at `slots`.
        slots: int64 `[B]`.
        own_context: `[slots, 1, K / 2]`, replaced at `slots` by the second half of the last row.
        is_kept: somebody else wants the sum as well.

    Returns:
        the sum `[B, T N / C, C]`, if it is kept, and `[B, J + T N / C, C]` as `vocoder.pad` gives
        it.
    """
    return _run(
        rows, weight, bias, residual, len(scale), (scale, shift, context), slots, own_context,
        is_kept=is_kept,
    )  # fmt: skip


def product(
    rows: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, num_channels: int,
    slots: Tensor, own_context: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum alone; see `product_pad`."""
    return _run(rows, weight, bias, residual, num_channels, None, slots, own_context)[0]


def _run(
    rows: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, C: int,
    reader: tuple[Tensor, Tensor, Tensor] | None, slots: Tensor, own_context: Tensor | None,
    *, is_kept: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    B, T, K = rows.shape
    N = len(weight)
    assert supports(C, rows.dtype), (C, rows.dtype)
    assert weight.is_contiguous(), weight.stride()
    assert rows.stride(2) == 1, rows.stride()
    assert K & (K - 1) == 0 or own_context is None, K
    num_kept = B if is_kept else 0
    x = rows.new_empty(num_kept, T * N // C, C) if residual is None else residual
    scale, shift, context = reader or (None, None, None)
    J = 0 if context is None else context.shape[1]
    padded = x if reader is None else rows.new_empty(B, J + T * N // C, C)
    assert J <= BLOCK_J, J
    block_t, block_n, num_warps = tiles(N, C, has_reader=reader is not None)
    num_tiles = triton.cdiv(T, block_t) + (reader is not None or own_context is not None)
    launch(
        _product, (num_tiles, N // block_n, B),
        rows, weight, bias, residual, scale, shift, context, own_context, slots, x, padded, T, J,
        rows.stride(1), rows.stride(0), N, K, C, bias is not None, residual is not None,
        own_context is not None, is_kept, reader is not None, is_fast(rows), block_t, block_n,
        min(BLOCK_K, K), BLOCK_J,
        num_warps=num_warps, num_stages=3, **options(rows.device),
    )  # fmt: skip
    return x, padded
