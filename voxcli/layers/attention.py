"""Attention of one position a row over the rows' own slots, in plain tensor operations.

Letters: `B` rows, `H` query heads, `G` key/value heads, `C` head width, `N` positions of a slot.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
