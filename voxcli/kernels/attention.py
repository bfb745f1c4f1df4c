"""Attention over the slots' caches: one position of each row in a step, many in a prompt.

Both rotate queries and keys as they read them (interleaved pairs, `layers/rope.py`), and where a
model does so normalise each head before, so the product before them stays a plain product. Grouped
queries: the heads of a group are the rows of one tile.

Letters: `B` rows, `H` query heads, `G` key/value heads, `C` head width, `N` positions.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.layers.attention import PROMPT_TILE, attend_slots
from voxcli.layers.rope import rotate

CHUNK = 256  # cached positions that one program reads


def split_heads(qkv: Tensor, num_heads: int, num_kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """`[..., (H + 2 G) C]` to `[..., H, C]` and twice `[..., G, C]`."""
    heads = qkv.unflatten(-1, (num_heads + 2 * num_kv_heads, -1))
    queries, keys, values = heads.split((num_heads, num_kv_heads, num_kv_heads), dim=-2)
    return queries, keys, values


def _normed(
    q: Tensor, k: Tensor, head_norm: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if head_norm is None:
        return q, k
    heads = torch.cat((q, k), dim=-2)
    normed = F.rms_norm(heads, heads.shape[-1:], None, eps) * head_norm
    q, k = normed.split((q.shape[-2], k.shape[-2]), dim=-2)
    return q, k


def decode_attention_reference(
    qkv: Tensor, rotation: Tensor | None, keys: Tensor, values: Tensor, slots: Tensor,
    positions: Tensor, num_heads: int, scale: float, head_norm: Tensor | None = None,
    eps: float = 0.0,
) -> Tensor:  # fmt: skip
    q, k, v = split_heads(qkv, num_heads, keys.shape[1])
    q, k = _normed(q, k, head_norm, eps)
    if rotation is not None:
        turns = rotation[positions]
        q, k = rotate(q.contiguous(), turns), rotate(k.contiguous(), turns)
    keys[slots, :, positions] = k
    values[slots, :, positions] = v
    return attend_slots(q, keys, values, slots, positions, scale).flatten(1)


@triton.jit
def load_rotated(
    x, rotation, mask, T: tl.constexpr, C: tl.constexpr, HAS_ROPE: tl.constexpr, norm=None,
    eps=0.0, HAS_NORM: tl.constexpr = False,
):  # fmt: skip
    """`[T, C]` behind the pointers `x [T, 1]`, rotated by what is behind `rotation [T, 1]`.

    With a norm, whose weights are behind `norm [T, 1]`, each row is normalised before.
    """
    c = tl.arange(0, C)
    value = tl.load(x + c[None, :], mask=mask, other=0.0)
    if HAS_NORM:
        wide = value.to(tl.float32)
        factor = tl.rsqrt(tl.sum(wide * wide, axis=1) / C + eps)
        weight = tl.load(norm + c[None, :], mask=mask, other=0.0).to(tl.float32)
        value = (wide * factor[:, None] * weight).to(value.dtype)
    if HAS_ROPE:
        even, odd = tl.split(tl.reshape(value.to(tl.float32), (T, C // 2, 2)))
        turn = tl.load(rotation + c[None, :], mask=mask, other=0.0)
        cosine, sine = tl.split(tl.reshape(turn, (T, C // 2, 2)))
        turned = tl.join(even * cosine - odd * sine, even * sine + odd * cosine)
        value = tl.reshape(turned, (T, C)).to(value.dtype)
    return value


@triton.jit(do_not_specialize_on_alignment=["slots", "positions"])
def _decode(
    qkv, rotation, keys, values, slots, positions, out, partial, stats, counters, scale, N,
    head_norm, eps,
    H: tl.constexpr, G: tl.constexpr, C: tl.constexpr, R: tl.constexpr, CHUNK: tl.constexpr,
    HAS_ROPE: tl.constexpr, HAS_NORM: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b, g, chunk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    position = tl.load(positions + b)
    slot = tl.load(slots + b)
    wait(EARLY)
    num_chunks = (position // CHUNK + 1).to(tl.int32)
    if chunk >= num_chunks:
        return
    r, c = tl.arange(0, R), tl.arange(0, C)
    is_head = r < H // G
    heads = qkv + b * (H + 2 * G) * C
    turn = rotation + position * C
    # the group's query heads and, in the row after them, the new key
    row = tl.where(is_head, g * (H // G) + r, H + g)
    is_row = (r <= H // G)[:, None]
    q = load_rotated(
        heads + row[:, None] * C, turn + 0 * r[:, None], is_row, R, C, HAS_ROPE,
        head_norm + row[:, None] * C, eps, HAS_NORM,
    )  # fmt: skip
    key = tl.sum(tl.where((r == H // G)[:, None], q.to(tl.float32), 0.0), axis=0).to(q.dtype)
    value = tl.load(heads + (H + G + g) * C + c)
    cache = ((slot * G + g) * N).to(tl.int64) * C
    if chunk == num_chunks - 1:
        tl.store(keys + cache + position * C + c, key)
        tl.store(values + cache + position * C + c, value)
    n = chunk * CHUNK + tl.arange(0, CHUNK)
    is_past, is_now = n < position, n == position
    places = cache + n[:, None] * C + c[None, :]
    k = tl.load(keys + places, mask=is_past[:, None], other=0.0)
    v = tl.load(values + places, mask=is_past[:, None], other=0.0)
    k = tl.where(is_now[:, None], key[None, :], k)
    v = tl.where(is_now[:, None], value[None, :], v)
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where((n <= position)[None, :], scores, float("-inf"))
    top = tl.max(scores, axis=1)
    weights = tl.exp(scores - top[:, None])
    total = tl.sum(weights, axis=1)
    mixed = tl.dot(weights.to(v.dtype), v)  # [R, C]
    places = (b * H + g * (H // G) + r)[:, None] * C + c[None, :]
    if num_chunks == 1:
        tl.store(out + places, (mixed / total[:, None]).to(qkv.dtype.element_ty), is_head[:, None])
        return
    first = (b * G + g) * tl.num_programs(2)
    tl.store(partial + ((first + chunk) * R + r)[:, None] * C + c[None, :], mixed)
    tl.store(stats + (first + chunk) * 2 * R + r, top)
    tl.store(stats + (first + chunk) * 2 * R + R + r, total)
    tl.debug_barrier()
    # the last program of a row and group to arrive adds the parts up, always in the same order
    if tl.atomic_add(counters + b * G + g, 1, sem="acq_rel") < num_chunks - 1:
        return
    tl.store(counters + b * G + g, 0)
    top = tl.full((R,), float("-inf"), tl.float32)
    total = tl.zeros((R,), tl.float32)
    mixed = tl.zeros((R, C), tl.float32)
    for other in range(num_chunks):
        other_top = tl.load(stats + (first + other) * 2 * R + r, cache_modifier=".cg")
        other_total = tl.load(stats + (first + other) * 2 * R + R + r, cache_modifier=".cg")
        part = tl.load(
            partial + ((first + other) * R + r)[:, None] * C + c[None, :], cache_modifier=".cg"
        )
        new_top = tl.maximum(top, other_top)
        old, new = tl.exp(top - new_top), tl.exp(other_top - new_top)
        total = total * old + other_total * new
        mixed = mixed * old[:, None] + part * new[:, None]
        top = new_top
    tl.store(out + places, (mixed / total[:, None]).to(qkv.dtype.element_ty), is_head[:, None])


class Scratch:
    """What the programs of one call hand to each other; calls in one stream may share it.

    Args:
        num_rows: the most rows of a call.
        num_positions: static length of a slot.
        chunk: cached positions that one program reads.
    """

    def __init__(
        self, num_rows: int, num_positions: int, num_kv_heads: int, group: int, head_dim: int,
        device: torch.device, chunk: int = CHUNK,
    ) -> None:  # fmt: skip
        self.chunk = chunk
        self.num_chunks = triton.cdiv(num_positions, chunk)
        self.rows_a_group = max(16, triton.next_power_of_2(group + 1))
        places = num_rows * num_kv_heads * self.num_chunks * self.rows_a_group
        self.partial = torch.empty(places * head_dim, device=device)
        self.stats = torch.empty(places * 2, device=device)
        self.counters = torch.zeros(num_rows * num_kv_heads, dtype=torch.int32, device=device)


def decode_attention(
    qkv: Tensor, rotation: Tensor | None, keys: Tensor, values: Tensor, slots: Tensor,
    positions: Tensor, num_heads: int, scale: float, scratch: Scratch,
    head_norm: Tensor | None = None, eps: float = 0.0,
) -> Tensor:  # fmt: skip
    """Normalise, rotate, write this position's key and value, attend.

    Args:
        qkv: `[B, (H + 2 G) C]`, not rotated.
        rotation: complex64 `[positions, 1, C/2]` or None.
        keys, values: one layer's cache `[slots, G, N, C]`, written at `(slot, position)`.
        slots, positions: int64 `[B]`.
        head_norm: `[H + G, C]`, of each query and key head, or None.

    Returns:
        `[B, H C]`.
    """
    B = len(qkv)
    _, G, N, C = keys.shape
    out = qkv.new_empty(B, num_heads * C)
    turns = qkv if rotation is None else torch.view_as_real(rotation)
    launch(
        _decode, (B, G, scratch.num_chunks),
        qkv, turns, keys, values, slots, positions, out, scratch.partial, scratch.stats,
        scratch.counters, scale, N, qkv if head_norm is None else head_norm, eps, num_heads, G, C,
        scratch.rows_a_group, scratch.chunk, rotation is not None, head_norm is not None,
        num_warps=8 if scratch.chunk >= 128 else 2, **options(qkv.device),
    )  # fmt: skip
    return out


def prompt_attention_reference(
    qkv: Tensor, rotation: Tensor | None, keys: Tensor, values: Tensor, slots: Tensor,
    positions: Tensor, num_heads: int, scale: float, head_norm: Tensor | None = None,
    eps: float = 0.0,
) -> Tensor:  # fmt: skip
    # all keys are written before any is read, so positions of one prompt see each other
    return decode_attention_reference(
        qkv, rotation, keys, values, slots, positions, num_heads, scale, head_norm, eps
    )


@triton.jit(do_not_specialize_on_alignment=["slots", "positions"])
def _rotate_prompt(
    qkv, rotation, keys, values, slots, positions, N, head_norm, eps,
    H: tl.constexpr, G: tl.constexpr, C: tl.constexpr, BLOCK_H: tl.constexpr,
    HAS_ROPE: tl.constexpr, HAS_NORM: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)
    h, c = tl.arange(0, BLOCK_H)[:, None], tl.arange(0, C)[None, :]
    wait(EARLY)
    position = tl.load(positions + n)
    heads = qkv + n * ((H + 2 * G) * C)
    cached = (tl.load(slots + n) * G * N + position) * C + c
    is_key, is_value = (h >= H) & (h < H + G), (h >= H + G) & (h < H + 2 * G)
    turn = rotation + position * C + 0 * h
    x = load_rotated(
        heads + h * C, turn, h < H + G, BLOCK_H, C, HAS_ROPE, head_norm + h * C, eps, HAS_NORM
    )
    value = tl.load(heads + h * C + c, mask=is_value, other=0.0)
    if HAS_ROPE or HAS_NORM:
        tl.store(heads + h * C + c, x, mask=h < H + G)
    tl.store(keys + cached + (h - H) * N * C, x, mask=is_key)
    tl.store(values + cached + (h - H - G) * N * C, value, mask=is_value)


@triton.jit(do_not_specialize_on_alignment=["slots", "positions", "tiles"])
def _attend_prompt(
    qkv, keys, values, slots, positions, tiles, out, scale, N,
    H: tl.constexpr, G: tl.constexpr, C: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    tile, h = tl.program_id(0), tl.program_id(1)
    m, c = tl.arange(0, BLOCK_M), tl.arange(0, C)
    wait(EARLY)
    first = tl.load(tiles + 2 * tile).to(tl.int32)
    num_rows = tl.load(tiles + 2 * tile + 1).to(tl.int32) - first
    if num_rows <= 0:
        return
    start = tl.load(positions + first).to(tl.int32)
    is_own = (m < num_rows)[:, None]
    position, rows = (start + m)[:, None], (first + m)[:, None]
    q = tl.load(qkv + (rows * (H + 2 * G) + h) * C + c[None, :], is_own, 0.0)
    cache = (tl.load(slots + first) * G + h // (H // G)) * N * C
    end = tl.minimum(start + num_rows, N)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    mixed = tl.zeros((BLOCK_M, C), tl.float32)
    for block in range(0, end, BLOCK_N):
        past = block + tl.arange(0, BLOCK_N)
        places = cache + past[:, None] * C + c[None, :]
        k = tl.load(keys + places, mask=(past < end)[:, None], other=0.0)
        v = tl.load(values + places, mask=(past < end)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(past[None, :] <= position, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_top[:, None])
        old = tl.exp(top - new_top)
        total = total * old + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * old[:, None])
        top = new_top
    mixed = (mixed / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + (rows * H + h) * C + c[None, :], mixed, is_own)


def prompt_attention(
    qkv: Tensor, rotation: Tensor | None, keys: Tensor, values: Tensor, slots: Tensor,
    positions: Tensor, tiles: Tensor, num_heads: int, scale: float,
    head_norm: Tensor | None = None, eps: float = 0.0,
) -> Tensor:  # fmt: skip
    """Normalise, rotate, write each position's key and value, attend to all up to each.

    Args:
        qkv: `[n, (H + 2 G) C]`; queries and keys are normalised and rotated in place.
        rotation: complex64 `[positions, 1, C/2]` or None.
        keys, values: one layer's cache `[slots, G, N, C]`; what a position sees and is not among
            these is there.
        slots, positions: int64 `[n]`.
        tiles: int64 `[T, 2]`, first and end of at most `PROMPT_TILE` rows of one slot, at
            positions that follow each other; rows of none have no result.
        head_norm: `[H + G, C]`, of each query and key head, or None.

    Returns:
        `[n, H C]`.
    """
    n = len(qkv)
    _, G, N, C = keys.shape
    out = qkv.new_empty(n, num_heads * C)
    turns = qkv if rotation is None else torch.view_as_real(rotation)
    launch(
        _rotate_prompt, (n,),
        qkv, turns, keys, values, slots, positions, N, qkv if head_norm is None else head_norm, eps,
        num_heads, G, C, triton.next_power_of_2(num_heads + 2 * G), rotation is not None, head_norm
        is not None,
        num_warps=4, **options(qkv.device),
    )  # fmt: skip
    launch(
        _attend_prompt, (len(tiles), num_heads),
        qkv, keys, values, slots, positions, tiles, out, scale, N, num_heads, G, C, PROMPT_TILE,
        PROMPT_TILE,
        num_warps=4, num_stages=3, **options(qkv.device),
    )  # fmt: skip
    return out
