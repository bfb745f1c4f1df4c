"""Attention of the few tokens of a patch on each other, with its result in bf16 or in eight bits.

Queries and keys are rotated as they are read, as in `kernels/attention.py`. Of many rows, several
heads of a group share the keys that one program has read. On cards of compute capability 9.0 many
rows take `patch_attention.cu` instead, a warp a head; `dense.SWITCH` turns it off, too.

Letters: `B` rows, `T` tokens, `H` query heads, `G` key/value heads, `C` head width.
"""

from __future__ import annotations

import ctypes
import logging
import os
from concurrent.futures import Future
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels import capability, compiling_alone
from voxcli.kernels.attention import load_rotated, split_heads
from voxcli.kernels.cubin import CubinError, Function, compiling, source_of
from voxcli.kernels.dense import CAPABILITY, SWITCH
from voxcli.kernels.fp8_rows import MAX_PAIRED_ROWS, Fp8Rows, new_rows, quantized, store_pair
from voxcli.kernels.launch import launch, options, wait
from voxcli.layers.rope import rotate

logger = logging.getLogger(__name__)

WARP_HEADS, WARP_WIDTH = 4, 128  # of a block of `patch_attention.cu`; of a head
WARP_TOKENS = range(9, 17)  # of fewer it gains less than its start costs; more it cannot
WARP_MIN_ROWS = 64  # from so many on it was faster on an H200


def local_attention_reference(
    qkv: Tensor, rotation: Tensor | None, num_heads: int, num_kv_heads: int, first: int,
    scale: float,
) -> Tensor:  # fmt: skip
    q, k, v = split_heads(qkv, num_heads, num_kv_heads)
    if rotation is not None:
        q, k = rotate(q.contiguous(), rotation), rotate(k.contiguous(), rotation)
    group = num_heads // num_kv_heads
    q, k, v = (x.transpose(1, 2) for x in (q[:, first:], k, v))  # [B, heads, T, C]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    shares = ((q @ k.mT).float() * scale).softmax(-1).to(v.dtype)
    return (shares @ v).transpose(1, 2).flatten(2)


@triton.jit(do_not_specialize=["first"])
def _local(
    qkv, rotation, out, scale, first,
    T: tl.constexpr, H: tl.constexpr, G: tl.constexpr, C: tl.constexpr, BLOCK_T: tl.constexpr,
    HEADS: tl.constexpr, HAS_ROPE: tl.constexpr, IS_PAIR: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b, first_head = tl.program_id(0).to(tl.int64), tl.program_id(1) * HEADS
    g = first_head // (H // G)
    wait(EARLY)
    t, c = tl.arange(0, BLOCK_T), tl.arange(0, C)
    row = tl.arange(0, HEADS * BLOCK_T)
    q_token, head = row % BLOCK_T, first_head + row // BLOCK_T
    is_token, is_row = t < T, q_token < T
    start = qkv + b * (T * (H + 2 * G) * C)
    queries = start + (q_token * ((H + 2 * G) * C) + head * C)[:, None]
    tokens = start + (t * ((H + 2 * G) * C))[:, None]
    q = load_rotated(
        queries, rotation + q_token[:, None] * C, is_row[:, None], HEADS * BLOCK_T, C, HAS_ROPE
    )
    k = load_rotated(
        tokens + (H + g) * C, rotation + t[:, None] * C, is_token[:, None], BLOCK_T, C, HAS_ROPE
    )
    v = tl.load(tokens + (H + G + g) * C + c[None, :], mask=is_token[:, None], other=0.0)
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where(is_token[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    mixed = tl.dot(weights.to(v.dtype), v) / tl.sum(weights, axis=1)[:, None]
    places = (b * (T - first) + q_token - first)[:, None] * (H * C) + head[:, None] * C + c[None, :]
    is_kept = is_row & (q_token >= first)
    if IS_PAIR:
        step = tl.num_programs(0) * (T - first) * (H * C)
        store_pair(mixed, out, places, step, is_kept[:, None])
    else:
        tl.store(out + places, mixed.to(qkv.dtype.element_ty), mask=is_kept[:, None])


def sharing(num_rows: int, group: int) -> tuple[int, int]:
    """Heads of a group that share one program's keys, and warps; measured on an H100."""
    most = group & -group
    if num_rows < 16:
        return 1, 2
    if num_rows < 64:
        return min(4, most), 4
    return min(8, most), 8 if num_rows < 128 else 4


def local_attention(
    qkv: Tensor, rotation: Tensor | None, num_heads: int, num_kv_heads: int, first: int,
    scale: float,
) -> Tensor:  # fmt: skip
    """Every token on all tokens of its row.

    Args:
        qkv: `[B, T, (H + 2 G) C]`, not rotated.
        rotation: complex64 `[T, 1, C/2]` or None.
        first: tokens before it get no output.

    Returns:
        `[B, T - first, H C]`.
    """
    out = qkv.new_empty(_output_shape(qkv, num_heads, num_kv_heads, first))
    _run_local(qkv, rotation, out, num_heads, num_kv_heads, first, scale)
    return out


def local_attention_fp8(
    qkv: Tensor, rotation: Tensor | None, num_heads: int, num_kv_heads: int, first: int,
    scale: float,
) -> Fp8Rows:  # fmt: skip
    """`local_attention` for a product in eight bits to read."""
    shape = _output_shape(qkv, num_heads, num_kv_heads, first)
    if shape[0] * shape[1] > MAX_PAIRED_ROWS:  # a scale is found when the row is whole
        return quantized(local_attention(qkv, rotation, num_heads, num_kv_heads, first, scale))
    rows = new_rows(shape, qkv.device)
    _run_local(qkv, rotation, rows.values, num_heads, num_kv_heads, first, scale)
    return rows


def _output_shape(
    qkv: Tensor, num_heads: int, num_kv_heads: int, first: int
) -> tuple[int, int, int]:
    B, T, width = qkv.shape
    return B, T - first, width // (num_heads + 2 * num_kv_heads) * num_heads


def _run_local(
    qkv: Tensor, rotation: Tensor | None, out: Tensor, num_heads: int, num_kv_heads: int,
    first: int, scale: float,
) -> None:  # fmt: skip
    B, T, width = qkv.shape
    C = width // (num_heads + 2 * num_kv_heads)
    if out.ndim == 3 and (function := _warp_kernel(qkv, num_heads, num_kv_heads)):
        _run_warps(function, qkv, rotation, out, num_heads, first, scale)
        return
    turns = qkv if rotation is None else torch.view_as_real(rotation)
    heads, num_warps = sharing(B, num_heads // num_kv_heads)
    launch(
        _local, (B, num_heads // heads),
        qkv, turns, out, scale, first, T, num_heads, num_kv_heads, C, max(16,
        triton.next_power_of_2(T)), heads, rotation is not None, out.ndim == 4,
        num_warps=num_warps, **options(qkv.device),
    )  # fmt: skip


class _Params(ctypes.Structure):
    """`Params` of `patch_attention.cu`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("qkv", "turns", "out")),
        ("rows", ctypes.c_int), ("first", ctypes.c_int), ("scale", ctypes.c_float),
    )  # fmt: skip


def compile_options(num_tokens: int, num_heads: int, num_kv_heads: int) -> tuple[str, ...]:
    values = {"TOKENS": num_tokens, "HEADS": num_heads, "KV_HEADS": num_kv_heads}
    return (
        "--gpu-architecture=sm_90a", "--std=c++17",
        *(f"-D{name}={value}" for name, value in values.items()),
    )  # fmt: skip


def _compiling(num_tokens: int, num_heads: int, num_kv_heads: int) -> Future[bytes]:
    options = compile_options(num_tokens, num_heads, num_kv_heads)
    return compiling(source_of("patch_attention").encode(), options)


@cache
def _function(
    num_tokens: int, num_heads: int, num_kv_heads: int, device: torch.device
) -> Function | None:
    try:
        cubin = _compiling(num_tokens, num_heads, num_kv_heads).result()
        return Function(cubin, "attend", 32 * WARP_HEADS, 0, device)
    except CubinError as err:
        logger.info("attention of many patches is left to Triton: %s", err)
        return None


def _has_warps(device: torch.device, num_tokens: int, num_heads: int, head_dim: int) -> bool:
    """Whether heads of this kind are those of `patch_attention.cu`, and a card runs it."""
    return (
        num_tokens in WARP_TOKENS
        and head_dim == WARP_WIDTH
        and num_heads % WARP_HEADS == 0
        and capability(device) == CAPABILITY
        and os.environ.get(SWITCH) != "0"
    )


def compile_ahead(
    device: torch.device, num_tokens: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> None:
    """Begin to compile what many patches of so many tokens will launch; returns at once."""
    if device.type == "cuda" and _has_warps(device, num_tokens, num_heads, head_dim):
        _compiling(num_tokens, num_heads, num_kv_heads)


def _warp_kernel(qkv: Tensor, num_heads: int, num_kv_heads: int) -> Function | None:
    """The kernel in CUDA C++ where it runs and is faster; its first call is not in a capture."""
    B, T, width = qkv.shape
    head_dim = width // (num_heads + 2 * num_kv_heads)
    is_for = (
        B >= WARP_MIN_ROWS
        and qkv.dtype == torch.bfloat16
        and not compiling_alone.get()
        and _has_warps(qkv.device, T, num_heads, head_dim)
    )
    return _function(T, num_heads, num_kv_heads, qkv.device) if is_for else None


def _run_warps(
    function: Function, qkv: Tensor, rotation: Tensor | None, out: Tensor, num_heads: int,
    first: int, scale: float,
) -> None:  # fmt: skip
    B = len(qkv)
    assert qkv.is_contiguous(), qkv.stride()
    params = _Params(
        qkv=qkv.data_ptr(), turns=None if rotation is None else rotation.data_ptr(),
        out=out.data_ptr(), rows=B, first=first, scale=scale,
    )  # fmt: skip
    function.launch_early(B * num_heads // WARP_HEADS, params)
