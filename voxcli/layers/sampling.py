"""One code of each row from its scores: filters, and noise that is the row's own.

The filters, in the order of transformers' processors: repetition penalty, temperature, top-k,
top-p. What is left is drawn by adding Gumbel noise and taking the largest, which is a draw from the
softmax. The noise is a function of seed, step, book and code, so no neighbour and no order of
computing can change it.

All of it is tensors alone: rows may differ in every setting. In rows that nobody has all settings
are zeros, which are taken as the nearest possible ones.

Source: `RepetitionPenaltyLogitsProcessor`, `TopKLogitsWarper`, `TopPLogitsWarper` of transformers
4.57.3 (Apache-2.0). Difference: of equal scores top-p keeps all or none.

Letters: `B` rows, `V` codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from voxcli.layers.noise import philox

MIN_TEMPERATURE = MIN_PENALTY = 1e-2
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Filters:
    """What of the scores is left.

    Attributes:
        temperature, top_p: float32 `[B]`.
        top_k: int64 `[B]`.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor

    def __call__(self, scores: Tensor) -> Tensor:
        """Scores `[B, V]`, float32, divided by the temperature; -inf where nothing is left."""
        V = scores.shape[-1]
        scores = scores / self.temperature.clamp(min=MIN_TEMPERATURE).unsqueeze(1)
        ranked = scores.sort(dim=-1, descending=True).values
        least = ranked.gather(1, (self.top_k.clamp(1, V) - 1).unsqueeze(1))  # [B, 1]
        shares = ranked.masked_fill(ranked < least, -torch.inf).softmax(-1)
        # of each rank: the share of all that come after it, and its own
        rest = shares.flip(1).cumsum(1).flip(1)
        num_kept = (rest > 1 - self.top_p.unsqueeze(1)).sum(1, keepdim=True).clamp(min=1)
        least = torch.maximum(least, ranked.gather(1, num_kept - 1))
        return scores.masked_fill(scores < least, -torch.inf)


def penalised(scores: Tensor, seen: Tensor, penalty: Tensor) -> Tensor:
    """Scores `[B, V]` with those of codes that came before made smaller.

    Args:
        seen: bool `[B, V]`.
        penalty: float32 `[B]`; 1 changes nothing.
    """
    by = penalty.clamp(min=MIN_PENALTY).unsqueeze(1)
    return torch.where(seen, torch.where(scores > 0, scores / by, scores * by), scores)


def gumbel(
    seeds: Tensor, steps: Tensor, books: range, num_codes: int, *, in_tensors: bool
) -> Tensor:
    """Standard Gumbel noise.

    Args:
        seeds: int64 `[B]`, in [0, 2**63).
        steps: int64 `[B]`, in [0, 2**32).
        books: codebooks to draw for.
        num_codes: of each, a multiple of 4.
        in_tensors: use no array on a CPU either, so that the function can be captured.

    Returns:
        float32 `[B, books, num_codes]`, on the device of `seeds`.
    """
    assert num_codes % 4 == 0, num_codes
    shape = (len(seeds), len(books), num_codes // 4)
    device = seeds.device
    block = torch.arange(shape[2], device=device).expand(shape)
    # NOTE: from 1 on: `layers.noise.normal` has the counters of 0
    book = torch.arange(1 + books.start, 1 + books.stop, device=device).view(1, -1, 1).expand(shape)
    step = (steps & _MASK).view(-1, 1, 1).expand(shape)
    zero = torch.zeros_like(block)
    low, high = (words.view(-1, 1, 1) for words in (seeds & _MASK, (seeds >> 32) & _MASK))
    if device.type == "cpu" and not in_tensors:
        c0, c1, c2, c3, k0, k1 = (
            words.numpy().astype(np.uint64) for words in (block, step, book, zero, low, high)
        )
        arrays = philox((c0, c1, c2, c3), (k0, k1))
        words = torch.from_numpy(np.stack(arrays, axis=-1).astype(np.int64))
    else:
        words = torch.stack(philox((block, step, book, zero), (low, high)), dim=-1)
    # 23 bits, so that the largest is below 1 in float32: -log(-log(1)) would be infinite
    uniform = ((words >> 9).to(torch.float32) + 0.5) * 2.0**-23
    return -torch.log(-torch.log(uniform)).flatten(2)
