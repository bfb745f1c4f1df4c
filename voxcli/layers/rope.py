"""Rotary position embedding with LongRoPE factors, as one complex product.

A head's channels are stored in interleaved pairs (`interleave_heads` permutes the rows of query and
key projections once, when they are loaded), so that rotating by position is a product with
`exp(i * angle)`. Query-key products are unchanged by the permutation because both sides share it.

Letters: `N` positions, `H` heads, `D` head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from voxcli.layers.rotary import rotation_table


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
    table = rotation_table(
        num_positions, head_dim, theta=theta, factors=factors, amplitude=amplitude
    )
    return torch.from_numpy(table).to(device)


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
