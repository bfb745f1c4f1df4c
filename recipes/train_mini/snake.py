"""Snake, `x + sin(a x)^2 / a`: forward and backward in a Triton kernel each, in torch on a CPU.

Source: Ziyin et al., arXiv:2006.08195. Letters: `B` rows, `C` channels, `T` time steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a card
    triton = None

EPSILON = 1e-9  # as the official layer has it


def plain_snake(x: Tensor, alpha: Tensor) -> Tensor:
    """`x [B, C, T]`, `alpha [1, C, 1]`; the reference of the kernels."""
    return x + (alpha + EPSILON).reciprocal() * torch.sin(alpha * x).square()


if triton is not None:

    @triton.jit
    def _forward(x_ptr, alpha_ptr, y_ptr, C, T, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = at < T
        alpha = tl.load(alpha_ptr + row % C).to(tl.float32)
        x = tl.load(x_ptr + row * T + at, mask=inside, other=0.0).to(tl.float32)
        sine = tl.sin(alpha * x)
        y = x + sine * sine / (alpha + eps)
        tl.store(y_ptr + row * T + at, y.to(y_ptr.dtype.element_ty), mask=inside)

    @triton.jit
    def _backward(g_ptr, x_ptr, alpha_ptr, dx_ptr, da_ptr, C, T, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = at < T
        alpha = tl.load(alpha_ptr + row % C).to(tl.float32)
        x = tl.load(x_ptr + row * T + at, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + row * T + at, mask=inside, other=0.0).to(tl.float32)
        sine = tl.sin(alpha * x)
        double = 2.0 * sine * tl.cos(alpha * x)
        inverse = 1.0 / (alpha + eps)
        dx = g * (1.0 + double * alpha * inverse)
        tl.store(dx_ptr + row * T + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        da = g * (x * double * inverse - sine * sine * inverse * inverse)
        tl.atomic_add(da_ptr + row % C, tl.sum(da, axis=0))


def blocks_of(x: Tensor) -> tuple[tuple[int, int], int]:
    """The grid of a kernel over `x [B, C, T]`, one program a block of a row, and a block's size."""
    B, C, T = x.shape
    block = min(1024, triton.next_power_of_2(T))
    return (B * C, triton.cdiv(T, block)), block


class _Kernels(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor) -> Tensor:
        x = x.contiguous()
        _, C, T = x.shape
        y = torch.empty_like(x)
        grid, block = blocks_of(x)
        _forward[grid](x, alpha, y, C, T, EPSILON, BLOCK=block)
        ctx.save_for_backward(x, alpha)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors
        _, C, T = x.shape
        gradient = gradients[0].contiguous()
        dx = torch.empty_like(x)
        da = torch.zeros(C, device=x.device, dtype=torch.float32)
        grid, block = blocks_of(x)
        _backward[grid](gradient, x, alpha, dx, da, C, T, EPSILON, BLOCK=block)
        return dx, da.view_as(alpha).to(alpha.dtype)


def snake(x: Tensor, alpha: Tensor) -> Tensor:
    """`x [B, C, T]`, `alpha [1, C, 1]`."""
    if x.is_cuda and triton is not None:
        return _Kernels.apply(x, alpha)
    return plain_snake(x, alpha)
