"""Rotary position embedding with LongRoPE factors, as one complex product.

A head's channels are stored in interleaved pairs (`interleave_heads` permutes the rows of query and
key projections once, when they are loaded), so that rotating by position is a product with
`exp(i * angle)`. Query-key products are unchanged by the permutation because both sides share it.

Source: RoFormer (arXiv:2104.09864), LongRoPE (arXiv:2402.13753); the amplitude factor and the
choice of factors follow OpenBMB/VoxCPM `modules/minicpm4/model.py` (Apache-2.0).

Letters: `N` positions, `H` heads, `D` head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def rotations(
    num_positions: int,
    head_dim: int,
    *,
    theta: float,
    factors: Sequence[float],
    amplitude: float = 1.0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Table of rotations, complex64 `[N, 1, D/2]`, to be broadcast over heads."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
    inverse_frequencies = 1.0 / theta**exponents
    stretch = torch.tensor(factors, dtype=torch.float32, device=device)
    positions = torch.arange(num_positions, dtype=torch.float32, device=device)
    angles = torch.outer(positions, 1.0 / stretch) * inverse_frequencies
    return torch.polar(torch.full_like(angles, amplitude), angles).unsqueeze(1)


def interleave_heads(weight: Tensor, head_dim: int) -> Tensor:
    """Reorder projection rows `[H*D, K]`: a head's channels `i` and `i + D/2` become neighbours."""
    rows, width = weight.shape
    halves = weight.view(rows // head_dim, 2, head_dim // 2, width)
    return halves.transpose(1, 2).reshape(rows, width)


def rotate_(x: Tensor, rotation: Tensor) -> None:
    """`rotate` in place on fp32 heads `[..., H, D]`, which may be a part of a wider tensor."""
    torch.view_as_complex(x.unflatten(-1, (-1, 2))).mul_(rotation)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate interleaved heads `[..., H, D]` by complex64, broadcastable to `[..., H, D/2]`."""
    pairs = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)
