"""Attention in plain tensor operations: over a few rows, and over the rows' own slots.

Letters: `B` rows, `H` query heads, `G` key/value heads, `C` head width, `N` positions of a slot,
`M` queries.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

PROMPT_TILE = 64  # positions of a prompt that go together in a kernel
TILES_AT_ONCE = 16  # in plain operations: a slot is copied for each


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


def attend_tiles(
    queries: Tensor, keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor,
    tiles: Tensor, scale: float,
) -> Tensor:  # fmt: skip
    """`attend_slots` of rows whose neighbours share a slot, which is read once for each tile.

    Args:
        tiles: int64 `[T, 2]`, first and end of at most `PROMPT_TILE` rows of one slot, at
            positions that follow each other.
    """
    B, H, C = queries.shape
    _, G, N, _ = keys.shape
    places = torch.arange(N, device=keys.device)
    out = queries.new_zeros(B + 1, H, C)  # the last row is thrown away
    for first, end in (some.unbind(1) for some in tiles.split(TILES_AT_ONCE)):
        rows = first.unsqueeze(1) + torch.arange(PROMPT_TILE, device=keys.device)  # [T, tile]
        own = rows.clamp(max=B - 1)
        seen = (places <= positions[own].unsqueeze(2)).unsqueeze(1)  # [T, 1, tile, N]
        # zeroed, because what a former request left there may be infinite
        last = positions[(end - 1).clamp(min=0)]
        stale = (places > last.unsqueeze(1)).view(-1, 1, N, 1)
        k, v = (
            part[slots[first]].masked_fill(stale, 0.0).repeat_interleave(H // G, 1)
            for part in (keys, values)
        )
        attended = F.scaled_dot_product_attention(
            queries[own].transpose(1, 2), k, v, attn_mask=seen, scale=scale
        ).transpose(1, 2)  # [T, tile, H, C]
        out[torch.where(rows < end.unsqueeze(1), rows, B)] = attended
    return out[:-1]
