"""Attention of a few new frames over a ring of past ones, which they then enter.

Letters: `B` rows, `T` new frames, `H` heads, `C` head width, `R` frames of the ring.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.layers.rope import rotate

MAX_FRAMES = 32  # new ones of a call


def ring_attention_reference(
    qkv: Tensor, frequencies: Tensor, keys: Tensor, values: Tensor, slots: Tensor, starts: Tensor
) -> Tensor:
    T = qkv.shape[1]
    _, H, R, C = keys.shape
    heads = qkv.unflatten(-1, (3 * H, C))
    new = torch.arange(T, device=qkv.device)
    positions = starts.unsqueeze(1) + new  # [B, T]
    angles = (positions.unsqueeze(-1) * frequencies).unsqueeze(2)
    turned = rotate(heads[:, :, : 2 * H].contiguous(), torch.polar(torch.ones_like(angles), angles))
    q, k, v = turned[:, :, :H], turned[:, :, H:], heads[:, :, 2 * H :]
    last = starts.unsqueeze(1) - 1
    old = last - (last - torch.arange(R, device=qkv.device)) % R  # [B, R]; below 0: none yet
    is_old = (old >= 0).unsqueeze(1) & (old.unsqueeze(1) >= positions.unsqueeze(-1) - R)
    age = new.unsqueeze(1) - new
    is_new = ((age >= 0) & (age <= R)).expand(len(qkv), T, T)
    all_keys = torch.cat((keys[slots], k.transpose(1, 2)), dim=2).float()
    all_values = torch.cat((values[slots], v.transpose(1, 2)), dim=2).float()
    scores = q.transpose(1, 2).float() @ all_keys.mT  # [B, H, T, R + T]
    is_seen = torch.cat((is_old, is_new), dim=-1).unsqueeze(1)
    shares = scores.masked_fill(~is_seen, -torch.inf).softmax(-1)
    places = positions[:, -R:] % R
    keys.transpose(1, 2)[slots.unsqueeze(1), places] = k[:, -R:]
    values.transpose(1, 2)[slots.unsqueeze(1), places] = v[:, -R:]
    return (shares @ all_values).transpose(1, 2).flatten(2).to(qkv.dtype)


@triton.jit
def _turned(x, cosine, sine, mask, C: tl.constexpr, BLOCK_T: tl.constexpr):
    """`[BLOCK_T, C]` behind pointers, rotated by pairs."""
    value = tl.load(x, mask=mask, other=0.0)
    even, odd = tl.split(tl.reshape(value.to(tl.float32), (BLOCK_T, C // 2, 2)))
    turned = tl.join(even * cosine - odd * sine, even * sine + odd * cosine)
    return tl.reshape(turned, (BLOCK_T, C)).to(value.dtype)


@triton.jit(do_not_specialize=["T"], do_not_specialize_on_alignment=["slots"])
def _ring_attention(
    qkv, frequencies, keys, values, slots, starts, out, T, R,
    H: tl.constexpr, C: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_R: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    h, b = tl.program_id(0), tl.program_id(1)
    t, c, r = tl.arange(0, BLOCK_T), tl.arange(0, C), tl.arange(0, BLOCK_R)
    frequency = tl.load(frequencies + tl.arange(0, C // 2))
    wait(EARLY)
    start = tl.load(starts + b)
    in_t = (t < T)[:, None]
    angle = (start + t).to(tl.float32)[:, None] * frequency[None, :]
    cosine, sine = tl.cos(angle), tl.sin(angle)
    rows = qkv + ((b * T + t) * (3 * H) + h)[:, None] * C + c[None, :]
    q = _turned(rows, cosine, sine, in_t, C, BLOCK_T)
    new_k = _turned(rows + H * C, cosine, sine, in_t, C, BLOCK_T)
    new_v = tl.load(rows + 2 * H * C, mask=in_t, other=0.0)
    ring = (tl.load(slots + b) * H + h) * R * C
    in_r = (r < R)[:, None]
    k = tl.load(keys + ring + r[:, None] * C + c[None, :], mask=in_r, other=0.0)
    v = tl.load(values + ring + r[:, None] * C + c[None, :], mask=in_r, other=0.0)
    last = start - 1
    old = (last - ((last - r) % R + R) % R)[None, :]
    position = (start + t)[:, None]
    is_old = (r < R)[None, :] & (old >= 0) & (old >= position - R)
    age = t[:, None] - t[None, :]
    is_new = (age >= 0) & (age <= R)
    scores = tl.where(is_old, tl.dot(q, tl.trans(k)), float("-inf"))
    new_scores = tl.where(is_new, tl.dot(q, tl.trans(new_k)), float("-inf"))
    top = tl.maximum(tl.max(scores, axis=1), tl.max(new_scores, axis=1))[:, None]
    shares, new_shares = tl.exp(scores - top), tl.exp(new_scores - top)
    total = tl.sum(shares, axis=1) + tl.sum(new_shares, axis=1)
    mixed = tl.dot(new_shares.to(v.dtype), new_v, tl.dot(shares.to(v.dtype), v))
    mixed = (mixed / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + ((b * T + t) * H + h)[:, None] * C + c[None, :], mixed, mask=in_t)
    tl.debug_barrier()  # all of the ring has been read
    places = ring + ((start + t) % R)[:, None] * C + c[None, :]
    is_kept = in_t & (t >= T - R)[:, None]
    tl.store(keys + places, new_k, mask=is_kept)
    tl.store(values + places, new_v, mask=is_kept)


def ring_attention(
    qkv: Tensor, frequencies: Tensor, keys: Tensor, values: Tensor, slots: Tensor, starts: Tensor
) -> Tensor:
    """Rotate, attend to the last R frames and to itself, replace the oldest of the ring.

    Args:
        qkv: `[B, T, 3 H C]`, T at most `MAX_FRAMES`; rotary pairs are neighbours and queries have
            their scale.
        frequencies: fp32 `[C / 2]`, radians a frame.
        keys, values: `[slots, H, R, C]`; frame t is at `t % R`.
        slots: int64 `[B]`.
        starts: int64 `[B]`, the first new frame of each row.

    Returns:
        `[B, T, H C]`.
    """
    B, T, _ = qkv.shape
    _, H, R, C = keys.shape
    assert T <= MAX_FRAMES, T
    out = qkv.new_empty(B, T, H * C)
    launch(
        _ring_attention, (H, B),
        qkv, frequencies, keys, values, slots, starts, out, T, R, H, C,
        max(16, triton.next_power_of_2(T)), max(16, triton.next_power_of_2(R)),
        num_warps=4, **options(qkv.device),
    )  # fmt: skip
    return out
