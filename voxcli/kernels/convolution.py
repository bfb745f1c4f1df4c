"""Causal convolutions over slot contexts as products, with all that stands between two of them.

A convolution reads rows that its context stands in front of. What computes those rows writes them
there: `embed`, `depthwise_norm`, or `convolve` itself, which puts the next one's Snake and context
around its own sum. A context is read by the kernel that makes the rows and replaced by the one that
reads them, so no kernel writes what it reads.

A product of few rows is split over programs along its inputs, or most of a card would be idle.
Sizes are ordinary arguments, because compiling a kernel for each layer would take a start-up of
many seconds.

Letters: `B` rows, `T` time steps, `C` channels, `J` context length, `K` taps, `N` outputs, `M` rows
and time steps together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from voxcli.kernels.launch import counters, launch, options, stages_that_fit, wait
from voxcli.kernels.vocoder import is_fast
from voxcli.layers.snake import Snake

COPY = 4096  # numbers of a context that one program copies
MIN_TILES = 96  # that fill a card well enough
LIMIT = 65504.0  # the largest number of fp16, where all larger ones end; infinity would spread


@dataclass(frozen=True)
class Reader:
    """What a sum is made ready for.

    Attributes:
        context: `[slots, J, C]`, which is put in front.
        snake: what is applied to the sum, if anything is.
    """

    context: Tensor
    snake: Snake | None = None

    def padded(self, x: Tensor, slots: Tensor) -> Tensor:
        """The reference: `[B, T, C] -> [B, J + T, C]`."""
        wide = x.float() if self.snake is None else self.snake(x.float())
        return torch.cat((self.context[slots], wide.to(x.dtype)), dim=1)


def convolve_reference(
    padded: Tensor, weight: Tensor, bias: Tensor, slots: Tensor, context: Tensor | None = None,
    *, dilation: int = 1, snake: Snake | None = None, is_gelu: bool = False,
    residual: Tensor | None = None, reader: Reader | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    K = weight.shape[1]
    T = padded.shape[1] - (K - 1) * dilation
    x = bias + sum(
        padded[:, tap * dilation : tap * dilation + T].float() @ weight[:, tap].float().T
        for tap in range(K)
    )
    if snake is not None:
        x = snake(x)
    if is_gelu:
        x = F.gelu(x)
    if residual is not None:
        x = x + residual.float()
    x = x.clamp(-LIMIT, LIMIT).to(padded.dtype)
    if context is not None:
        context[slots] = padded[:, T:]
    if reader is None:
        return x, None
    return x, reader.padded(x.unflatten(-1, (-1, reader.context.shape[2])).flatten(1, 2), slots)


@triton.jit
def _snake(x, scale, gain, c, in_c, IS_FAST: tl.constexpr):
    angle = x * tl.load(scale + c, mask=in_c, other=0.0)
    # the exact sine brings its argument into one turn first, which costs ten times as much
    sine = libdevice.fast_sinf(angle) if IS_FAST else tl.sin(angle)
    return x + tl.load(gain + c, mask=in_c, other=0.0) * sine * sine


@triton.jit
def _bounded(x, LIMIT: tl.constexpr):
    return tl.clamp(x, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL)


@triton.jit(
    do_not_specialize=["M", "T", "J", "next_J", "dilation", "num_tiles", "num_copies", "num_rows"],
    do_not_specialize_on_alignment=["slots"],
)
def _convolve(
    padded, weight, bias, scale, gain, residual, out, next_scale, next_gain, next_context, next_out,
    context, slots, partial, counters, M, T, J, next_J, dilation, num_tiles, num_copies, num_rows,
    C, N, next_C,
    K: tl.constexpr, HAS_SNAKE: tl.constexpr, IS_GELU: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    HAS_OUT: tl.constexpr, HAS_NEXT: tl.constexpr, HAS_NEXT_SNAKE: tl.constexpr,
    HAS_CONTEXT: tl.constexpr, IS_FAST: tl.constexpr, LIMIT: tl.constexpr, COPY: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(1)
    split = tl.program_id(2)
    if tile >= num_tiles:  # contexts: this one's new one, and the next one's in front of its rows
        wait(EARLY)
        copy = (tile - num_tiles) * tl.num_programs(0) + tl.program_id(0)
        b = copy // num_copies
        if (b < num_rows) & (split == 0):
            slot = tl.load(slots + b)
            i = (copy - b * num_copies) * COPY + tl.arange(0, COPY)
            if HAS_CONTEXT:
                kept = tl.load(padded + (b * (J + T) + T) * C + i, mask=i < J * C)
                tl.store(context + slot * J * C + i, kept, mask=i < J * C)
            if HAS_NEXT:
                size = next_J * next_C
                past = tl.load(next_context + slot * size + i, mask=i < size)
                tl.store(next_out + b * (size + T * N) + i, past, mask=i < size)
        return
    m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    in_m, in_n = (m < M)[:, None], (n < N)[None, :]
    b, t = m // T, m % T
    left = padded + ((b * (J + T) + t) * C)[:, None] + k[None, :]
    right = weight + n[None, :] * (K * C) + k[:, None]
    steps_a_tap = C // BLOCK_K
    steps = (K * steps_a_tap + SPLIT - 1) // SPLIT
    wait(EARLY)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(split * steps, tl.minimum((split + 1) * steps, K * steps_a_tap)):
        tap = step // steps_a_tap
        at = tap * dilation * C + (step - tap * steps_a_tap) * BLOCK_K
        a = tl.load(left + at, mask=in_m, other=0.0)
        w = tl.load(right + step * BLOCK_K, mask=in_n, other=0.0)
        acc = tl.dot(a, w, acc)
    places = m[:, None] * N + n[None, :]
    inside = in_m & in_n
    if SPLIT > 1:
        tl.store(partial + split * M * N + places, acc, mask=inside)
        tl.debug_barrier()
        # the last program of a tile to arrive adds the parts up, always in the same order
        counter = counters + tile * tl.num_programs(0) + tl.program_id(0)
        if tl.atomic_add(counter, 1, sem="acq_rel") < SPLIT - 1:
            return
        tl.store(counter, 0)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for other in tl.static_range(SPLIT):
            acc += tl.load(
                partial + other * M * N + places, mask=inside, other=0.0, cache_modifier=".cg"
            )
    acc += tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    if HAS_SNAKE:
        acc = _snake(acc, scale, gain, n[None, :], in_n, IS_FAST)
    if IS_GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    if HAS_RESIDUAL:
        acc += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    new = _bounded(acc, LIMIT).to(out.dtype.element_ty)
    if HAS_OUT:
        tl.store(out + places, new, mask=inside)
    if HAS_NEXT:
        read = new.to(tl.float32)
        if HAS_NEXT_SNAKE:
            read = _snake(read, next_scale, next_gain, (n % next_C)[None, :], in_n, IS_FAST)
        read = _bounded(read, LIMIT).to(out.dtype.element_ty)
        tl.store(next_out + ((b + 1) * next_J * next_C)[:, None] + places, read, mask=inside)


def _divisor(size: int, limit: int) -> int:
    """The largest power of two up to `limit` that divides a size."""
    return min(limit, size & -size)


def supports(num_channels: int) -> bool:
    """Whether `convolve` takes this many channels in."""
    return num_channels % 16 == 0


@cache
def tiles(M: int, N: int, C: int, K: int) -> tuple[int, int, int, int, int, int]:
    """Rows, outputs and inputs of a tile, parts of a sum, warps, stages; measured on an H200."""
    block_m = min(64, max(16, triton.next_power_of_2(M)))
    if M <= 32 or triton.cdiv(M, 64) * triton.cdiv(N, 64) < MIN_TILES:
        num_inputs = K * C
        if num_inputs > 2048 and N >= 4096:
            block_n = 128
        else:
            block_n = 64 if num_inputs >= 4096 and block_m == 16 else 32
        block_k, split = _divisor(C, 128), 1
        wanted = 150 if num_inputs >= 4096 else 120 if block_m == 16 else MIN_TILES
        num_tiles, steps = triton.cdiv(M, block_m) * triton.cdiv(N, block_n), num_inputs // block_k
        while split < 8 and split * num_tiles < wanted and steps // (2 * split) >= 3:
            split *= 2
        return block_m, block_n, block_k, split, 4, 4
    if K == 1 or N % 128:
        is_narrow = N <= 128
        block_m, block_n = (64 if M < 8192 else 128), 32 if is_narrow else 64
        if is_narrow and K > 1 and M >= 8192:
            block_m, block_n = (256 if M >= 32768 else 128), 128
        num_stages = 3 if is_narrow or M >= 16384 else 4
    else:
        sizes = [(128, 256) if N >= 768 else (256, 128), (128, 128), (64, 128)]
        fitting = (m_n for m_n in sizes if triton.cdiv(M, m_n[0]) * N // m_n[1] >= MIN_TILES)
        block_m, block_n = next(fitting, (64, 64))
        num_stages = 3 if block_m * block_n > 128 * 128 else 4
    block_k = _divisor(C, 128 if block_m == 64 and M < 2048 else 64)
    return block_m, block_n, block_k, 1, 8 if block_m * block_n >= 128 * 128 else 4, num_stages


def convolve(
    padded: Tensor, weight: Tensor, bias: Tensor, slots: Tensor, context: Tensor | None = None,
    *, dilation: int = 1, snake: Snake | None = None, is_gelu: bool = False,
) -> Tensor:  # fmt: skip
    """A causal convolution, then Snake or GELU.

    Args:
        padded: `[B, J + T, C]`, in 16 bits.
        weight: `[N, K, C]`.
        bias: fp32 `[N]`.
        slots: int64 `[B]`.
        context: `[slots, J, C]`, replaced at `slots`; None where K is 1.

    Returns:
        `[B, T, N]`.
    """
    return _run(
        padded, weight, bias, slots, context, dilation, snake, is_gelu, None, None, is_kept=True
    )[0]


def convolve_for(
    reader: Reader, padded: Tensor, weight: Tensor, bias: Tensor, slots: Tensor,
    context: Tensor | None = None, *, residual: Tensor | None = None, is_kept: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A causal convolution, then the sum with a residual, for a reader of N / C' time steps each.

    Args:
        padded, weight, bias, slots, context: as of `convolve`.
        residual: `[B, T, N]`.
        is_kept: somebody else wants the sum as well.

    Returns:
        the sum `[B, T, N]`, if it is kept, and `[B, J' + T N / C', C']`.
    """
    return _run(
        padded, weight, bias, slots, context, 1, None, False, residual, reader, is_kept=is_kept
    )


def _run(
    padded: Tensor, weight: Tensor, bias: Tensor, slots: Tensor, context: Tensor | None,
    dilation: int, snake: Snake | None, is_gelu: bool, residual: Tensor | None,
    reader: Reader | None, *, is_kept: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    B, length, C = padded.shape
    N, K, _ = weight.shape
    J = (K - 1) * dilation
    T = length - J
    assert padded.is_contiguous(), padded.stride()
    assert weight.is_contiguous(), weight.stride()
    assert (context is None) == (J == 0), (J, context)
    assert supports(C), C
    out = padded.new_empty(B if is_kept else 0, T, N)
    next_J, next_C = (0, N) if reader is None else reader.context.shape[1:]
    next_out = out if reader is None else padded.new_empty(B, next_J + T * N // next_C, next_C)
    assert max(padded.numel(), next_out.numel()) < 2**31, padded.shape
    block_m, block_n, block_k, split, num_warps, num_stages = tiles(B * T, N, C, K)
    num_stages = stages_that_fit(num_stages, 2 * (block_m + block_n) * block_k, out.device)
    num_tiles, width = triton.cdiv(B * T, block_m), triton.cdiv(N, block_n)
    num_copies = triton.cdiv(max(J * C, next_J * next_C), COPY)
    partial = torch.empty(split * B * T * N, device=out.device) if split > 1 else out
    next_snake = reader and reader.snake
    launch(
        _convolve, (width, num_tiles + triton.cdiv(B * num_copies, width), split),
        padded, weight, bias, snake and snake.scale, snake and snake.gain, residual, out,
        next_snake and next_snake.scale, next_snake and next_snake.gain,
        reader and reader.context, next_out, context, slots, partial, counters(out.device), B * T,
        T, J, next_J, dilation, num_tiles, num_copies, B, C, N, next_C, K, snake is not None,
        is_gelu, residual is not None, is_kept, reader is not None, next_snake is not None,
        context is not None, is_fast(padded), LIMIT, COPY, block_m, block_n, block_k, split,
        num_warps=num_warps, num_stages=num_stages, **options(out.device),
    )  # fmt: skip
    return out, next_out


def embed_reference(
    codes: Tensor, table: Tensor, context: Tensor, frames: Tensor, slots: Tensor
) -> tuple[Tensor, Tensor]:
    K = codes.shape[2]
    V = len(table) // K
    places = codes.clamp(0, V - 1) + torch.arange(K, device=codes.device) * V
    x = table[places].float().sum(2).to(table.dtype)
    starts = frames[slots]
    frames[slots] += codes.shape[1]
    return torch.cat((context[slots], x), dim=1), starts


@triton.jit(do_not_specialize=["T", "J"], do_not_specialize_on_alignment=["slots"])
def _embed(
    codes, table, context, frames, slots, out, starts, T, J, V, D,
    K: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    t, b = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, BLOCK)
    in_d = d < D
    wait(EARLY)
    rows = out + b * (J + T) * D + d
    if t == 0:
        slot = tl.load(slots + b)
        start = tl.load(frames + slot)
        tl.store(starts + b, start)
        tl.store(frames + slot, start + T)
        for j in range(J):
            past = tl.load(context + (slot * J + j) * D + d, mask=in_d)
            tl.store(rows + j * D, past, mask=in_d)
    total = tl.zeros((BLOCK,), tl.float32)
    for book in tl.static_range(K):
        code = tl.load(codes + (b * T + t) * K + book)
        code = tl.minimum(tl.maximum(code, 0), V - 1)
        total += tl.load(table + (book * V + code) * D + d, mask=in_d, other=0.0).to(tl.float32)
    tl.store(rows + (J + t) * D, total.to(out.dtype.element_ty), mask=in_d)


def embed(
    codes: Tensor, table: Tensor, context: Tensor, frames: Tensor, slots: Tensor
) -> tuple[Tensor, Tensor]:
    """What the codes of each frame add up to, behind the context; and where each row starts.

    Args:
        codes: int64 `[B, T, K]`; what is none of a codebook is taken for the nearest that is.
        table: `[K V, D]`.
        context: `[slots, J, D]`, read at `slots`.
        frames: int64 `[slots]`, how many each slot has had; T more afterwards.
        slots: int64 `[B]`.

    Returns:
        `[B, J + T, D]`, and `frames` of the rows before, int64 `[B]`.
    """
    B, T, K = codes.shape
    V, D = len(table) // K, table.shape[1]
    J = context.shape[1]
    out = table.new_empty(B, J + T, D)
    starts = torch.empty(B, dtype=torch.int64, device=table.device)
    launch(
        _embed, (T, B),
        codes, table, context, frames, slots, out, starts, T, J, V, D, K,
        triton.next_power_of_2(D),
        num_warps=4, **options(table.device),
    )  # fmt: skip
    return out, starts


def depthwise_norm_reference(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, context: Tensor, slots: Tensor
) -> Tensor:
    T, J = x.shape[1], context.shape[1]
    padded = torch.cat((context[slots], x), dim=1)
    context[slots] = padded[:, T:]
    out = bias + sum(padded[:, tap : tap + T].float() * weight[tap] for tap in range(J + 1))
    return F.layer_norm(out, out.shape[-1:], eps=eps).to(x.dtype)


@triton.jit(do_not_specialize=["T"], do_not_specialize_on_alignment=["slots"])
def _depthwise_norm(
    x, weight, bias, context, slots, out, eps, T, C,
    J: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    in_c = c < C
    shift = tl.load(bias + c, mask=in_c, other=0.0)
    wait(EARLY)
    past = context + tl.load(slots + b) * J * C + c
    now = x + b * T * C + c
    for t in range(T):
        acc = shift
        for tap in tl.static_range(J + 1):
            at = t + tap - J
            value = tl.load(now + at * C, mask=in_c & (at >= 0), other=0.0).to(tl.float32)
            value += tl.load(past + (at + J) * C, mask=in_c & (at < 0), other=0.0).to(tl.float32)
            acc += value * tl.load(weight + tap * C + c, mask=in_c, other=0.0)
        mean = tl.sum(acc, axis=0) / C
        centred = tl.where(in_c, acc - mean, 0.0)
        normed = centred * tl.rsqrt(tl.sum(centred * centred, axis=0) / C + eps)
        tl.store(out + (b * T + t) * C + c, normed.to(out.dtype.element_ty), mask=in_c)
    # a thread has the same channels of every row, and reads ahead of where it writes
    for j in tl.static_range(J):
        at = T + j - J
        kept = tl.load(now + at * C, mask=in_c & (at >= 0), other=0.0)
        kept += tl.load(past + (at + J) * C, mask=in_c & (at < 0), other=0.0)
        tl.store(past + j * C, kept, mask=in_c)


def depthwise_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, context: Tensor, slots: Tensor
) -> Tensor:
    """A causal depthwise convolution, and the layer norm of each time step without weights.

    Args:
        x: `[B, T, C]`.
        weight, bias: fp32 `[J + 1, C]`, `[C]`.
        context: `[slots, J, C]`, read and replaced at `slots`.
        slots: int64 `[B]`.

    Returns:
        `[B, T, C]`.
    """
    B, T, C = x.shape
    J = context.shape[1]
    assert len(weight) == J + 1, weight.shape
    out = torch.empty_like(x)
    launch(
        _depthwise_norm, (B,),
        x, weight, bias, context, slots, out, eps, T, C, J, triton.next_power_of_2(C),
        num_warps=4, **options(x.device),
    )  # fmt: skip
    return out
