"""The small work between two evaluations of the LocDiT: tokens in, guidance and Euler step out.

Letters: `B` rows, `P` latent vectors a patch, `D` latent width, `T` tokens, `W` LocDiT width.
"""

from __future__ import annotations

import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait


def write_tokens_reference(
    tokens: Tensor, x: Tensor, weight: Tensor, bias: Tensor, time: Tensor
) -> None:
    halves = len(tokens) // len(x)
    P = x.shape[1]
    tokens[:, -P:] = F.linear(x.to(weight.dtype), weight, bias).repeat(halves, 1, 1)
    tokens[:, -2 * P - 1] = time


@triton.jit(do_not_specialize=["B"])
def _write_tokens(
    tokens, x, weight, bias, time, B,
    P: tl.constexpr, D: tl.constexpr, T: tl.constexpr, W: tl.constexpr, HALVES: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_W: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    w = tl.program_id(1) * BLOCK_W + tl.arange(0, BLOCK_W)
    p, d = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_D)
    in_w, in_d = w < W, d < D
    matrix = tl.load(
        weight + w[None, :] * D + d[:, None], mask=in_d[:, None] & in_w[None, :], other=0.0
    )
    shift = tl.load(bias + w, mask=in_w, other=0.0).to(tl.float32)
    wait(EARLY)
    now = tl.load(time + w, mask=in_w, other=0.0)
    in_x = (p < P)[:, None] & in_d[None, :]
    values = tl.load(x + (b * P + p)[:, None] * D + d[None, :], mask=in_x, other=0.0)
    projected = tl.dot(values.to(matrix.dtype), matrix) + shift[None, :]
    for half in tl.static_range(HALVES):
        row = (half * B + b).to(tl.int64) * T * W
        places = row + (T - P + p)[:, None] * W + w[None, :]
        tl.store(tokens + places, projected.to(matrix.dtype), mask=(p < P)[:, None] & in_w[None, :])
        tl.store(tokens + row + (T - 2 * P - 1) * W + w, now, mask=in_w)


def write_tokens(tokens: Tensor, x: Tensor, weight: Tensor, bias: Tensor, time: Tensor) -> None:
    """Write the time token and the patch's tokens, for both guided halves.

    Args:
        tokens: `[B or 2 B, T, W]`: two of mu, time, P of the condition, P of the patch.
        x: float32 `[B, P, D]`.
        weight, bias: the input projection `[W, D]`, `[W]`.
        time: `[W]`.
    """
    B, P, D = x.shape
    N, T, W = tokens.shape
    block_w = 64
    launch(
        _write_tokens, (B, triton.cdiv(W, block_w)),
        tokens, x, weight, bias, time, B, P, D, T, W, N // B, max(16, triton.next_power_of_2(P)),
        max(16, triton.next_power_of_2(D)), block_w,
        num_warps=2, **options(x.device),
    )  # fmt: skip


def euler_step_reference(x: Tensor, velocity: Tensor, cfg: Tensor | None, size: float) -> None:
    velocity = velocity.float()
    if cfg is not None:
        positive, negative = velocity.chunk(2)
        dot = (positive * negative).sum((1, 2), keepdim=True)
        fit = dot / (negative.square().sum((1, 2), keepdim=True) + 1e-8)
        velocity = negative * fit + cfg.view(-1, 1, 1) * (positive - negative * fit)
    x.sub_(size * velocity)


@triton.jit(do_not_specialize=["B"])
def _euler_step(
    x, velocity, cfg, B, size,
    NUMEL: tl.constexpr, BLOCK: tl.constexpr, IS_GUIDED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    wait(EARLY)
    old = tl.load(x + b * NUMEL + i, mask=i < NUMEL, other=0.0)
    v = tl.load(velocity + b * NUMEL + i, mask=i < NUMEL, other=0.0).to(tl.float32)
    if IS_GUIDED:
        negative = tl.load(velocity + (B + b) * NUMEL + i, mask=i < NUMEL, other=0.0)
        negative = negative.to(tl.float32)
        fit = tl.sum(v * negative, axis=0) / (tl.sum(negative * negative, axis=0) + 1e-8)
        v = negative * fit + tl.load(cfg + b) * (v - negative * fit)
    tl.store(x + b * NUMEL + i, old - size * v, mask=i < NUMEL)


def euler_step(x: Tensor, velocity: Tensor, cfg: Tensor | None, size: float) -> None:
    """`x -= size * v` in place, with CFG-Zero* guidance (`models/voxcpm2/acoustic.py`).

    Args:
        x: float32 `[B, P, D]`.
        velocity: `[B, P, D]`, or `[2 B, P, D]` with the unconditional half last.
        cfg: float32 `[B]`, or None for no guidance.
    """
    numel = x[0].numel()
    launch(
        _euler_step, (len(x),),
        x, velocity, cfg, len(x), size, numel, triton.next_power_of_2(numel), cfg is not None,
        num_warps=2, **options(x.device),
    )  # fmt: skip
