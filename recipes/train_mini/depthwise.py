"""Causal depthwise convolution: forward and backward in a Triton kernel each, in torch on a CPU.

torch's own kernels for it are slow backward, and want a padded copy of what comes in.

Letters: `B` rows, `C` channels, `T` time steps, `K` taps.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.train_mini.snake import blocks_of

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a card
    triton = None


def plain_depthwise(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """`x [B, C, T]`, `weight [C, 1, K]`, `bias [C]`; the reference of the kernels."""
    pad = (weight.shape[-1] - 1) * dilation
    return F.conv1d(F.pad(x, (pad, 0)), weight, bias, dilation=dilation, groups=len(weight))


if triton is not None:

    @triton.jit
    def _forward(
        x_ptr, weight_ptr, bias_ptr, y_ptr, C, T, dilation, K: tl.constexpr, BLOCK: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64)
        channel = row % C
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        y = tl.zeros((BLOCK,), tl.float32) + tl.load(bias_ptr + channel).to(tl.float32)
        for k in tl.static_range(K):
            tap = at - (K - 1 - k) * dilation
            x = tl.load(x_ptr + row * T + tap, mask=(tap >= 0) & (tap < T), other=0.0)
            y += tl.load(weight_ptr + channel * K + k).to(tl.float32) * x.to(tl.float32)
        tl.store(y_ptr + row * T + at, y.to(y_ptr.dtype.element_ty), mask=at < T)

    @triton.jit
    def _backward(
        g_ptr, x_ptr, weight_ptr, dx_ptr, dw_ptr, db_ptr, C, T, dilation,
        K: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)
        channel = row % C
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * T + at, mask=at < T, other=0.0).to(tl.float32)
        dx = tl.zeros((BLOCK,), tl.float32)
        for k in tl.static_range(K):
            tap = at + (K - 1 - k) * dilation
            g = tl.load(g_ptr + row * T + tap, mask=tap < T, other=0.0).to(tl.float32)
            dx += tl.load(weight_ptr + channel * K + k).to(tl.float32) * g
            tl.atomic_add(dw_ptr + channel * K + k, tl.sum(g * x, axis=0))
            if k == K - 1:
                tl.atomic_add(db_ptr + channel, tl.sum(g, axis=0))
        tl.store(dx_ptr + row * T + at, dx.to(dx_ptr.dtype.element_ty), mask=at < T)


class _Kernels(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
        x = x.contiguous()
        _, C, T = x.shape
        y = torch.empty_like(x)
        grid, block = blocks_of(x)
        _forward[grid](x, weight, bias, y, C, T, dilation, K=weight.shape[-1], BLOCK=block)
        ctx.save_for_backward(x, weight)
        ctx.dilation = dilation
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        _, C, T = x.shape
        gradient, dx = gradients[0].contiguous(), torch.empty_like(x)
        dw = torch.zeros(weight.shape, device=x.device, dtype=torch.float32)
        db = torch.zeros(C, device=x.device, dtype=torch.float32)
        grid, block = blocks_of(x)
        _backward[grid](
            gradient, x, weight, dx, dw, db, C, T, ctx.dilation, K=weight.shape[-1], BLOCK=block
        )
        return dx, dw.to(weight.dtype), db.to(weight.dtype), None


def depthwise(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """`x [B, C, T]`, `weight [C, 1, K]`, `bias [C]`; output `t` sees no input after `t`."""
    if x.is_cuda and triton is not None:
        return _Kernels.apply(x, weight, bias, dilation)
    return plain_depthwise(x, weight, bias, dilation)
