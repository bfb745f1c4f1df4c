"""Codes drawn from scores, and what is heard of them, in one kernel each.

`draw` is the filters and the noise of `layers/sampling.py`: the same integers, the device's
logarithms. It sorts nothing: the score that top-k or top-p leaves as the last one is found bit by
bit, by counting what lies above. The embedding of the code that it drew goes along.

Letters: `B` rows, `K` codebooks, `V` codes a book, `C` codec ids, `D` and `T` widths.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.layers.sampling import MIN_PENALTY, MIN_TEMPERATURE, Filters, gumbel, penalised

HEAR_BLOCK = 512
NEVER, ALWAYS, END = 0, 1, 2  # kinds of ids: never drawn, always possible, the end


@dataclass(frozen=True)
class Draws:
    """How rows draw; one object for all books of a step.

    Attributes:
        seeds, steps, top_k: int64 `[B]`.
        temperature, top_p: float32 `[B]`.
        is_greedy: take the largest, whatever the other settings are.
    """

    seeds: Tensor
    steps: Tensor
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    is_greedy: bool


@dataclass(frozen=True)
class History:
    """What codes 0 are drawn by besides.

    Attributes:
        slots: int64 `[B]`.
        seen: bool `[slots, C]`, of each slot.
        penalty: float32 `[B]`, on scores of what was seen.
        kinds: int8 `[C]`, `NEVER`, `ALWAYS` or `END`.
        min_tokens: steps before the end is possible.
        ends: bool `[B]`, written: whether the end was drawn, in whose place code 0 is written.
    """

    slots: Tensor
    seen: Tensor
    penalty: Tensor
    kinds: Tensor
    min_tokens: int
    ends: Tensor


def draw_reference(
    scores: Tensor, draws: Draws, book: int, frames: Tensor, table: Tensor | None,
    heard: Tensor | None, history: History | None,
) -> None:  # fmt: skip
    scores = scores.float()
    V = scores.shape[1]
    if history is not None:
        scores = penalised(scores, history.seen[history.slots], history.penalty)
        is_early = (draws.steps < history.min_tokens).unsqueeze(1)
        never = (history.kinds == NEVER) | ((history.kinds == END) & is_early)
        scores = scores.masked_fill(never, -torch.inf)
    if not draws.is_greedy:
        scores = Filters(draws.temperature, draws.top_k, draws.top_p)(scores)
        books = range(book, book + 1)
        scores = scores + gumbel(draws.seeds, draws.steps, books, V, in_tensors=True)[:, 0]
    codes = scores.argmax(1)
    if history is not None:
        history.ends.copy_(history.kinds[codes] == END)
        codes = codes.masked_fill(history.ends, 0)
    frames[:, book] = codes
    if table is not None and heard is not None:
        heard.copy_(F.embedding(codes, table))


@triton.jit
def _ordered(x):
    """Whole numbers that are ordered like float32 numbers are."""
    bits = x.to(tl.int32, bitcast=True)
    flipped = tl.where(bits < 0, bits ^ -1, bits ^ -2147483648)
    return flipped.to(tl.uint32, bitcast=True)


@triton.jit(
    do_not_specialize=["book", "min_tokens"],
    do_not_specialize_on_alignment=["seeds", "steps", "top_k", "slots", "temperature", "top_p",
                                    "penalty", "frames", "ends"],
)  # fmt: skip
def _draw(
    scores, seeds, steps, temperature, top_k, top_p, frames, table, heard,
    slots, seen, penalty, kinds, ends, book, min_tokens, frame_stride, heard_stride,
    V: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
    LOW: tl.constexpr, IS_GREEDY: tl.constexpr, HAS_HISTORY: tl.constexpr,
    HAS_TABLE: tl.constexpr, MIN_T: tl.constexpr, MIN_P: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    v = tl.arange(0, BLOCK)
    step = tl.load(steps + b)
    wait(EARLY)
    x = tl.load(scores + b.to(tl.int64) * V + v, mask=v < V, other=float("-inf")).to(tl.float32)
    if HAS_HISTORY:
        slot = tl.load(slots + b)
        was_seen = tl.load(seen + slot * V + v, mask=v < V, other=0) != 0
        by = tl.maximum(tl.load(penalty + b), MIN_P)
        x = tl.where(was_seen, tl.where(x > 0, x / by, x * by), x)
        kind = tl.load(kinds + v, mask=v < V, other=0)
        possible = (kind == 1) | ((kind == 2) & (step >= min_tokens))
        x = tl.where(possible, x, float("-inf"))
    if not IS_GREEDY:
        key = _ordered(x)
        x = x / tl.maximum(tl.load(temperature + b), MIN_T)
        k = tl.minimum(tl.maximum(tl.load(top_k + b), 1), V).to(tl.int32)
        least = tl.zeros((), tl.uint32)
        for bit in tl.static_range(31, LOW - 1, -1):
            trial = least | tl.full((), 1 << bit, tl.uint32)
            count = tl.sum((key >= trial).to(tl.int32), axis=0)
            least = tl.where(count >= k, trial, least)
        is_left = key >= least
        share = tl.load(top_p + b)
        if share < 1.0:
            best = tl.max(x, axis=0)
            mass = tl.where(is_left & (v < V), tl.exp(x - best), 0.0)
            wanted = share * tl.sum(mass, axis=0)
            # the largest key above which there is still as much as is wanted is the first to go
            gone = tl.zeros((), tl.uint32)
            low = tl.full((), (1 << LOW) - 1, tl.uint32)
            for bit in tl.static_range(31, LOW - 1, -1):
                trial = gone | tl.full((), 1 << bit, tl.uint32)
                above = tl.sum(tl.where(key > (trial | low), mass, 0.0), axis=0)
                gone = tl.where(above >= wanted, trial, gone)
            is_left = is_left & ((key > (gone | low)) | (x == best))
        seed = tl.load(seeds + b)
        k0 = (seed & 0xFFFFFFFF).to(tl.uint32)
        k1 = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
        c0 = tl.arange(0, BLOCK // 4).to(tl.uint32)
        c1 = tl.zeros_like(c0) + (step & 0xFFFFFFFF).to(tl.uint32)
        c2 = tl.zeros_like(c0) + (book + 1).to(tl.uint32)
        c3 = tl.zeros_like(c0)
        c0, c1, c2, c3 = tl.philox_impl(c0, c1, c2, c3, k0, k1, 10)
        words = tl.reshape(tl.join(tl.join(c0, c2), tl.join(c1, c3)), (BLOCK,))
        uniform = ((words >> 9).to(tl.float32) + 0.5) * (1.0 / 8388608.0)
        x = tl.where(is_left, x - tl.log(-tl.log(uniform)), float("-inf"))
    code = tl.argmax(x, axis=0).to(tl.int64)
    if HAS_HISTORY:
        is_end = tl.load(kinds + code) == 2
        tl.store(ends + b, is_end)
        code = tl.where(is_end, 0, code)
    tl.store(frames + b * frame_stride + book, code)
    if HAS_TABLE:
        d = tl.arange(0, BLOCK_D)
        row = tl.load(table + code * D + d, mask=d < D)
        tl.store(heard + b.to(tl.int64) * heard_stride + d, row, mask=d < D)


def draw(
    scores: Tensor, draws: Draws, book: int, frames: Tensor, table: Tensor | None = None,
    heard: Tensor | None = None, history: History | None = None,
) -> None:  # fmt: skip
    """Draw a code of each row.

    Args:
        scores: `[B, V]`, bf16 or fp32.
        frames: int64 `[B, K]`; the code is written at `book`.
        table: `[V, D]`; the code's row is written to `heard [B, D]`, whose rows may be apart.
        history: for codes 0.
    """
    B, V = scores.shape
    assert V % 4 == 0, V
    assert scores.is_contiguous(), scores.stride()
    # the order of scores of bf16 is in 16 bits; a penalty leaves more
    low = 16 if scores.dtype == torch.bfloat16 and history is None else 0
    D = 1 if table is None else table.shape[1]
    stride = 0 if heard is None else heard.stride(0)
    none = scores  # stands for what a kernel does not read
    slots, seen, penalty, kinds, ends = (
        (none,) * 5 if history is None
        else (history.slots, history.seen.view(torch.int8), history.penalty, history.kinds,
              history.ends.view(torch.int8))
    )  # fmt: skip
    launch(
        _draw, (B,),
        scores, draws.seeds, draws.steps, draws.temperature, draws.top_k, draws.top_p, frames,
        none if table is None else table, none if heard is None else heard,
        slots, seen, penalty, kinds, ends, book, 0 if history is None else history.min_tokens,
        frames.stride(0), stride, V, D, triton.next_power_of_2(V), triton.next_power_of_2(D), low,
        draws.is_greedy, history is not None, table is not None, MIN_TEMPERATURE, MIN_PENALTY,
        num_warps=8, **options(scores.device),
    )  # fmt: skip


def hear_reference(
    frames: Tensor, table: Tensor, texts: Tensor, text_ids: Tensor, num_codes: int,
    seen: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    books = torch.arange(frames.shape[1], device=frames.device) * num_codes
    seen[slots, frames[:, 0]] = True
    heard = F.embedding(frames + books, table).float().sum(1) + F.embedding(text_ids, texts).float()
    return heard.to(table.dtype)


@triton.jit(do_not_specialize_on_alignment=["text_ids", "slots"])
def _hear(
    frames, table, texts, text_ids, seen, slots, out,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wait(EARLY)
    total = tl.load(texts + tl.load(text_ids + b) * T + t, mask=t < T, other=0.0).to(tl.float32)
    for book in tl.static_range(K):
        code = tl.load(frames + b * K + book)
        row = table + (book * V + code) * T
        total += tl.load(row + t, mask=t < T, other=0.0).to(tl.float32)
    tl.store(out + b * T + t, total.to(out.dtype.element_ty), mask=t < T)
    if tl.program_id(1) == 0:
        tl.store(seen + tl.load(slots + b) * C + tl.load(frames + b * K), 1)


def hear(
    frames: Tensor, table: Tensor, texts: Tensor, text_ids: Tensor, num_codes: int,
    seen: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    """Sum of a frame's embeddings and a text's; and the frame's first code is seen from now on.

    Args:
        frames: int64 `[B, K]`.
        table: `[K V or more, T]`, book by book.
        texts: `[ids, T]`.
        text_ids, slots: int64 `[B]`.
        num_codes: V.
        seen: bool `[slots, C]`, written.

    Returns:
        `[B, T]`.
    """
    B, K = frames.shape
    T = table.shape[1]
    assert frames.is_contiguous(), frames.stride()
    out = table.new_empty(B, T)
    launch(
        _hear, (B, triton.cdiv(T, HEAR_BLOCK)),
        frames, table, texts, text_ids, seen.view(torch.int8), slots, out, K, num_codes,
        seen.shape[1], T, HEAR_BLOCK,
        num_warps=4, **options(frames.device),
    )  # fmt: skip
    return out
