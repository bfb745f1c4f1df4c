"""The elementwise and depthwise work of the AudioVAE decoder, channels-last, over slot contexts.

A causal convolution is two kernels or more: `pad` puts Snake and the slot's context in front, a
product or `depthwise` reads the padded rows, and whatever comes after `pad` writes the new context,
so that no kernel writes what it reads. Sizes are ordinary arguments, because compiling a kernel for
each layer would take a start-up of many seconds and gains nothing.

Letters: `B` rows, `T` time steps, `C` channels, `J` context length, `K` taps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from voxcli.kernels.launch import launch, options, wait

TILE = 2048  # numbers a program handles
# a tile of few channels has many time steps, so that the taps find each other's rows in the cache
DEPTHWISE_CHANNELS = 32


def bump(x: Tensor) -> Tensor:
    """Snake without its scales: `x + sin(x)^2`."""
    sine = torch.sin(x)
    return torch.addcmul(x, sine, sine)


def pad_reference(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, context: Tensor, slots: Tensor
) -> Tensor:
    if scale is not None:
        wide = x.float() * scale
        x = bump(wide if shift is None else wide + shift).to(x.dtype)
    return torch.cat((context[slots], x), dim=1)


def depthwise_reference(
    padded: Tensor, weight: Tensor, bias: Tensor, dilation: int, context: Tensor, slots: Tensor,
    *, is_snake: bool,
) -> Tensor:  # fmt: skip
    J = context.shape[1]
    T = padded.shape[1] - J
    out = bias.expand(len(padded), T, -1)
    for tap in range(len(weight)):
        out = out + weight[tap] * padded[:, tap * dilation : tap * dilation + T].float()
    context[slots] = padded[:, T:].to(context.dtype)
    return (bump(out) if is_snake else out).to(padded.dtype)


def last_reference(
    padded: Tensor, weight: Tensor, bias: Tensor, context: Tensor, slots: Tensor,
    *, is_clamped: bool = False,
) -> Tensor:  # fmt: skip
    zeros = torch.zeros(padded.shape[-1], device=padded.device)
    taps = depthwise_reference(padded.float(), weight, zeros, 1, context, slots, is_snake=False)
    total = taps.sum(-1) + bias
    return total.clamp(-1, 1) if is_clamped else torch.tanh(total)


@triton.jit
def bump_tile(x, IS_FAST: tl.constexpr):
    # the exact sine brings its argument into one turn first, which costs ten times as much
    sine = libdevice.fast_sinf(x) if IS_FAST else tl.sin(x)
    return x + sine * sine


@triton.jit
def _tile(BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    return t[:, None], c[None, :], tl.program_id(2).to(tl.int64)


@triton.jit(do_not_specialize=["T", "J"], do_not_specialize_on_alignment=["slots"])
def _pad(
    x, scale, shift, context, slots, out, T, C, J,
    HAS_SNAKE: tl.constexpr, HAS_SHIFT: tl.constexpr,
    IS_FAST: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    t, c, b = _tile(BLOCK_T, BLOCK_C)
    wait(EARLY)
    slot = tl.load(slots + b)
    in_c = c < C
    past = tl.load(context + (slot * J + t) * C + c, mask=(t < J) & in_c, other=0.0)
    now = tl.load(x + (b * T + t - J) * C + c, mask=(t >= J) & (t < T + J) & in_c, other=0.0)
    now = now.to(tl.float32)
    if HAS_SNAKE:
        now *= tl.load(scale + c, mask=in_c, other=0.0)
        if HAS_SHIFT:
            now += tl.load(shift + c, mask=in_c, other=0.0)
        now = bump_tile(now, IS_FAST)
    value = tl.where(t < J, past.to(tl.float32), now)
    tl.store(out + (b * (T + J) + t) * C + c, value.to(out.dtype.element_ty), (t < T + J) & in_c)


@triton.jit(do_not_specialize=["T", "J", "dilation"], do_not_specialize_on_alignment=["slots"])
def _depthwise(
    padded, weight, bias, context, slots, out, T, C, J, dilation,
    K: tl.constexpr, IS_SNAKE: tl.constexpr, IS_FAST: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    t, c, b = _tile(BLOCK_T, BLOCK_C)
    wait(EARLY)
    in_c = c < C
    inside = (t < T) & in_c
    rows = padded + b * (T + J) * C + c
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32) + tl.load(bias + c, mask=in_c, other=0.0)
    for tap in tl.static_range(K):
        tap_weight = tl.load(weight + tap * C + c, mask=in_c, other=0.0)
        value = tl.load(rows + (t + tap * dilation) * C, mask=inside, other=0.0)
        acc += tap_weight * value.to(tl.float32)
    if IS_SNAKE:
        acc = bump_tile(acc, IS_FAST)
    tl.store(out + (b * T + t) * C + c, acc.to(out.dtype.element_ty), inside)
    slot = tl.load(slots + b)
    kept = tl.load(rows + (T + t) * C, mask=(t < J) & in_c, other=0.0)
    tl.store(context + (slot * J + t) * C + c, kept, (t < J) & in_c)


@triton.jit(do_not_specialize=["T"], do_not_specialize_on_alignment=["slots"])
def _last(
    padded, weight, bias, context, slots, out, T, C, J,
    K: tl.constexpr, IS_CLAMPED: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    t, c, b = _tile(BLOCK_T, BLOCK_C)
    wait(EARLY)
    in_c = c < C
    rows = padded + b * (T + J) * C + c
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for tap in tl.static_range(K):
        tap_weight = tl.load(weight + tap * C + c, mask=in_c, other=0.0)
        value = tl.load(rows + (t + tap) * C, mask=(t < T) & in_c, other=0.0)
        acc += tap_weight * value.to(tl.float32)
    total = tl.sum(acc, axis=1) + tl.load(bias)
    if IS_CLAMPED:
        total = tl.clamp(total, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)
    else:
        total = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * total))  # tanh
    step = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    tl.store(out + b * T + step, total, step < T)
    slot = tl.load(slots + b)
    kept = tl.load(rows + (T + t) * C, mask=(t < J) & in_c, other=0.0)
    tl.store(context + (slot * J + t) * C + c, kept, (t < J) & in_c)


def is_fast(x: Tensor) -> bool:
    """Whether the sine of the special-function unit will do: half precision rounds more."""
    return x.device.type != "cpu" and x.dtype != torch.float32


def _blocks(
    num_steps: int, C: int, B: int, max_channels: int = 128
) -> tuple[tuple[int, int, int], int, int]:
    block_c = min(max_channels, triton.next_power_of_2(C))
    block_t = TILE // block_c
    return (triton.cdiv(num_steps, block_t), triton.cdiv(C, block_c), B), block_t, block_c


def pad(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, context: Tensor, slots: Tensor
) -> Tensor:
    """Context, then Snake of `scale x + shift` (x itself without a scale).

    Args:
        x: `[B, T, C]`.
        scale, shift: fp32 `[C]` or None.
        context: `[slots, J, C]`, read at `slots`.
        slots: int64 `[B]`.

    Returns:
        `[B, J + T, C]`.
    """
    B, T, C = x.shape
    J = context.shape[1]
    out = x.new_empty(B, J + T, C)
    grid, block_t, block_c = _blocks(J + T, C, B)
    launch(
        _pad, grid,
        x, scale, shift, context, slots, out, T, C, J, scale is not None, shift is not None,
        is_fast(x), block_t, block_c,
        num_warps=4, **options(x.device),
    )  # fmt: skip
    return out


def depthwise(
    padded: Tensor, weight: Tensor, bias: Tensor, dilation: int, context: Tensor, slots: Tensor,
    *, is_snake: bool,
) -> Tensor:  # fmt: skip
    """Causal depthwise convolution, then Snake; keeps the last rows as the slots' context.

    Args:
        padded: `[B, J + T, C]`.
        weight, bias: fp32 `[K, C]`, `[C]`.
        context: `[slots, J, C]`, written at `slots`.

    Returns:
        `[B, T, C]`.
    """
    B, N, C = padded.shape
    J = context.shape[1]
    out = padded.new_empty(B, N - J, C)
    grid, block_t, block_c = _blocks(max(N - J, J), C, B, DEPTHWISE_CHANNELS)
    launch(
        _depthwise, grid,
        padded, weight, bias, context, slots, out, N - J, C, J, dilation, len(weight), is_snake,
        is_fast(padded), block_t, block_c,
        num_warps=4, **options(padded.device),
    )  # fmt: skip
    return out


def last(
    padded: Tensor, weight: Tensor, bias: Tensor, context: Tensor, slots: Tensor,
    *, is_clamped: bool = False,
) -> Tensor:  # fmt: skip
    """The convolution to one channel, and tanh or a limit of 1; float32 `[B, T]`.

    Args:
        padded: `[B, J + T, C]`, C at most 128.
        weight, bias: fp32 `[K, C]`, `[1]`.
        context: `[slots, J, C]`, written at `slots`.
    """
    B, N, C = padded.shape
    assert C <= 128, C
    J = context.shape[1]
    out = torch.empty(B, N - J, device=padded.device)
    grid, block_t, block_c = _blocks(max(N - J, J), C, B)
    launch(
        _last, grid,
        padded, weight, bias, context, slots, out, N - J, C, J, len(weight), is_clamped, block_t,
        block_c,
        num_warps=4, **options(padded.device),
    )  # fmt: skip
    return out
