"""A residual unit of the AudioVAE decoder as one kernel, in half precision.

Depthwise convolution, Snake, pointwise product, residual sum and the Snake of whoever reads the
sum: `vocoder.depthwise`, a product and `vocoder.pad` without what they hand to each other. A
program takes some time steps and all channels, so the channels must be few.

Letters: `B` rows, `T` time steps, `C` channels, `J` context length, `K` taps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.kernels.vocoder import bump_tile, depthwise_reference, is_fast, pad_reference

MAX_CHANNELS = 256  # a program holds this many sums a time step


def supports(num_channels: int, dtype: torch.dtype) -> bool:
    """Whether `residual_unit` takes a unit; fp32 products would be rounded to tf32."""
    is_power_of_two = num_channels & (num_channels - 1) == 0
    return dtype != torch.float32 and is_power_of_two and 16 <= num_channels <= MAX_CHANNELS


def residual_unit_reference(
    padded: Tensor, taps: Tensor, bias: Tensor, dilation: int, weight: Tensor, x: Tensor,
    context: Tensor, scale: Tensor, shift: Tensor, next_context: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    inner = depthwise_reference(padded, taps, bias, dilation, context, slots, is_snake=True)
    x += inner @ weight.t()
    return pad_reference(x, scale, shift, next_context, slots)


@triton.jit
def _unit(
    padded, taps, bias, weight, x, context, scale, shift, next_context, slots, out, T,
    C: tl.constexpr, J: tl.constexpr, NEXT_J: tl.constexpr, K: tl.constexpr,
    DILATION: tl.constexpr, IS_FAST: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_J: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, C)[None, :]
    rows = padded + b * (T + J) * C
    new_rows = out + b * (T + NEXT_J) * C
    wait(EARLY)
    if tl.program_id(0) == tl.num_programs(0) - 1:  # the contexts, before and after
        slot = tl.load(slots + b)
        j = tl.arange(0, BLOCK_J)[:, None]
        past = tl.load(next_context + (slot * NEXT_J + j) * C + c, mask=j < NEXT_J, other=0.0)
        tl.store(new_rows + j * C + c, past, mask=j < NEXT_J)
        kept = tl.load(rows + (T + j) * C + c, mask=j < J, other=0.0)
        tl.store(context + (slot * J + j) * C + c, kept, mask=j < J)
        return
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    in_t = t < T
    acc = tl.zeros((BLOCK_T, C), tl.float32)
    for start in range(0, C, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)[None, :]
        inner = tl.zeros((BLOCK_T, BLOCK_K), tl.float32) + tl.load(bias + k)
        for tap in tl.static_range(K):
            value = tl.load(rows + (t + tap * DILATION) * C + k, mask=in_t, other=0.0)
            inner += tl.load(taps + tap * C + k) * value.to(tl.float32)
        inner = bump_tile(inner, IS_FAST).to(out.dtype.element_ty)
        column = start + tl.arange(0, BLOCK_K)[:, None]
        acc = tl.dot(inner, tl.load(weight + c * C + column), acc)
    places = x + (b * T + t) * C + c
    new = (acc + tl.load(places, mask=in_t, other=0.0).to(tl.float32)).to(out.dtype.element_ty)
    tl.store(places, new, mask=in_t)
    read = bump_tile(new.to(tl.float32) * tl.load(scale + c) + tl.load(shift + c), IS_FAST)
    tl.store(new_rows + (NEXT_J + t) * C + c, read.to(out.dtype.element_ty), mask=in_t)


def tiles(num_channels: int) -> tuple[int, int, int]:
    """Time steps and inputs of a block, and warps."""
    return (64 if num_channels > 64 else 128), min(num_channels, 64), 8


def residual_unit(
    padded: Tensor, taps: Tensor, bias: Tensor, dilation: int, weight: Tensor, x: Tensor,
    context: Tensor, scale: Tensor, shift: Tensor, next_context: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    """Add a unit to `x` in place and pad the sum for its reader.

    Args:
        padded: `[B, J + T, C]`, the unit's own Snake behind its context.
        taps, bias: fp32 `[K, C]`, `[C]`.
        weight: `[C, C]`, from the last axis to the first.
        x: `[B, T, C]`, written over.
        context: `[slots, J, C]`, written at `slots`.
        scale, shift: fp32 `[C]`, of the reader's Snake.
        next_context: `[slots, next J, C]` of the reader, read at `slots`.
        slots: int64 `[B]`.

    Returns:
        `[B, next J + T, C]`, as `vocoder.pad` gives it.
    """
    B, T, C = x.shape
    J, next_J = context.shape[1], next_context.shape[1]
    assert supports(C, x.dtype), (C, x.dtype)
    assert weight.is_contiguous(), weight.stride()
    out = x.new_empty(B, next_J + T, C)
    block_t, block_k, num_warps = tiles(C)
    launch(
        _unit, (triton.cdiv(T, block_t) + 1, B),
        padded, taps, bias, weight, x, context, scale, shift, next_context, slots, out, T, C, J,
        next_J, len(taps), dilation, is_fast(x), block_t, block_k,
        triton.next_power_of_2(max(J, next_J)),
        num_warps=num_warps, num_stages=1, **options(x.device),
    )  # fmt: skip
    return out
