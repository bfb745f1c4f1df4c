"""Attention in plain tensor operations: over a few rows, and over the rows' own slots.

Letters: `B` rows, `H` query heads, `G` key/value heads, `C` head width, `N` positions of a slot,
`M` queries.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def _zero(device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.zeros((), device=device, dtype=dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Queries `[G, M, C]` on keys and values `[G, N, C]`, without a mask; `[G, M, C]`.

    NOTE: not torch's one call: with it a row's bits depended on its neighbours (heads 12 wide).
    """
    scores = torch.baddbmm(_zero(q.device, q.dtype), q, k.mT, beta=0, alpha=scale)
    return torch.bmm(scores.softmax(-1), v)


def attend_slots(
    queries: Tensor, keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, scale: float
) -> Tensor:
    """Each row's query over its own slot, up to and with its position.

    Args:
        queries: `[B, H, C]`.
        keys, values: `[slots, G, N, C]`.
        slots, positions: int64 `[B]`.

    Returns:
        `[B, H, C]`.
    """
    B, H, C = queries.shape
    _, G, N, _ = keys.shape
    seen = torch.arange(N, device=keys.device) <= positions.unsqueeze(1)  # [B, N]
    scores = (queries.reshape(B, G, H // G, C) @ keys[slots].mT).float() * scale
    shares = scores.masked_fill(~seen.view(B, 1, 1, N), -torch.inf).softmax(-1)
    # zeroed, because what a former request left there may be infinite
    mine = values[slots].masked_fill(~seen.view(B, 1, N, 1), 0.0)
    return (shares.to(mine.dtype) @ mine).view(B, H, C)
